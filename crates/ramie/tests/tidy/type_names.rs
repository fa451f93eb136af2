//! No two public types of the workspace share a name, and no two types of one crate.
//!
//! A reader who meets a name should find one definition of it. Types that need the same name, such
//! as the `Sender` of each kind of channel, give the reason in a comment above the definition:
//!
//! ```text
//! // Same name as `channel::Sender`: std and tokio name both ends of each channel so.
//! ```
//!
//! Of several types with one name, all but one give a reason. The path ends in the shared name.
//! Types of std do not count, because `ramie` has twins of them on purpose.

use std::collections::BTreeMap;

use super::{fail_if_any, sources};

/// A definition of a type or a trait.
#[derive(Debug, PartialEq)]
struct Definition {
    name: String,
    is_public: bool,
    line: usize,
    has_reason: bool,
}

/// Returns the name behind a keyword that defines a type, and whether it is public.
fn defined_name(line: &str) -> Option<(&str, bool)> {
    let trimmed = line.trim_start();
    let (is_public, rest) = match trimmed.strip_prefix("pub") {
        None => (false, trimmed),
        Some(rest) if rest.starts_with('(') => (false, rest.split_once(") ")?.1),
        Some(rest) => (true, rest.trim_start()),
    };
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let keywords = ["struct ", "enum ", "union ", "trait "];
    let is_alias = trimmed.len() == line.len() && rest.starts_with("type ");
    let behind = keywords.iter().find_map(|keyword| rest.strip_prefix(keyword));
    let behind = behind.or_else(|| rest.strip_prefix("type ").filter(|_| is_alias))?;
    let end = behind.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(behind.len());
    let name = &behind[..end];
    name.starts_with(char::is_uppercase).then_some((name, is_public))
}

/// Whether a comment gives the reason for a name that another type has, too.
fn is_reason(line: &str, name: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("// Same name as `") else { return false };
    let Some((path, reason)) = rest.split_once("`: ") else { return false };
    path.rsplit("::").next() == Some(name) && path != name && !reason.trim().is_empty()
}

/// Returns the definitions of a file, without those of its test module.
fn definitions(text: &str) -> Vec<Definition> {
    let lines: Vec<_> = text.lines().collect();
    let tests = lines.iter().position(|line| *line == "#[cfg(test)]" || *line == "mod tests {");
    let lines = &lines[..tests.unwrap_or(lines.len())];
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some((name, is_public)) = defined_name(line) else { continue };
        let belongs = |line: &&&str| {
            let line = line.trim_start();
            line.starts_with("//") || line.starts_with("#[")
        };
        let above = lines[..index].iter().rev().take_while(belongs);
        let has_reason = above.into_iter().any(|line| is_reason(line, name));
        found.push(Definition { name: name.to_owned(), is_public, line: index + 1, has_reason });
    }
    found
}

/// Complains about each name that a crate has twice, or that two crates make public, as long as
/// more than one of its definitions gives no reason.
fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut by_name: BTreeMap<String, Vec<(&str, &str, Definition)>> = BTreeMap::new();
    for (file, text) in files {
        let of_crate = file.strip_prefix("crates/").and_then(|file| file.split_once("/src/"));
        let Some((crate_name, _)) = of_crate else { continue };
        for definition in definitions(text) {
            let of_name = by_name.entry(definition.name.clone()).or_default();
            of_name.push((crate_name, file, definition));
        }
    }
    let mut complaints = Vec::new();
    for (name, definitions) in &by_name {
        let unexplained: Vec<_> = definitions.iter().filter(|(_, _, d)| !d.has_reason).collect();
        for (at, (crate_name, file, one)) in unexplained.iter().enumerate() {
            let clashes = |(other_crate, _, other): &&&(&str, &str, Definition)| {
                crate_name == other_crate || (one.is_public && other.is_public)
            };
            if let Some((_, other, Definition { line, .. })) =
                unexplained[..at].iter().find(clashes)
            {
                let here = one.line;
                complaints.push(format!(
                    "{file}:{here}: the type `{name}` has the name of {other}:{line}; rename one, \
                     or give the reason: // Same name as `module::{name}`: …"
                ));
            }
        }
    }
    complaints
}

#[test]
fn no_two_types_share_a_name_without_a_reason() {
    let mut files = sources();
    files.sort();
    let found: usize = files.iter().map(|(_, text)| definitions(text).len()).sum();
    assert!(found > 300, "{found} definitions: does the test still find them?");
    fail_if_any(complaints(&files));
}

/// A canary: the test finds a clash within a crate and between crates, and accepts a reason.
#[test]
fn the_check_of_type_names_finds_clashes_and_accepts_reasons() {
    let file = |name: &str, text: &str| (format!("crates/{name}"), text.to_owned());
    let reason = "// Same name as `a::One`: both are the first.\n#[derive(Debug)]\n";
    let one = file("x/src/a.rs", "pub(crate) struct One {\n");
    assert_eq!(complaints(&[one.clone(), file("x/src/b.rs", "enum One<T> {")]).len(), 1);
    assert_eq!(complaints(&[one.clone(), file("y/src/b.rs", "enum One<T> {")]).len(), 0);
    let public = file("x/src/a.rs", "pub struct One;\n");
    assert_eq!(complaints(&[public.clone(), file("y/src/b.rs", "pub trait One {")]).len(), 1);
    let explained = file("y/src/b.rs", &format!("{reason}pub trait One {{"));
    assert_eq!(complaints(&[public.clone(), explained.clone()]).len(), 0);
    let third = file("y/src/c.rs", "pub unsafe trait One {}");
    assert_eq!(complaints(&[public.clone(), explained, third]).len(), 1);
    let other = file("x/src/b.rs", "// Same name as `One`: no path.\ntype One = u8;\n");
    assert_eq!(complaints(&[public.clone(), other]).len(), 1);
    let tests = file("x/src/b.rs", "impl A {\n    type One = u8;\n}\n#[cfg(test)]\nstruct One;\n");
    assert_eq!(complaints(&[public, tests]).len(), 0);
}
