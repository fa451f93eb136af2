//! Without a program that they need, commands print the remedy and exit with a code of their own.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

fn bench(arguments: &[&str], path: &Path) -> (Option<i32>, String) {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_ramie-bench"));
    let output = bench.args(arguments).env("PATH", path).output().unwrap();
    assert!(output.stdout.is_empty(), "{arguments:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn nothing_is_measured_or_installed_without_wrk() {
    for command in ["http", "generators", "static"] {
        let (code, message) = bench(&[command], Path::new("/nonexistent"));
        assert_eq!(code, Some(3), "{command}");
        assert!(message.starts_with("SKIPPED: ") && message.lines().count() == 1, "{message}");
        assert!(message.contains("`apt-get install wrk`"), "{message}");
    }
}

#[test]
fn nothing_is_measured_or_built_without_a_peer_that_is_asked_for() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("with-wrk");
    fs::create_dir_all(&folder).unwrap();
    let wrk = folder.join("wrk");
    fs::write(&wrk, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&wrk, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["http", "--servers", "raw-epoll,hyper,go-net-http", "--peers", "/nonexistent"];
    let (code, message) = bench(&arguments, &folder);
    assert_eq!(code, Some(3), "{message}");
    let expected = "SKIPPED: hyper: build rust-http by `bench/peers/build rust-http`\n\
                    SKIPPED: go-net-http: build go by `bench/peers/build go`\n\
                    NOTHING was measured\n";
    assert_eq!(message, expected);
}
