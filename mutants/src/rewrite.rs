//! The copy of the workspace with all mutants in it.

use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use crate::list::Mutant;

/// Crates whose sources are mutated; each gets a module that knows the chosen mutant.
const CRATES: &[&str] =
    &["crates/ramie", "crates/ramie-driver", "crates/ramie-coro", "crates/ramie-pool"];

/// The files of the workspace that the build needs.
const COPIED: &[&str] =
    &[".ci", "Cargo.toml", "Cargo.lock", "README.md", "crates", "examples", "models"];

/// The module `mutants` of each crate. The variable is read before `main`, so that a look at it is
/// one load wherever it happens, also in a signal handler.
const MODULE: &str = r#"//! The mutant that runs.
#![allow(unsafe_code)]
use std::sync::atomic::{AtomicU32, Ordering};
static CHOSEN: AtomicU32 = AtomicU32::new(0);
extern "C" fn read() {
    let chosen = std::env::var("RAMIE_MUTANT").ok().and_then(|number| number.parse().ok());
    CHOSEN.store(chosen.unwrap_or(0), Ordering::Relaxed);
}
#[used]
#[unsafe(link_section = ".init_array")]
static READ: extern "C" fn() = read;
#[inline(always)]
pub(crate) fn is(number: u32) -> bool {
    CHOSEN.load(Ordering::Relaxed) == number
}
"#;

/// A file of the copy: its name in the workspace, and its text.
pub type File = (String, Vec<u8>);

/// The files of the copy, with all mutants in them.
pub fn all(root: &Path, mutants: &[Mutant]) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for name in COPIED {
        files_under(&root.join(name), &mut files)?;
    }
    let mut complaints = Vec::new();
    let mut of_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        if !root.join(&mutant.file).is_file() {
            complaints.push(format!("{}: no file {}", mutant.full_name(), mutant.file));
        }
        of_file.entry(&mutant.file).or_default().push(mutant);
    }
    let mut wanted = Vec::new();
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let bytes = fs::read(&path).map_err(|error| format!("{name}: {error}"))?;
        let bytes = match of_file.get(name.as_str()) {
            Some(mutants) => {
                let text = String::from_utf8_lossy(&bytes);
                rewrite(&text, mutants, &mut complaints).into_bytes()
            }
            None => adapt(&name, bytes),
        };
        wanted.push((name, bytes));
    }
    for at in CRATES.iter().map(|at| format!("{at}/src")).chain(["models/tree".to_owned()]) {
        wanted.push((format!("{at}/mutants.rs"), MODULE.into()));
    }
    if !complaints.is_empty() {
        return Err(format!("entries that do not match the sources:\n{}", complaints.join("\n")));
    }
    Ok(wanted)
}

/// Files without a mutant: the crates and the tree of models get the module, and the models do
/// without their canaries, which are bugs of their own and take time to compile.
fn adapt(name: &str, mut bytes: Vec<u8>) -> Vec<u8> {
    if CRATES.iter().any(|at| name == format!("{at}/src/lib.rs")) {
        bytes.extend_from_slice(b"\nmod mutants;\n");
        // The module has the one unsafe attribute of such a crate.
        let text = String::from_utf8_lossy(&bytes);
        return text.replace("#![forbid(unsafe_code)]", "#![deny(unsafe_code)]").into_bytes();
    } else if name == "models/tree/mod.rs" {
        bytes.extend_from_slice(b"\npub(crate) mod mutants;\n");
    } else if name == "models/canaries.rs" {
        let text = String::from_utf8_lossy(&bytes);
        let head = text.find("#[rustfmt::skip]").unwrap_or(text.len());
        return format!("{}pub const CANARIES: &[Canary] = &[];\n", &text[..head]).into_bytes();
    }
    bytes
}

fn files_under(path: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    if path.is_file() {
        found.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for entry in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if entry.file_name().is_some_and(|name| name != "target") {
            files_under(&entry, found)?;
        }
    }
    Ok(())
}

/// Writes the copy. It leaves unchanged files alone, so that cargo rebuilds only crates that depend
/// on a changed one.
pub fn bring_up_to_date(tree: &Path, wanted: &[File]) -> Result<(), String> {
    let mut present = Vec::new();
    if tree.exists() {
        files_under(tree, &mut present)?;
    }
    let is_wanted = |path: &PathBuf| {
        let name = path.strip_prefix(tree).unwrap_or(path).to_string_lossy();
        name.ends_with("Cargo.lock") || wanted.iter().any(|(wanted, _)| *wanted == name)
    };
    for stale in present.iter().filter(|path| !is_wanted(path)) {
        fs::remove_file(stale).map_err(|error| format!("{}: {error}", stale.display()))?;
    }
    for (name, bytes) in wanted {
        let path = tree.join(name);
        if fs::read(&path).is_ok_and(|old| old == *bytes) {
            continue;
        }
        let folder = path.parent().expect("a file lies in a folder");
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, bytes));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// How many bytes of blanks `text` begins with, and of comments if they are to be skipped.
fn blanks(text: &[u8], skips_comments: bool) -> usize {
    let mut at = 0;
    loop {
        at += text[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if !skips_comments || !text[at..].starts_with(b"//") {
            return at;
        }
        at += text[at..].iter().take_while(|byte| **byte != b'\n').count();
    }
}

/// Where `pattern` stands in `text`. A blank in it stands for any blanks and comments; it may have
/// comments of its own, which then must be there.
fn places(text: &str, pattern: &str) -> Vec<Range<usize>> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let matches_at = |start: usize| {
        let (mut at, mut in_pattern) = (start, 0);
        while in_pattern < pattern.len() {
            if pattern[in_pattern].is_ascii_whitespace() {
                in_pattern += blanks(&pattern[in_pattern..], false);
                let has_comment = pattern[in_pattern..].starts_with(b"//");
                let there = blanks(&text[at..], !has_comment && in_pattern < pattern.len());
                if there == 0 {
                    return None;
                }
                at += there;
            } else if text.get(at) == Some(&pattern[in_pattern]) {
                at += 1;
                in_pattern += 1;
            } else {
                return None;
            }
        }
        Some(start..at)
    };
    (0..text.len()).filter_map(matches_at).collect()
}

/// The text that a mutant replaces.
fn piece(text: &str, mutant: &Mutant) -> Result<Range<usize>, String> {
    let marks = mutant.at.split_once('«').and_then(|(before, rest)| {
        let (inner, after) = rest.split_once('»')?;
        Some((before, inner, after))
    });
    let (before, inner, after) = marks.ok_or("no «…» in its `at`")?;
    let found = places(text, &format!("{before}{inner}{after}"));
    let [whole] = found.as_slice() else {
        return Err(format!(
            "`at` is {} times in {}; it must be there once: follow the change of that file",
            found.len(),
            mutant.file
        ));
    };
    let within = &text[whole.clone()];
    let start = places(within, before).first().map_or(0, |place| place.end);
    let length = places(&within[start..], inner).first().map_or(0, |place| place.end);
    Ok(whole.start + start..whole.start + start + length)
}

fn rewrite(text: &str, mutants: &[&Mutant], complaints: &mut Vec<String>) -> String {
    let mut pieces = Vec::new();
    for mutant in mutants {
        match piece(text, mutant) {
            Ok(piece) => pieces.push((piece, *mutant)),
            Err(complaint) => complaints.push(format!("{}: {complaint}", mutant.full_name())),
        }
    }
    // Outer pieces come before those that lie in them.
    pieces.sort_by_key(|(piece, mutant)| (piece.start, usize::MAX - piece.end, mutant.number));
    for (one, other) in pieces.iter().zip(pieces.iter().skip(1)) {
        if other.0.start < one.0.end && other.0.end > one.0.end {
            let (one, other) = (one.1.full_name(), other.1.full_name());
            complaints.push(format!("{one} and {other} overlap; one must contain the other"));
        }
    }
    render(text, 0..text.len(), &pieces)
}

/// The part `range` of the text, with each piece in it behind a look at the mutant.
fn render(text: &str, range: Range<usize>, mut pieces: &[(Range<usize>, &Mutant)]) -> String {
    let (mut out, mut at) = (String::new(), range.start);
    while let Some(((piece, mutant), rest)) = pieces.split_first() {
        let inside = rest.iter().take_while(|(other, _)| other.start < piece.end).count();
        out.push_str(&text[at..piece.start]);
        let original = &text[piece.clone()];
        let number = mutant.number;
        let is_statement = original.is_empty()
            || original.trim_end().ends_with([';', '}']) && !original.trim().starts_with('{');
        let otherwise = render(text, piece.clone(), &rest[..inside]);
        let (open, close) = if is_statement { ("", "") } else { ("(", ")") };
        out.push_str(&format!(
            "{open}if crate::mutants::is({number}) {{ {} }} else {{ {otherwise} }}{close}",
            mutant.to
        ));
        at = piece.end;
        pieces = &rest[inside..];
    }
    out.push_str(&text[at..range.end]);
    out
}
