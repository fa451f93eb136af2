//! The drivers of this machine, and tests that run in a process of their own, with a timeout,
//! because they may hang if they fail.

use std::{
    io::{ErrorKind, Write},
    process::Command,
};

use ramie::{Driver, Runtime};

const CHILD: &str = "RAMIE_TEST_CHILD";

/// Prints a line that bypasses libtest, because libtest hides the output of tests that pass.
fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The drivers that this machine has. Prints a line if a filter, a setting or an old kernel refuses
/// io_uring; any other error fails the test.
#[allow(dead_code, reason = "not each program needs them")]
pub(crate) fn drivers() -> Vec<Driver> {
    let Err(error) = Runtime::builder().driver(Driver::Uring).workers(1).build() else {
        return vec![Driver::Uring, Driver::Poll];
    };
    let is_refused = [ErrorKind::PermissionDenied, ErrorKind::Unsupported].contains(&error.kind());
    assert!(is_refused, "io_uring is allowed, but {error}");
    say(&format!("skipped: {error}"));
    vec![Driver::Poll]
}

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
    text.lines().filter(|line| line.starts_with("skipped: ")).for_each(say);
    // `timeout` exits with this status if the child waits or polls forever.
    assert!(output.status.success(), "{}: {text}", output.status);
}
