//! The commands that need wrk print the remedy without it, and exit with a code of their own.

use std::process::Command;

#[test]
fn nothing_is_measured_or_installed_without_wrk() {
    for command in ["http", "generators"] {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_ramie-bench"));
        let output = bench.arg(command).env("PATH", "/nonexistent").output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{command}");
        assert!(output.stdout.is_empty(), "{command}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.starts_with("SKIPPED: ") && message.lines().count() == 1, "{message}");
        assert!(message.contains("`apt-get install wrk`"), "{message}");
    }
}
