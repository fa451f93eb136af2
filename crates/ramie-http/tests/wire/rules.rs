//! `docs/rules.md` names tests that exist.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            false => {}
        }
    }
}

/// The names of all tests of the crate: of the functions behind `#[test]`, and of those that
/// `targets!` makes.
fn tests() -> HashSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests"), &mut files);
    let mut names = HashSet::new();
    for file in files {
        let text = fs::read_to_string(file).expect("a readable source");
        for part in text.split("#[test]").skip(1) {
            let name = part.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
            names.extend(name.map(str::to_owned));
        }
        if let Some((_, targets)) = text.split_once("\ntargets! {") {
            names.extend(targets.split_whitespace().map(|word| word.replace(',', "")));
        }
    }
    names
}

#[test]
fn each_rule_names_tests_that_exist() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rules.md");
    let text = fs::read_to_string(path).expect("docs/rules.md");
    let tests = tests();
    let (mut rules, mut named, mut missing) = (0, HashSet::new(), Vec::new());
    for row in text.lines().filter(|line| line.starts_with("| ") && !line.contains("| section")) {
        rules += 1;
        let last = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let names: Vec<_> = last.split('`').skip(1).step_by(2).collect();
        assert!(!last.is_empty(), "a rule without a test or a reason: {row}");
        missing.extend(names.iter().copied().filter(|name| !tests.contains(*name)));
        named.extend(names);
    }
    assert!(missing.is_empty(), "docs/rules.md names tests that do not exist: {missing:?}");
    println!("{rules} rules, {} tests", named.len());
    assert!(rules > 100 && named.len() > 60, "{rules} rules, {} tests", named.len());
}
