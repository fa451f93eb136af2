//! Tries crates on fibers of one worker, each against a real counterpart, and writes
//! `docs/crates.md`.
//!
//! `ramie-ecosystem [--write | --check] [CRATE…]` tries all crates or those named. `--write` writes
//! the page, `--check` compares it with that in the repository. Start it by `ecosystem/servers`, so
//! that the crates that need a server have one.

mod harness;
mod sections;

use std::{env, process::ExitCode};

use harness::{Plan, Section};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let sections = sections::all();
    if let [flag, name] = &arguments[..]
        && flag == harness::CHILD
    {
        let section = sections.iter().find(|section| section.name == name).expect("a known name");
        return harness::try_here(section);
    }
    let (flags, names): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let is_chosen = |section: &&Section| {
        if names.is_empty() {
            !section.is_canary
        } else {
            names.contains(&&section.name.to_owned())
        }
    };
    let chosen: Vec<_> = sections.iter().filter(is_chosen).collect();
    let plan = match flags.first().map(|flag| flag.as_str()) {
        None => Plan::Try,
        Some("--write") => Plan::Write,
        Some("--check") => Plan::Check,
        Some(flag) => {
            eprintln!("unknown flag {flag}: expected --write or --check");
            return ExitCode::FAILURE;
        }
    };
    if chosen.len() < names.len() {
        eprintln!("one of these is no section: {names:?}");
        return ExitCode::FAILURE;
    }
    harness::try_all(&chosen, plan)
}
