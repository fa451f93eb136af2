//! The style of the sources, as a test: sizes, words, the inventory of unsafe code, and whether
//! the documents name files, tests and parts of the code that exist.

mod cancel_table;
mod code_names;
mod imports;
mod layers;
mod type_names;
mod type_sizes;
mod waits;
mod words;

use std::{
    collections::HashSet,
    env, fs,
    path::{Path, PathBuf},
};

/// Files that may be longer than the limit, with the reason beside each.
/// A table of broken lines, with a row for each.
const LONG_FILES: &[&str] = &["models/canaries.rs"];
const MAX_LINES: usize = 500;
const MAX_TEST_LINES: usize = 800;
const MAX_COLUMNS: usize = 100;

/// Words that have a better one here; see `docs/glossary.md`.
const BANNED: &[&str] =
    &["green thread", "goroutine", "nursery", "reactor", "proactor", "canceled"];

/// Written by `unsafe_code_lives_in_few_files_that_opt_in`.
const UNSAFE_LIST: &str = "docs/unsafe.md";
/// ARCHITECTURE.md stays an overview; details belong into `docs`.
const MAX_ARCHITECTURE_LINES: usize = 200;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files_under(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files_under(&path, ending, found);
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["crates", "examples", "bench", "ecosystem", "models", "mutants"] {
        files_under(&root().join(folder), ".rs", &mut found);
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a readable source");
        let name = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned();
        (name, text)
    };
    found.into_iter().map(read).collect()
}

fn fail_if_any(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn is_this_file(name: &str) -> bool {
    name.ends_with("tests/tidy/main.rs")
}

#[test]
fn files_and_lines_keep_to_their_sizes() {
    let mut complaints = Vec::new();
    for (name, text) in sources() {
        let lines = text.lines().count();
        let limit = if name.contains("/tests/") { MAX_TEST_LINES } else { MAX_LINES };
        if lines > limit && !LONG_FILES.contains(&name.as_str()) {
            complaints.push(format!("{name}: {lines} lines; split it, or say why in LONG_FILES"));
        }
        for (number, line) in text.lines().enumerate() {
            // A row of a table in a doc cannot be broken.
            let is_row = line.trim_start().starts_with("//") && line.contains(" | ");
            if line.chars().count() > MAX_COLUMNS && !is_row {
                complaints.push(format!("{name}:{}: longer than {MAX_COLUMNS}", number + 1));
            }
        }
    }
    fail_if_any(complaints);
}

#[test]
fn every_file_describes_its_purpose() {
    let missing = |(name, text): (String, String)| {
        (!text.starts_with("//!") && !text.starts_with("#!")).then(|| format!("{name}: no //! doc"))
    };
    fail_if_any(sources().into_iter().filter_map(missing).collect());
}

#[test]
fn one_word_per_concept() {
    let mut complaints = Vec::new();
    for (name, text) in sources() {
        if is_this_file(&name) {
            continue;
        }
        // The kernel's own spelling, in names of errors.
        let lower = text.to_lowercase().replace("ecanceled", "").replace("::canceled", "");
        // compio's name for it.
        let lower = lower.replace("with_proactor", "").replace("proactorbuilder", "");
        for word in BANNED {
            if lower.contains(word) {
                complaints.push(format!("{name}: says '{word}'"));
            }
        }
        for word in ["FIXME", "dbg!(", "XXX"] {
            if text.contains(word) {
                complaints.push(format!("{name}: left-over {word}"));
            }
        }
    }
    fail_if_any(complaints);
}

#[test]
fn unsafe_code_lives_in_few_files_that_opt_in() {
    let opted_in = |(name, text): &(String, String)| {
        let opts_in = text.contains("allow(unsafe_code)");
        (opts_in && name.starts_with("crates/") && !is_this_file(name)).then(|| name.clone())
    };
    let mut inventory: Vec<_> = sources().iter().filter_map(opted_in).collect();
    inventory.sort();
    let list: String = inventory.iter().map(|name| format!("- `{name}`\n")).collect();
    let path = root().join(UNSAFE_LIST);
    let document = fs::read_to_string(&path).expect(UNSAFE_LIST);
    let head = &document[..document.find("- `").unwrap_or(document.len())];
    if env::var_os("RAMIE_WRITE_INVENTORY").is_some() {
        fs::write(&path, format!("{head}{list}")).expect("a writable tree");
    } else if document != format!("{head}{list}") {
        let is_listed = |name: &&String| document.contains(&format!("- `{name}`\n"));
        let unlisted: Vec<_> = inventory.iter().filter(|name| !is_listed(name)).collect();
        panic!(
            "{UNSAFE_LIST} differs from the files that allow unsafe code; not in it: {unlisted:?}; \
             write it by `RAMIE_WRITE_INVENTORY=1 cargo test -p ramie --test tidy` and review it"
        );
    }
}

#[test]
fn the_readme_shows_the_examples_that_are_run() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    for name in ["echo", "page_sizes"] {
        let path = format!("examples/{name}.rs");
        let example = fs::read_to_string(root().join(&path)).expect("an example");
        let about = |line: &&str| line.starts_with("//!") || line.is_empty();
        let code: Vec<_> = example.lines().skip_while(about).collect();
        assert!(readme.contains(code.join("\n").trim()), "README.md and {path} differ");
    }
}

/// The documents for people who change Ramie, with their texts.
fn documents() -> Vec<(String, String)> {
    let mut found = Vec::new();
    files_under(&root().join("docs"), ".md", &mut found);
    for name in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"] {
        found.push(root().join(name));
    }
    found.push(root().join("crates/ramie/docs/panics.md"));
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a readable document");
        (name, text)
    };
    found.into_iter().map(read).collect()
}

/// Paths from the root exist, and so do shorter ones of sources: `park.rs`, `wait/park.rs`.
#[test]
fn paths_named_in_the_documents_exist() {
    const FOLDERS: &[&str] =
        &["crates/", "examples/", "bench/", "models/", "mutants/", "docs/", ".ci/"];
    let sources: Vec<_> = sources().into_iter().map(|(name, _)| format!("/{name}")).collect();
    let is_there = |path: &str| {
        let tail = format!("/{path}");
        if FOLDERS.iter().any(|folder| path.starts_with(folder)) {
            root().join(path).exists()
        } else if path.ends_with(".rs") {
            sources.iter().any(|source| source.ends_with(&tail))
        } else {
            !path.ends_with('/') || sources.iter().any(|source| source.contains(&tail))
        }
    };
    let mut complaints = Vec::new();
    for (document, text) in documents() {
        let text = without_fences(&text);
        for word in text.split(|c: char| c.is_whitespace() || "`()[],;|".contains(c)) {
            // In `docs`, links begin with `../`.
            let word = word.strip_prefix("../").unwrap_or(word);
            let path = word.split('#').next().unwrap_or_default().trim_end_matches(['.', ':']);
            // A name in angle brackets stands for others; `s/a/b/` is a substitution.
            let is_pattern = path.contains(['<', '*', '$', '}']) || path.starts_with("s/");
            if !path.starts_with('/') && !is_pattern && !is_there(path) {
                complaints.push(format!("{document}: {word} does not exist"));
            }
        }
    }
    fail_if_any(complaints);
}

/// Leaves out code in fences, whose slashes are not those of paths.
fn without_fences(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// `docs/hazards.md` names the tests of each hazard in the last column of its tables.
#[test]
fn tests_named_in_the_list_of_hazards_exist() {
    let mut functions = HashSet::new();
    for (_, text) in sources() {
        for line in text.lines() {
            let rest = line.trim_start().strip_prefix("fn ");
            functions.extend(rest.and_then(|rest| Some(rest.split('(').next()?.to_owned())));
        }
    }
    let text = fs::read_to_string(root().join("docs/hazards.md")).expect("docs/hazards.md");
    let rows = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    let (mut complaints, mut tests) = (Vec::new(), 0);
    for row in rows {
        let last = row.trim_end_matches('|').rsplit(" | ").next().unwrap_or_default();
        for name in last.split('`').skip(1).step_by(2) {
            let is_name = name.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'));
            tests += usize::from(is_name);
            if is_name && !functions.contains(name) {
                complaints.push(format!("docs/hazards.md: there is no test `{name}`"));
            }
        }
    }
    assert!(tests > 50, "docs/hazards.md names {tests} tests: are they in its last columns?");
    fail_if_any(complaints);
}

#[test]
fn the_architecture_is_short() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let lines = text.lines().count();
    assert!(lines <= MAX_ARCHITECTURE_LINES, "ARCHITECTURE.md has {lines} lines");
}
