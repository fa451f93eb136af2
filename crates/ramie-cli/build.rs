//! Records the commit, toolchain, profile and flags of the build for the lab's reports.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for file in ["HEAD", "logs/HEAD"] {
        // Not ../../.git/HEAD, because .git is a file in a worktree.
        let path = first_line("git", &["rev-parse", "--git-path", file]).unwrap_or_default();
        if Path::new(&path).is_file() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = first_line("git", &["rev-parse", "--short=12", "HEAD"]);
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let toolchain = first_line(&rustc, &["--version"]);
    let profile = env::var("PROFILE").unwrap_or_default();
    println!("cargo::rustc-env=RAMIE_BUILD_COMMIT={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=RAMIE_BUILD_TOOLCHAIN={}", toolchain.unwrap_or_default());
    println!("cargo::rustc-env=RAMIE_BUILD_PROFILE={profile}");
    let level = env::var("OPT_LEVEL").unwrap_or_default();
    // Its separator cannot be typed.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().replace('\u{1f}', " ");
    let flags = format!("opt-level={level} {flags}");
    println!("cargo::rustc-env=RAMIE_BUILD_FLAGS={}", flags.trim());
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next().filter(|_| output.status.success())?;
    Some(line.trim().to_owned())
}
