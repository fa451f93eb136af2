//! `docs/crates.md`, made of the sections and of what they have taken.

use std::{fmt::Write, fs, path::PathBuf, process::ExitCode};

use super::{Kind, Section};

/// The versions that were tried.
const LOCK: &str = include_str!("../../Cargo.lock");
const HEAD: &str = "\
# Crates on fibers

The program in `ecosystem/` tries each of these crates on fibers of *one* worker, beside a fiber
that ticks every millisecond. Except for the crates that are listed as blocking the worker, none
kept it for more than 20 ms, so other fibers could run meanwhile. The program generates this page
from its results (`.ci/ecosystem`), so do not edit it.

How a crate works on fibers:

- *unchanged*: it reads from and writes to any `std::io::{Read, Write}`, such as the streams of
  `ramie::net`, or it does not wait at all.
- *unchanged, its futures on fibers*: `ramie::future::block_on` waits for them, and
  `ramie_futures::Io` is their stream. There is no runtime of tokio.
- *beside tokio's threads, by `block_on_with`*: the crate opens sockets of tokio, so a runtime
  of tokio waits for them on threads of its own, and `ramie_futures::block_on_with` parks the fiber.
- *by a feature of `ramie-adapters`*: the crate takes another transport or connection of its own
  kind, which the crate `ramie-adapters` has, with that feature.
- *with an adapter of N lines*: the same, but the adapter is to be copied from the linked folder.
- *on the blocking pool*: it opens sockets or files of std, or it computes for long, so call it in
  `ramie::blocking(|| …)`, which parks the fiber and runs the call on a thread. A connection that is
  kept from call to call is a `ramie_adapters::Blocking`, alone or in a pool.
- *it blocks the worker*: the last column names a replacement.

*Stack* is the deepest use of a fiber's stack in a build without optimisation; an optimised build
usually takes less than half of that. A fiber has 256 KiB by default, and each crate is tried with
that, unless its note names another size. The threads of the pool have stacks of their own.
*Against* names the server, client or tool at the other end.
";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/crates.md")
}

/// Writes the page.
pub(super) fn write(passed: &[(&Section, usize)]) -> ExitCode {
    fs::write(path(), page(passed)).expect("the page can be written");
    println!("wrote docs/crates.md");
    ExitCode::SUCCESS
}

/// Compares the page in the repository with one of this run, but for the stacks, which vary.
pub(super) fn check(passed: &[(&Section, usize)]) -> ExitCode {
    let kept = fs::read_to_string(path()).unwrap_or_default();
    let (kept, made) = (without_stacks(&kept), without_stacks(&page(passed)));
    if kept == made {
        println!("docs/crates.md is true");
        return ExitCode::SUCCESS;
    }
    let missing = made.lines().filter(|line| !kept.contains(line));
    missing.for_each(|line| println!("docs/crates.md lacks: {line}"));
    let extra = kept.lines().filter(|line| !made.contains(line));
    extra.for_each(|line| println!("docs/crates.md has instead: {line}"));
    println!(
        "write it by: ecosystem/servers cargo run --manifest-path ecosystem/Cargo.toml -- --write"
    );
    ExitCode::FAILURE
}

/// The page, with the fourth column of each table empty.
fn without_stacks(page: &str) -> String {
    let mut result = String::new();
    for line in page.lines() {
        let mut columns: Vec<_> = line.split(" | ").collect();
        if line.starts_with("| [") && columns.len() > 3 {
            columns[3] = "";
        }
        result += &columns.join(" | ");
        result.push('\n');
    }
    result
}

fn page(passed: &[(&Section, usize)]) -> String {
    let mut page = HEAD.to_owned();
    for (kind, heading) in Kind::ALL {
        let rows = passed.iter().filter(|(section, _)| section.kind == kind);
        write!(page, "\n## {heading}\n\n| crate | version | how | stack | against | |\n").unwrap();
        page += "|---|---|---|---|---|---|\n";
        rows.for_each(|(section, stack)| page += &row(section, *stack));
    }
    page
}

fn row(section: &Section, stack: usize) -> String {
    let Section { name, against, note, file, .. } = section;
    format!(
        "| [{name}](../ecosystem/src/sections/{file}) | {} | {} | {} KiB | {against} | {note} |\n",
        version_of(name),
        section.way.text(),
        stack.div_ceil(8 << 10) * 8,
    )
}

/// The version of a crate in the lock file; the newest, if there are several.
fn version_of(name: &str) -> &str {
    let package = name.split("::").next().unwrap_or(name);
    let line = format!("name = \"{package}\"\nversion = \"");
    let found = LOCK.rmatch_indices(&line).next();
    let (at, _) = found.unwrap_or_else(|| panic!("{package} is not in Cargo.lock"));
    LOCK[at + line.len()..].split('"').next().unwrap_or_default()
}
