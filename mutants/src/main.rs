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
//! .ci/mutants --trusting       without those for which a reason is stated: they count as survivors
//! .ci/mutants --resume         takes earlier verdicts, except survivors without a reason
//! .ci/mutants --record         runs nothing: writes the outcome of the last runs to measured.txt
//! ```
//!
//! Verdicts are kept in `target/mutants/verdicts.txt`, so a run that was stopped loses none.

mod lane;
mod list;
mod report;
mod rewrite;
mod tests;
mod verdicts;

use std::{env, fs, path::Path, process::ExitCode};

/// The folder of the copy of the workspace, and of its build.
const TREE: &str = "target/mutants/tree";
const BUILD: &str = "target/mutants/build";
const LOGS: &str = "target/mutants/logs";
const VERDICTS: &str = "target/mutants/verdicts.txt";
/// The outcome of the last runs, kept in the tree.
const MEASURED: &str = "mutants/measured.txt";

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
    const OPTIONS: [&str; 5] = ["--check", "--keep-going", "--record", "--resume", "--trusting"];
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
    if has("--record") {
        let verdicts = verdicts::Verdicts::open(VERDICTS, true)?;
        let report = report::Report::new(&mutants.iter().collect::<Vec<_>>(), &verdicts);
        return match fs::write(MEASURED, report.to_string()) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(format!("{MEASURED}: {error}")),
        };
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
    lane::run(&chosen, &has)
}
