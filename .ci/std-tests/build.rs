//! Rewrites std's tests to Ramie's paths, leaves out the tests that `exclusions` names, and makes
//! three of each other test: on one worker, on two, on threads.

use std::{env, fmt::Write, fs, path::Path};

#[path = "src/exclusions.rs"]
mod exclusions;

use exclusions::{EXCLUDED, FILES, NOT_ON_FIBERS, REPLACED};

fn main() {
    println!("cargo::rerun-if-env-changed=STD_SOURCES");
    let sources = env::var("STD_SOURCES").expect("STD_SOURCES names the folder library/std");
    let out = env::var("OUT_DIR").expect("set by cargo");
    let mut modules = String::new();
    for (name, path, parent) in FILES {
        let from = Path::new(&sources).join(path);
        println!("cargo::rerun-if-changed={}", from.display());
        let text = fs::read_to_string(&from).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
        let to = Path::new(&out).join(format!("{name}.rs"));
        fs::write(&to, rewritten(name, &text, parent)).expect("cargo's folder can be written to");
        writeln!(modules, "#[path = {to:?}]\nmod {name};").expect("a text grows");
    }
    fs::write(Path::new(&out).join("modules.rs"), modules).expect("as above");
}

fn rewritten(file: &str, text: &str, parent: &str) -> String {
    let mut text = text.to_owned();
    for (_, from, to) in REPLACED.iter().filter(|(of, ..)| *of == file) {
        assert!(text.contains(from), "{file}: {from:?} is not there; see REPLACED");
        text = text.replace(from, to);
    }
    let mut split = Split { file, out: String::new(), tests: Vec::new(), excluded: Vec::new() };
    split.text(&with_paths(&text, parent));
    for (_, test, _) in EXCLUDED.iter().filter(|(of, ..)| *of == file) {
        assert!(
            split.excluded.contains(&(*test).to_owned()),
            "{file}: no test {test}; see EXCLUDED"
        );
    }
    let mut out = split.out;
    for (way, call) in [
        ("on_one_worker", "crate::on_fibers(1, super::NAME)"),
        ("on_two_workers", "crate::on_fibers(2, super::NAME)"),
        ("on_threads", "crate::on_threads(super::NAME)"),
    ] {
        writeln!(out, "mod {way} {{").expect("a text grows");
        for (name, attributes) in &split.tests {
            let is_not_run =
                |of: &(&str, &str, &[&str])| of.0 == file && of.1 == name && of.2.contains(&way);
            if NOT_ON_FIBERS.iter().any(is_not_run) {
                continue;
            }
            let call = call.replace("NAME", name);
            writeln!(out, "{attributes}\n    #[test]\n    fn {name}() {{ let _ = {call}; }}")
                .expect("a text grows");
        }
        out.push_str("}\n");
    }
    out
}

/// `std::` and `crate::` mean Ramie, `super::` the module that the tests belong to.
fn with_paths(text: &str, parent: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if line.starts_with("#![") {
            continue;
        }
        let mut line = line.to_owned();
        for (from, to) in [
            ("crate::test_helpers", "CRATE::helpers"),
            ("super::nonpoison_and", "CRATE::nonpoison_and"),
            ("crate::net::test", "CRATE::net_test"),
            ("crate::common", "CRATE::helpers"),
            ("crate::helpers", "CRATE::helpers"),
            ("crate::", "::ramie::"),
            ("$crate::", "::ramie::"),
            ("::std::sync::poison", "::ramie::sync"),
            ("std::sync::poison", "::ramie::sync"),
        ] {
            line = line.replace(from, to);
        }
        if !parent.is_empty() {
            line = line.replace("super::", &format!("{parent}::"));
        }
        line = replace_word(&line, "std::", "::ramie::");
        out.push_str(&line.replace("CRATE::", "crate::"));
        out.push('\n');
    }
    out
}

/// Replaces a path's first segment, with or without leading colons.
fn replace_word(line: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(from) {
        let before = &rest[..at];
        let is_word = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if is_word {
            out.push_str(before.strip_suffix("::").unwrap_or(before));
            out.push_str(to);
        } else {
            out.push_str(before);
            out.push_str(from);
        }
        rest = &rest[at + from.len()..];
    }
    out + rest
}

/// Splits a file into its tests. std's sources are formatted, so an item ends with the indentation
/// of its first line.
struct Split<'a> {
    file: &'a str,
    out: String,
    /// The name and the attributes of each test.
    tests: Vec<(String, String)>,
    excluded: Vec<String>,
}

impl Split<'_> {
    fn is_excluded(&mut self, name: &str) -> bool {
        let is_named = EXCLUDED.iter().any(|(of, test, _)| *of == self.file && *test == name);
        if is_named {
            self.excluded.push(name.to_owned());
        }
        is_named
    }

    fn text(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        let mut at = 0;
        while at < lines.len() {
            let start = at;
            while at < lines.len() && is_attribute(lines[at]) {
                at = end_of_attribute(&lines, at);
            }
            let attributes = &lines[start..at];
            let is_test = attributes.contains(&"#[test]");
            let is_pair =
                lines.get(at).is_some_and(|l| l.starts_with("nonpoison_and_poison_unwrap_test!("));
            if at < lines.len() && (is_test || is_pair) {
                let end = item_end(&lines, at);
                self.item(attributes, &lines[at..=end], is_pair);
                at = end + 1;
            } else {
                at = at.max(start + 1).min(lines.len());
                for line in &lines[start..at] {
                    self.out.push_str(line);
                    self.out.push('\n');
                }
            }
        }
    }

    fn item(&mut self, attributes: &[&str], item: &[&str], is_pair: bool) {
        let name = match is_pair {
            true => item.iter().find_map(|l| l.trim().strip_prefix("name: ")),
            false => item[0].split("fn ").nth(1),
        };
        let name = name.expect("a name").split(['(', '<', ',']).next().expect("a name").to_owned();
        if self.is_excluded(&name) {
            return;
        }
        // The wrapper gets all attributes: the compiler and the harness need some, and those that
        // concern other platforms have no effect here.
        let of_wrapper: Vec<&str> =
            attributes.iter().copied().filter(|l| *l != "#[test]").collect();
        let conditions: Vec<&str> = conditions(&of_wrapper);
        for line in &conditions {
            self.out.push_str(line);
            self.out.push('\n');
        }
        let visible = item[0].starts_with("fn ").then_some("pub(super) ").unwrap_or_default();
        self.out.push_str(visible);
        self.out.push_str(&item.join("\n"));
        self.out.push('\n');
        self.tests.push((name, of_wrapper.join("\n")));
    }
}

fn is_attribute(line: &str) -> bool {
    line.starts_with("#[") || line.starts_with("//")
}

/// The line after the attribute, or the comment, that begins at `start`.
fn end_of_attribute(lines: &[&str], start: usize) -> usize {
    let mut end = start + 1;
    while lines[start].starts_with("#[") && open_brackets(&lines[start..end]) > 0 {
        end += 1;
    }
    end
}

fn open_brackets(lines: &[&str]) -> i32 {
    let count = |c: char| {
        lines
            .iter()
            .filter(|l| !l.starts_with("//"))
            .map(|l| l.matches(c).count() as i32)
            .sum::<i32>()
    };
    count('[') - count(']')
}

/// `#[cfg(…)]`, which the test itself needs as well.
fn conditions<'a>(attributes: &[&'a str]) -> Vec<&'a str> {
    let mut taken = Vec::new();
    let mut at = 0;
    while at < attributes.len() {
        let start = at;
        at = end_of_attribute(attributes, start);
        if attributes[start].starts_with("#[cfg(") {
            taken.extend(&attributes[start..at]);
        }
    }
    taken
}

fn item_end(lines: &[&str], start: usize) -> usize {
    if lines[start].ends_with('}') {
        return start;
    }
    (start..lines.len()).find(|at| ["}", ");"].contains(&lines[*at])).expect("an end")
}
