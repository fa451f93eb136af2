//! Records the commit, toolchain and profile of the build for the lab's reports.

use std::{env, path::Path, process::Command};

fn main() {
    let git = Path::new("../../.git");
    println!("cargo::rerun-if-changed=build.rs");
    for file in ["HEAD", "logs/HEAD"] {
        let path = git.join(file);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let commit = first_line("git", &["rev-parse", "--short=12", "HEAD"]);
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let toolchain = first_line(&rustc, &["--version"]);
    let profile = env::var("PROFILE").unwrap_or_default();
    println!("cargo::rustc-env=RAMIE_BUILD_COMMIT={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=RAMIE_BUILD_TOOLCHAIN={}", toolchain.unwrap_or_default());
    println!("cargo::rustc-env=RAMIE_BUILD_PROFILE={profile}");
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next().filter(|_| output.status.success())?;
    Some(line.trim().to_owned())
}
