//! Lists of numbers on the command line, such as `--people 1,2,4`: one run for each combination.
//!
//! Lists are expanded as text, before clap parses, so each combination is an ordinary command line.

use std::{collections::BTreeSet, ffi::OsString};

use crate::{arguments, failure::Failure};

/// The largest number of combinations. More would take days and their command lines much memory.
const MOST_RUNS: usize = 10_000;

/// A word of the command line that holds a list: `--flag=` and the elements.
struct List<'a> {
    /// Index of the first word, and the number of words: 1 for `--flag=1,2`, 2 for `--flag 1,2`.
    index: usize,
    words: usize,
    flag: &'a str,
    elements: Vec<&'a str>,
}

/// The command lines that `words` stands for: the combinations of all lists in order, the last list
/// varying fastest. Without a list it is `words` itself.
pub(crate) fn expand(words: &[OsString]) -> Result<Vec<Vec<OsString>>, Failure> {
    let lists = lists(words);
    let runs = lists.iter().try_fold(1_usize, |runs, list| runs.checked_mul(list.elements.len()));
    let runs = runs.filter(|runs| *runs <= MOST_RUNS).ok_or_else(|| {
        Failure::usage(format!("the lists ask for more than {MOST_RUNS} runs; shorten a list"))
    })?;
    Ok((0..runs).map(|number| combination(words, &lists, number)).collect())
}

/// The command line of run `number`.
fn combination(words: &[OsString], lists: &[List<'_>], mut number: usize) -> Vec<OsString> {
    let mut line = words.to_vec();
    // Backwards, so that the indices before the list stay right.
    for list in lists.iter().rev() {
        let count = list.elements.len();
        // One word, so that an element such as `-x` is a value and not a flag.
        let word = format!("{}={}", list.flag, list.elements[number % count]);
        line.splice(list.index..list.index + list.words, [word.into()]);
        number /= count;
    }
    line
}

fn lists(words: &[OsString]) -> Vec<List<'_>> {
    let flags = flags_with_lists(words);
    let mut lists = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let Some(word) = word.to_str() else { continue };
        let next = words.get(index + 1).and_then(|next| next.to_str());
        let (flag, value, words) = match (word.split_once('='), next) {
            (Some((flag, value)), _) => (flag, value, 1),
            (None, Some(value)) => (word, value, 2),
            (None, None) => continue,
        };
        if flags.contains(flag) && value.contains(',') {
            lists.push(List { index, words, flag, elements: value.split(',').collect() });
        }
    }
    lists
}

/// The flags of `ramie run` that take a list: the numbers of the workload, and those of workers and
/// processes.
fn flags_with_lists(words: &[OsString]) -> BTreeSet<String> {
    let mut flags = BTreeSet::new();
    if words.get(1).is_none_or(|command| command != "run") {
        return flags;
    }
    let command = arguments::command();
    let Some(run) = command.find_subcommand("run") else { return flags };
    let Some(workload) = words[2..].iter().find_map(|word| run.find_subcommand(word)) else {
        return flags;
    };
    let is_number =
        |arg: &&clap::Arg| arg.get_action().takes_values() && arg.get_possible_values().is_empty();
    let names = workload.get_arguments().filter(is_number).filter_map(clap::Arg::get_long);
    flags.extend(names.chain(["workers", "processes"]).map(|name| format!("--{name}")));
    flags
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::expand;

    fn expanded(line: &str) -> Vec<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let lines = expand(&words).unwrap().into_iter();
        let text = |word: OsString| word.into_string().unwrap();
        lines.map(|line| line.into_iter().map(text).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn lists_of_numbers_are_combined_in_order() {
        assert_eq!(
            expanded("ramie run --workers=1,2 feed --people 3,4 --nutrients 5 --json"),
            [
                "ramie run --workers=1 feed --people=3 --nutrients 5 --json",
                "ramie run --workers=1 feed --people=4 --nutrients 5 --json",
                "ramie run --workers=2 feed --people=3 --nutrients 5 --json",
                "ramie run --workers=2 feed --people=4 --nutrients 5 --json",
            ]
        );
    }

    #[test]
    fn other_commas_stay() {
        for line in [
            "ramie run feed --people 3 --nutrients 5",
            "ramie run basic --yields 3 --call quick,slow",
            "ramie run spawn --count 3 --on fibers,threads --repeat 1,2",
            "ramie run spawn --people 1,2",
            "ramie run --workers 1,2",
            "ramie serve --hello --workers 1,2",
            "ramie",
        ] {
            assert_eq!(expanded(line), [line]);
        }
    }

    #[test]
    fn an_element_may_be_empty_or_wrong() {
        // clap's own check names it.
        assert_eq!(
            expanded("ramie run spawn --count 1,,-x"),
            ["ramie run spawn --count=1", "ramie run spawn --count=", "ramie run spawn --count=-x"]
        );
    }
}
