//! The list of mutants: files of paragraphs, in `list/`, one file for each room.
//!
//! ```text
//! room timers                              the room, once
//! file crates/ramie/src/core/time/timer.rs           of the mutants below, until the next
//! tests ramie:lib:timer:: ramie:time       of the mutants below that name none, until the next
//!
//! mutant a_strand_may_arm_later_only
//! at if «deadline_ns >= stack.armed.deadline_ns.get()» {
//! to deadline_ns <= stack.armed.deadline_ns.get()
//! tests ramie:time                         instead of those above
//! lives equivalent: why no test can tell   stated for those that are known to survive
//! ```
//!
//! The text of `at` must occur exactly once in the file, blanks and line ends aside. The part
//! between `«` and `»` is replaced; it is an expression or whole statements. `to` is the same, or
//! nothing.
//! Lines that begin with a blank go on with the line before. `#` begins a comment.
//!
//! A test is `package:binary` or `package:binary:filter`. The package is `ramie`, `driver`, `coro`,
//! `pool` or `models`; the binary one of its test programs, or `lib`; the filter is libtest's,
//! such as `file::` for the tests of one file.

use std::{fs, path::Path};

pub struct Mutant {
    /// The value of `RAMIE_MUTANT` for this mutant.
    pub number: usize,
    pub room: String,
    pub name: String,
    pub file: String,
    pub at: String,
    pub to: String,
    pub tests: Vec<String>,
    /// Why it may live.
    pub lives: Option<String>,
}

impl Mutant {
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.room, self.name)
    }
}

/// Reads all lists in the order of their names.
pub fn read(folder: &Path) -> Result<Vec<Mutant>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut mutants: Vec<Mutant> = Vec::new();
    for path in paths {
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        read_one(&text, &mut mutants)
            .map_err(|complaint| format!("{}{complaint}", path.display()))?;
    }
    for (index, mutant) in mutants.iter_mut().enumerate() {
        mutant.number = index + 1;
    }
    let mut names: Vec<_> = mutants.iter().map(Mutant::full_name).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("two mutants are called {}", pair[0])),
        None => Ok(mutants),
    }
}

/// The lines of a list, those that go on put together, each with its number.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut is_after_gap = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.trim().is_empty() {
            is_after_gap = true;
            continue;
        }
        // After an empty line a line cannot go on with one before; `read_one` refuses it then.
        let goes_on = line.starts_with(' ') && !is_after_gap;
        is_after_gap = false;
        match lines.last_mut() {
            Some((_, before)) if goes_on => {
                before.push('\n');
                before.push_str(line);
            }
            _ => lines.push((index + 1, line.to_owned())),
        }
    }
    lines
}

fn read_one(text: &str, mutants: &mut Vec<Mutant>) -> Result<(), String> {
    let (mut room, mut file, mut tests) = (String::new(), String::new(), Vec::new());
    let mut current: Option<Mutant> = None;
    for (number, line) in logical_lines(text) {
        let (key, value) = line.split_once([' ', '\n']).unwrap_or((&line, ""));
        let words = || value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let value = value.trim().to_owned();
        match (key, &mut current) {
            ("room", _) => room = value,
            ("mutant", _) => {
                mutants.extend(current.take());
                current = Some(Mutant {
                    number: 0,
                    room: room.clone(),
                    name: value,
                    file: file.clone(),
                    at: String::new(),
                    to: String::new(),
                    tests: tests.clone(),
                    lives: None,
                });
            }
            ("file", _) => {
                mutants.extend(current.take());
                file = value;
            }
            ("tests", Some(mutant)) if !mutant.at.is_empty() => mutant.tests = words(),
            ("tests", _) => tests = words(),
            ("at", Some(mutant)) => mutant.at = value,
            ("to", Some(mutant)) => mutant.to = value,
            ("lives", Some(mutant)) => mutant.lives = Some(value),
            ("", _) => {
                return Err(format!(
                    ":{number}: an indented line follows an empty line or a comment"
                ));
            }
            _ => return Err(format!(":{number}: `{key}` is no word of the grammar in list.rs")),
        }
    }
    mutants.extend(current);
    Ok(())
}
