//! The documents for people who change Ramie name functions, types and fields that exist.

use std::{collections::HashSet, fs};

use super::{fail_if_any, root, sources, without_fences};

/// The documents that name parts of the code.
const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "crates/ramie/docs/panics.md"];

/// Words in back quotes that are not names of the code.
const OTHER_WORDS: &[&str] = &["SAFETY"];

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    text.split(is_separator).filter(is_name)
}

/// All words of the code, without its comments. This file is left out, because its canary contains
/// names that do not exist.
fn words_of_code(sources: &[(String, String)]) -> HashSet<&str> {
    let others = sources.iter().filter(|(name, _)| !name.ends_with("tidy/code_names.rs"));
    let lines = others.flat_map(|(_, text)| text.lines());
    lines.flat_map(|line| words(line.split("//").next().unwrap_or_default())).collect()
}

/// Lists the names in back quotes, such as `Worker::run` or `park`, without calls and paths.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |quoted: &&str| {
        let is_part = |part: &str| words(part).next() == Some(part);
        quoted.trim_end_matches('!').split("::").all(is_part)
    };
    text.split('`').skip(1).step_by(2).filter(is_name)
}

fn missing<'a>(text: &'a str, code: &HashSet<&str>) -> Vec<&'a str> {
    let is_known = |word: &str| code.contains(word) || OTHER_WORDS.contains(&word);
    names(text).filter(|name| !words(name).all(is_known)).collect()
}

#[test]
fn names_of_the_code_in_the_documents_exist() {
    let sources = sources();
    let code = words_of_code(&sources);
    let (mut complaints, mut seen) = (Vec::new(), 0);
    for document in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).expect("a document");
        let text = without_fences(&text);
        seen += names(&text).count();
        let missing = missing(&text, &code);
        complaints
            .extend(missing.iter().map(|name| format!("{document}: there is no `{name}` now")));
    }
    assert!(seen > 100, "the documents name {seen} parts of the code: are they in back quotes?");
    fail_if_any(complaints);
}

/// A canary: names that were renamed are found, in calls of types, too; commands and paths are not
/// taken for names.
#[test]
fn a_name_that_does_not_exist_is_found() {
    let sources = [
        ("crates/x.rs".to_owned(), "impl Worker { fn run() {} } // old_run".to_owned()),
        ("crates/x/tests/tidy/code_names.rs".to_owned(), "fn planted() {}".to_owned()),
    ];
    let code = words_of_code(&sources);
    let text = "`Worker::run` `run` `Worker::old_run` `planted` `a/path.rs` `cargo test` `run!`";
    assert_eq!(missing(text, &code), ["Worker::old_run", "planted"]);
}
