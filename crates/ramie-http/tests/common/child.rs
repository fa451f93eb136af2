//! Tests in processes of their own.

use std::process::Command;

const CHILD: &str = "RAMIE_HTTP_TEST_CHILD";

/// Runs `f`, the body of the test that calls, in a process of its own, because `f` changes
/// something that concerns the whole process or that nobody can undo.
pub(crate) fn in_child(test: &str, f: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return f();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", test]).env(CHILD, "1").output().unwrap();
    // The child passes, too, if no test has this name.
    let has_run = String::from_utf8_lossy(&child.stdout).contains("1 passed");
    assert!(child.status.success() && has_run, "{child:?}");
}
