//! Runs a test in a process of its own, with a timeout, because it may hang if it fails.

use std::process::Command;

const CHILD: &str = "RAMIE_TEST_CHILD";

/// Runs `f` in a child process that this test program starts for the test of that name.
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
    // `timeout` exits with this status if the child waits or polls for ever.
    assert!(output.status.success(), "{}: {text}", output.status);
}
