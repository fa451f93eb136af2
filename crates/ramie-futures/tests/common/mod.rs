//! A test that needs a process of its own, and may hang where it fails.

use std::process::Command;

const CHILD: &str = "RAMIE_TEST_CHILD";

/// Runs `f` in a child that this test program starts for the test of that name.
pub(crate) fn in_child(test: &str, environment: &[(&str, &str)], f: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return f();
    }
    let output = Command::new("timeout")
        .arg("20")
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    // The status of `timeout`, if it waits, or is polled, for ever.
    assert!(output.status.success(), "{}: {text}", output.status);
}
