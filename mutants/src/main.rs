//! Mutation tests: bugs on purpose in the sources of Ramie, and which tests catch them.
//!
//! The files of `list/` name each mutant, the text that it changes, and the tests that concern it
//! (`list.rs` has their grammar). A copy of the workspace gets *all* mutants, each behind a look at
//! the environment variable `RAMIE_MUTANT` (`rewrite.rs`), so that one build serves all. Then the
//! tests run: once without a mutant, where they must pass; then those of each mutant, of which one
//! must fail or exceed its time limit (`lane.rs`).
//!
//! ```text
//! .ci/mutants                  all mutants
//! .ci/mutants timer slot/two   those whose room/name contains one of the words, in that order
//! .ci/mutants --check          only whether each entry still matches the sources
//! .ci/mutants --keep-going     without the tests that are red though there is no mutant
//! .ci/mutants --resume         takes earlier verdicts, except survivors without a reason
//! ```
//!
//! Verdicts are kept in `target/mutants/verdicts.txt`, so a run that was stopped loses none.

mod lane;
mod list;
mod rewrite;
mod tests;
mod verdicts;

use std::{env, path::Path, process::ExitCode};

/// Where the copy of the workspace lies, and what is built of it.
const TREE: &str = "target/mutants/tree";
const BUILD: &str = "target/mutants/build";
const LOGS: &str = "target/mutants/logs";
const VERDICTS: &str = "target/mutants/verdicts.txt";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(complaint) => {
            eprintln!("mutants: {complaint}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    env::set_current_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let words: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    const OPTIONS: [&str; 3] = ["--check", "--keep-going", "--resume"];
    let is_unknown = |word: &&String| word.starts_with("--") && !OPTIONS.contains(&word.as_str());
    if let Some(option) = arguments.iter().find(is_unknown) {
        return Err(format!("unknown option `{option}`: expected one of {OPTIONS:?}"));
    }

    let mutants = list::read(Path::new("mutants/list"))?;
    let files = rewrite::all(Path::new("."), &mutants)?;
    println!("{} mutants match the sources", mutants.len());
    if has("--check") {
        return Ok(ExitCode::SUCCESS);
    }
    rewrite::bring_up_to_date(Path::new(TREE), &files)?;

    let first_word = |mutant: &&list::Mutant| {
        words.iter().position(|word| mutant.full_name().contains(word.as_str()))
    };
    let mut chosen: Vec<_> = mutants.iter().collect();
    if !words.is_empty() {
        chosen.retain(|mutant| first_word(mutant).is_some());
        chosen.sort_by_key(first_word);
    }
    if chosen.is_empty() {
        return Err(format!("no mutant's room/name contains one of {words:?}"));
    }
    lane::run(&chosen, has("--keep-going"), has("--resume"))
}
