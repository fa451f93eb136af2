//! A ratchet on the English of comments and documents.
//!
//! For each crate the test counts three habits that make prose hard to read, per 10,000 words:
//!
//! 1. the word `what`, which often stands where a noun is missing;
//! 2. `tell`, `tells`, `told`, `say`, `says`, `said` of things that do not speak;
//! 3. a headless `who` or `whoever`: one that begins a sentence, a clause or a cell of a table, or
//!    follows `by`, `to`, `for`, `with` or `of`, so that no noun before it names the subject. ("A
//!    fiber who waits" has a noun; "Who waits" and "by whoever waits" have none.) After a comma a
//!    noun may stand before it; it is counted nevertheless, because a noun of its own reads better
//!    there, too.
//!
//! It reads lines that begin with `//`, `///` or `//!`, and Markdown files (of CHANGELOG.md the
//! newest version). It leaves out code in fences and back quotes, quotations and link targets.
//!
//! [`LIMITS`] holds the highest count allowed in each crate. When a count falls, lower its limit;
//! never raise one. The aims are 15, 5 and 1 per 10,000 words, which is near the prose of tokio,
//! crossbeam and rustix. `cargo test -p ramie --test tidy words -- --nocapture` prints all counts,
//! and of each crate some places in the files with the most; with `RAMIE_WORDS=all`, every place.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

/// A crate or folder, and the most that each habit may count there, per 10,000 words: today's
/// counts, rounded up to a multiple of five, or the aims where those are met.
const LIMITS: &[(&str, [usize; 3])] = &[
    ("crates/ramie", [10, 5, 1]),
    ("crates/ramie-adapters", [0, 0, 0]),
    ("crates/ramie-cli", [10, 5, 1]),
    ("crates/ramie-coro", [10, 5, 1]),
    ("crates/ramie-driver", [5, 5, 1]),
    ("crates/ramie-futures", [10, 5, 1]),
    ("crates/ramie-macros", [0, 0, 0]),
    ("crates/ramie-pool", [5, 5, 1]),
    ("crates/ramie-tracing", [5, 5, 1]),
    ("crates/ramie-workloads", [10, 5, 1]),
    ("bench", [10, 5, 1]),
    ("examples", [15, 5, 1]),
    ("models", [15, 5, 1]),
    ("mutants", [15, 5, 1]),
    (DOCUMENTS, [15, 5, 1]),
];

/// The Markdown files at the root and those in `docs`.
const DOCUMENTS: &str = "documents";

const HABITS: [&str; 3] = ["what", "tell and say", "headless who"];

/// The number of places that are printed for each crate.
const PLACES_SHOWN: usize = 30;

/// A hidden character of a paragraph: code, a quotation, the target of a link.
const HIDDEN: char = '\0';

/// A word that a habit counts.
#[derive(Debug)]
struct Place {
    habit: usize,
    line: usize,
    sentence: String,
}

/// The counts of a file, or of many.
#[derive(Default)]
struct Counts {
    words: usize,
    places: Vec<Place>,
}

impl Counts {
    fn of(&self, habit: usize) -> usize {
        self.places.iter().filter(|place| place.habit == habit).count()
    }
}

/// Some lines of prose that belong together, with the number of the line that each character is on.
#[derive(Default)]
struct Paragraph {
    chars: Vec<char>,
    lines: Vec<usize>,
}

impl Paragraph {
    fn push_line(&mut self, number: usize, text: &str) {
        self.chars.extend(text.chars());
        self.chars.push(' ');
        self.lines.resize(self.chars.len(), number);
    }

    /// Returns the characters with code, quotations and targets of links hidden, place by place.
    fn visible(&self) -> Vec<char> {
        let mut visible = self.chars.clone();
        hide_code(&mut visible);
        hide_between(&mut visible, '"', '"', "");
        hide_between(&mut visible, '“', '”', "");
        hide_between(&mut visible, '(', ')', "]");
        visible
    }

    fn sentence_around(&self, at: usize) -> String {
        let ends_at = |&at: &usize| {
            let is_end = matches!(self.chars[at], '.' | '?' | '!');
            is_end && self.chars.get(at + 1).is_none_or(|next| next.is_whitespace())
        };
        let start = (0..at).rev().find(ends_at).map_or(0, |end| end + 1);
        let end = (at..self.chars.len()).find(ends_at).map_or(self.chars.len(), |end| end + 1);
        self.chars[start..end].iter().collect::<String>().trim().to_owned()
    }

    fn count_into(&self, counts: &mut Counts) {
        let visible = self.visible();
        let mut before = Before::Start;
        let mut at = 0;
        while at < visible.len() {
            let is_in_word = |c: &char| c.is_alphanumeric() || matches!(c, '\'' | '’');
            let length = visible[at..].iter().take_while(|&c| is_in_word(c)).count();
            if length == 0 {
                before = before.and(visible[at]);
                at += 1;
                continue;
            }
            let word: String = visible[at..at + length].iter().collect::<String>().to_lowercase();
            let word = word.trim_matches('\'').split(['\'', '’']).next().unwrap_or_default();
            if word.chars().any(char::is_alphabetic) {
                counts.words += 1;
            }
            if let Some(habit) = habit_of(word, &before) {
                let sentence = self.sentence_around(at);
                counts.places.push(Place { habit, line: self.lines[at], sentence });
            }
            before = match word {
                "by" | "to" | "for" | "with" | "of" => Before::Start,
                _ => Before::Word,
            };
            at += length;
        }
    }
}

/// The context before a word, as far as a `who` depends on it.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// The beginning of a sentence or a clause, or a preposition.
    Start,
    /// A word, or hidden text, that may be the noun a `who` refers to.
    Word,
}

impl Before {
    fn and(self, c: char) -> Self {
        match c {
            '.' | ',' | ':' | ';' | '?' | '!' | '|' => Before::Start,
            HIDDEN => Before::Word,
            _ => self,
        }
    }
}

fn habit_of(word: &str, before: &Before) -> Option<usize> {
    match word {
        "what" => Some(0),
        "tell" | "tells" | "told" | "say" | "says" | "said" => Some(1),
        "who" | "whoever" if *before == Before::Start => Some(2),
        _ => None,
    }
}

/// Hides spans in back quotes, which end with as many back quotes as they begin with.
fn hide_code(chars: &mut [char]) {
    let run = |chars: &[char], at: usize| chars[at..].iter().take_while(|&&c| c == '`').count();
    let mut at = 0;
    while at < chars.len() {
        let length = run(chars, at);
        if length == 0 {
            at += 1;
            continue;
        }
        let mut end = at + length;
        while end < chars.len() && run(chars, end) != length {
            end += run(chars, end).max(1);
        }
        if end < chars.len() {
            chars[at..end + length].fill(HIDDEN);
            at = end;
        }
        at += length;
    }
}

/// Hides spans that begin with `open`, right behind `prefix`, and end with `close`.
fn hide_between(chars: &mut [char], open: char, close: char, prefix: &str) {
    let mut at = 0;
    while at < chars.len() {
        let follows = prefix
            .chars()
            .rev()
            .enumerate()
            .all(|(back, c)| at.checked_sub(back + 1).is_some_and(|before| chars[before] == c));
        let end = (chars[at] == open && follows)
            .then(|| chars[at + 1..].iter().position(|&c| c == close))
            .flatten();
        if let Some(length) = end {
            chars[at..at + length + 2].fill(HIDDEN);
            at += length + 1;
        }
        at += 1;
    }
}

/// Splits lines of Markdown into paragraphs, items of lists and rows of tables, without code.
fn paragraphs<'a>(lines: impl Iterator<Item = (usize, Option<&'a str>)>) -> Vec<Paragraph> {
    let mut found = vec![Paragraph::default()];
    let mut is_in_fence = false;
    for (number, line) in lines {
        let Some(line) = line.map(str::trim) else {
            // The end of a comment.
            is_in_fence = false;
            found.push(Paragraph::default());
            continue;
        };
        if line.starts_with("```") || line.starts_with("~~~") {
            is_in_fence = !is_in_fence;
            continue;
        }
        if is_in_fence {
            continue;
        }
        let text = line.trim_start_matches(|c: char| c.is_ascii_digit() || ".-*+>#| ".contains(c));
        let is_definition = line.starts_with('[') && line.contains("]: ");
        let begins = ["- ", "* ", "+ ", "> ", "#", "|"].iter().any(|mark| line.starts_with(mark))
            || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        if line.is_empty() || begins || is_definition {
            found.push(Paragraph::default());
        }
        if is_definition {
            continue;
        }
        let text = if begins { text } else { line };
        found.last_mut().expect("there is one").push_line(number, text);
    }
    found
}

/// Returns the prose of a file line by line; `None` ends a comment.
fn prose<'a>(name: &str, text: &'a str) -> Vec<(usize, Option<&'a str>)> {
    let is_markdown = name.ends_with(".md");
    let of_line = |line: &'a str| {
        if is_markdown {
            return Some(line);
        }
        line.trim_start().strip_prefix("//").map(|line| line.trim_start_matches(['/', '!']))
    };
    let mut versions = 0;
    let is_current = |line: &&str| {
        versions += usize::from(name.ends_with("CHANGELOG.md") && line.starts_with("## "));
        versions < 2
    };
    let lines = text.lines().take_while(is_current).enumerate();
    lines.map(|(index, line)| (index + 1, of_line(line))).collect()
}

fn count(name: &str, text: &str) -> Counts {
    let mut counts = Counts::default();
    for paragraph in paragraphs(prose(name, text).into_iter()) {
        paragraph.count_into(&mut counts);
    }
    counts
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files_under(folder: &Path, is_deep: bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && is_deep && name != "target" && !name.starts_with('.') {
            files_under(&path, is_deep, found);
        } else if name.ends_with(".md") || name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// Counts each file of a crate, by name.
fn count_crate(name: &str) -> BTreeMap<String, Counts> {
    let mut files = Vec::new();
    if name == DOCUMENTS {
        files_under(&root(), false, &mut files);
        files_under(&root().join("docs"), true, &mut files);
    } else {
        files_under(&root().join(name), true, &mut files);
    }
    let counted = files.into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a readable file");
        let name = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned();
        let counts = count(&name, &text);
        (name, counts)
    });
    counted.collect()
}

/// Prints the places of a crate, those of the file with the most first.
fn print_places(files: &BTreeMap<String, Counts>, habits: &[usize]) {
    let mut files: Vec<_> = files.iter().collect();
    let wanted = |counts: &Counts| habits.iter().map(|&habit| counts.of(habit)).sum::<usize>();
    files.sort_by_key(|(_, counts)| std::cmp::Reverse(wanted(counts)));
    let places = files.iter().flat_map(|(name, counts)| {
        let places = counts.places.iter().filter(|place| habits.contains(&place.habit));
        places.map(move |place| (name, place))
    });
    let all = env::var("RAMIE_WORDS").is_ok_and(|value| value == "all");
    for (name, Place { habit, line, sentence }) in
        places.take(if all { usize::MAX } else { PLACES_SHOWN })
    {
        println!("  {name}:{line}: ({}) {sentence}", HABITS[*habit]);
    }
}

#[test]
fn the_words_that_hide_a_subject_become_fewer() {
    let mut complaints = Vec::new();
    println!("per 10,000 words of comments and documents: {}", HABITS.join(" · "));
    for (name, limits) in LIMITS {
        let files = count_crate(name);
        let words: usize = files.values().map(|counts| counts.words).sum();
        assert!(words > 100, "{name} has {words} words of prose: are its files where they were?");
        let mut shown = format!("{name} ({words} words):");
        let mut above = Vec::new();
        for (habit, limit) in limits.iter().enumerate() {
            let found: usize = files.values().map(|counts| counts.of(habit)).sum();
            let rate = found as f64 * 10_000.0 / words as f64;
            shown += &format!("  {rate:.1} (at most {limit})");
            if found * 10_000 > limit * words {
                above.push(habit);
                let habit = HABITS[habit];
                complaints.push(format!("{name}: '{habit}' {rate:.1} times, at most {limit}"));
            }
        }
        println!("\n{shown}");
        print_places(&files, if above.is_empty() { &[0, 1, 2] } else { &above });
    }
    assert!(
        complaints.is_empty(),
        "\nper 10,000 words; the places with the most are listed above\n{}\n",
        complaints.join("\n")
    );
}

/// A canary: the counter finds each habit, on its line, and passes over code and quotations.
#[test]
fn the_counter_finds_each_habit_and_passes_over_code_and_quotations() {
    let source = r#"
//! What is first. It says so.
fn f() { let what = "told"; }
/// Woken by whoever
/// comes, or by a fiber who waits; who else is told?
///
/// ```
/// // what who told
/// ```
/// `what` ``whoever ` says`` "who told what" [text](what/who).
"#;
    let counts = count("x.rs", source);
    let found: Vec<_> = counts.places.iter().map(|place| (place.habit, place.line)).collect();
    assert_eq!(found, [(0, 2), (1, 2), (2, 4), (2, 5), (1, 5)]);
    assert_eq!(counts.places[1].sentence, "It says so.");
    assert_eq!(counts.words, 6 + 14 + 1);

    let table = "| who | does |\n|---|---|\n| who waits | a worker who runs |\n\n- Who?\n1. Who?\n";
    let counts = count("x.md", table);
    let found: Vec<_> = counts.places.iter().map(|place| (place.habit, place.line)).collect();
    assert_eq!(found, [(2, 1), (2, 3), (2, 5), (2, 6)]);

    let changelog = "# Log\n## Unreleased\nwhat\n## 0.1.0\nwhat\n";
    assert_eq!(count("CHANGELOG.md", changelog).places.len(), 1);
}
