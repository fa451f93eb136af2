//! Questions at a terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use super::description::{Given, KEYS};
use crate::failure::Failure;

/// The question for each key, in the order of [`KEYS`], and its default.
const QUESTIONS: [(&str, Option<&str>); KEYS.len()] = [
    ("How many tasks (connections, requests, jobs) run at the same time?", None),
    ("How many µs does one step compute before it waits?", None),
    ("How many µs does a step wait?", None),
    ("What does a step wait for: timer, socket, pipe, file or lock?", Some("socket")),
    ("By how many percent do these two times vary?", Some("0")),
    ("Do steps wait inside libraries that block the OS thread (yes or no)?", Some("no")),
    ("How many MiB of memory may the program use at most (empty: no limit)?", Some("")),
    ("How many seconds may the measurement take?", Some("60")),
];

/// Whether stdin and stderr are a terminal, so that questions can be asked.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks until each answer is valid.
pub(super) fn ask() -> Result<Given, Failure> {
    ask_by(&mut io::stdin().lock(), &mut io::stderr().lock())
}

fn ask_by(answers: &mut impl BufRead, screen: &mut impl Write) -> Result<Given, Failure> {
    let cannot = |why: &str| Failure::usage(format!("{why}; describe the work by flags instead"));
    let mut given = Given::default();
    for (key, (question, default)) in KEYS.iter().zip(QUESTIONS) {
        loop {
            let hint = default.filter(|text| !text.is_empty());
            let hint = hint.map(|text| format!(" [{text}]")).unwrap_or_default();
            let shown = write!(screen, "{question}{hint} ").and_then(|()| screen.flush());
            shown.map_err(|error| cannot(&format!("cannot ask ({error})")))?;
            let mut answer = String::new();
            let length = answers.read_line(&mut answer);
            if length.map_err(|error| cannot(&format!("cannot read the answer ({error})")))? == 0 {
                return Err(cannot("the answers ended before the last question"));
            }
            let answer = match answer.trim() {
                "" => default.unwrap_or_default(),
                answer => answer,
            };
            if answer.is_empty() && default.is_some() {
                break;
            }
            match given.set(key, answer) {
                Ok(()) => break,
                // If the screen is gone, the next question fails.
                Err(why) => drop(writeln!(screen, "  {why}")),
            }
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::{Given, ask_by};

    #[test]
    fn wrong_answers_are_asked_again_and_defaults_are_taken() {
        let mut answers = "0\n1000\n5\nlots\n200\n\n\n\n\n20\n".as_bytes();
        let mut screen = Vec::new();
        let given = ask_by(&mut answers, &mut screen).unwrap();
        let mut expected = Given::default();
        for (key, text) in [
            ("concurrency", "1000"),
            ("cpu-us", "5"),
            ("wait-us", "200"),
            ("wait", "socket"),
            ("jitter", "0"),
            ("blocking", "no"),
            ("seconds", "20"),
        ] {
            expected.set(key, text).unwrap();
        }
        assert_eq!(given, expected);
        let screen = String::from_utf8(screen).unwrap();
        assert!(
            screen.contains("expected 1 or more") && screen.contains("whole number"),
            "{screen}"
        );
        assert!(ask_by(&mut "1000\n".as_bytes(), &mut Vec::new()).is_err());
    }
}
