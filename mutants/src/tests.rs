//! The test binaries: builds and runs them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{BUILD, TREE, list::Mutant};

/// Ends a test binary at its time limit, with all processes that it started, and names the tests
/// that were still running.
const LIMIT: &str = ".ci/limit";
const TIMED_OUT: i32 = 124;
/// Libtest prints this after the name of a test that failed.
const FAILED: &str = " ... FAILED";
/// The pause between two looks at the output of a binary.
const LOOK: Duration = Duration::from_millis(50);

/// The binaries, by `package:binary`.
pub type Binaries = BTreeMap<String, PathBuf>;

/// `package:binary` and the filter of a test's name in the list.
pub fn split(test: &str) -> (&str, Option<&str>) {
    let second = test.match_indices(':').nth(1).map(|(at, _)| at);
    second.map_or((test, None), |at| (&test[..at], Some(&test[at + 1..])))
}

/// The folder of the package in the tree, and further arguments for cargo.
fn package(name: &str) -> Result<(String, &'static [&'static str]), String> {
    match name {
        // The faults do nothing unless a test asks for them.
        "ramie" => Ok((format!("{TREE}/crates/ramie"), &["--features", "faults"])),
        "driver" => Ok((format!("{TREE}/crates/ramie-driver"), &["--features", "faults"])),
        "coro" => Ok((format!("{TREE}/crates/ramie-coro"), &[])),
        "pool" => Ok((format!("{TREE}/crates/ramie-pool"), &[])),
        "models" => Ok((format!("{TREE}/models"), &[])),
        _ => Err(format!("unknown package `{name}`: expected ramie, driver, coro, pool or models")),
    }
}

/// Builds the packages with the mutants' tests, each once.
pub fn build(mutants: &[&Mutant]) -> Result<Binaries, String> {
    let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for mutant in mutants {
        for test in &mutant.tests {
            let (package, binary) = split(test).0.split_once(':').ok_or_else(|| {
                format!("{}: `{test}` is not package:binary[:filter]", mutant.full_name())
            })?;
            wanted.entry(package).or_default().insert(binary);
        }
    }
    let mut binaries = Binaries::new();
    for (name, wanted) in wanted {
        let (folder, options) = package(name)?;
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--no-run", "--color", "never", "--manifest-path"]);
        cargo.arg(format!("{folder}/Cargo.toml")).args(options);
        for binary in &wanted {
            match *binary {
                "lib" => cargo.arg("--lib"),
                _ => cargo.args(["--test", binary]),
            };
        }
        binaries.extend(binaries_in(&run_cargo(&mut cargo, name)?, name));
        if wanted.contains("process") {
            // The scenes of `prefork` are programs, which `cargo test --test` does not build.
            let mut cargo = Command::new("cargo");
            cargo.args(["build", "--example", "prefork", "--example", "prefork_scenes"]);
            cargo.args(["--color", "never", "--manifest-path"]);
            run_cargo(cargo.arg(format!("{folder}/Cargo.toml")).args(options), name)?;
        }
    }
    Ok(binaries)
}

/// Runs cargo on the tree and returns its output.
fn run_cargo(cargo: &mut Command, package: &str) -> Result<String, String> {
    // Warnings are ignored, because mutated code may be unreachable, unused or odd.
    cargo.env("CARGO_TARGET_DIR", BUILD).env("RUSTFLAGS", "-Awarnings");
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only").stderr(Stdio::piped());
    let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("the mutated {package} does not build:\n{said}")),
    }
}

/// The test binaries in the output of cargo, by `package:binary`.
fn binaries_in(said: &str, package: &str) -> Binaries {
    let binary = |line: &str| {
        // Executable tests/sync/main.rs (…/deps/sync-0123), or: unittests src/lib.rs (…)
        let rest = line.trim().strip_prefix("Executable ")?;
        let (source, path) = rest.trim_end_matches(')').split_once(" (")?;
        let source = source.trim_end_matches("/main.rs").trim_end_matches(".rs");
        let binary = source.rsplit('/').next().unwrap_or(source);
        Some((format!("{package}:{binary}"), PathBuf::from(path)))
    };
    said.lines().filter_map(binary).collect()
}

/// The outcome of a run.
pub enum Outcome {
    Passed,
    /// The tests that failed; none are named if the process ended first.
    Failed(Vec<String>),
    /// The tests that were still running; empty if they are unknown.
    TimedOut(Vec<String>),
}

pub struct Run {
    pub outcome: Outcome,
    pub took: Duration,
    pub said: String,
}

/// Runs a binary's tests with a mutant (0: none); `arguments` are libtest's.
pub fn run(
    binaries: &Binaries,
    binary: &str,
    arguments: &[&str],
    mutant: usize,
    limit: Duration,
    log: &str,
) -> Result<Run, String> {
    let path = binaries.get(binary).ok_or_else(|| format!("no test binary {binary} was built"))?;
    let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    let (folder, _) = package(binary.split(':').next().unwrap_or(binary))?;
    let open = || File::create(log).map_err(|error| format!("{log}: {error}"));
    let output = open()?;
    let errors = output.try_clone().map_err(|error| format!("{log}: {error}"))?;
    let started = Instant::now();
    let limited = Path::new(LIMIT).canonicalize().map_err(|error| format!("{LIMIT}: {error}"))?;
    let mut child = Command::new(limited)
        .arg(path)
        .args(arguments)
        .current_dir(&folder)
        .env("CARGO_MANIFEST_DIR", &folder)
        .env("RAMIE_MUTANT", mutant.to_string())
        .env("RAMIE_TEST_LIMIT", limit.as_secs().max(1).to_string())
        .env("RUST_BACKTRACE", "0")
        .env("RAMIE_LIMIT_BACKTRACES", "no")
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("{LIMIT}: {error}"))?;
    let read = || String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("{LIMIT}: {error}"))? {
            break status;
        }
        // One red test is enough; the others may hang.
        if read().lines().any(|line| line.starts_with("test ") && line.ends_with(FAILED)) {
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            break child.wait().map_err(|error| format!("{LIMIT}: {error}"))?;
        }
        thread::sleep(LOOK);
    };
    let took = started.elapsed();
    let said = read();
    let named = |start: &str, end: &str| {
        let name = |line: &str| Some(line.strip_prefix(start)?.split_once(end)?.0.to_owned());
        said.lines().filter_map(name).collect()
    };
    let outcome = if status.success() {
        Outcome::Passed
    } else if status.code() == Some(TIMED_OUT) {
        Outcome::TimedOut(named("limit: test ", " has not finished"))
    } else {
        Outcome::Failed(named("test ", FAILED))
    };
    Ok(Run { outcome, took, said })
}
