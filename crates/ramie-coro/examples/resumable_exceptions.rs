//! Exceptions that the caller can answer, so that what failed goes on.

use ramie_coro::effect::{Effect, Next, handle, perform};

/// A line is no number: what shall stand in its place?
struct Malformed {
    line: String,
}

impl Effect for Malformed {
    type Output = i64;
}

fn sum(text: &str) -> i64 {
    let number =
        |line: &str| line.parse().unwrap_or_else(|_| perform(Malformed { line: line.into() }));
    text.lines().map(number).sum()
}

/// Counts malformed lines as zero, and says which they were.
fn lenient(text: &str) -> (i64, Vec<String>) {
    let mut malformed = Vec::new();
    let sum = handle(
        || sum(text),
        |exception: Malformed, resume| {
            malformed.push(exception.line);
            resume.with(0)
        },
    );
    (sum, malformed)
}

/// Gives up at the first one, as an ordinary exception would.
fn strict(text: &str) -> Result<i64, String> {
    handle(|| Ok(sum(text)), |exception: Malformed, _resume| Next::Return(Err(exception.line)))
}

pub(crate) fn main() {
    let text = "1\ntwo\n3\nfour";
    assert_eq!(lenient(text), (4, vec!["two".to_string(), "four".to_string()]));
    assert_eq!(strict(text), Err("two".to_string()));
    assert_eq!(strict("1\n2"), Ok(3));
    println!("{:?} {:?}", lenient(text), strict(text));
}
