//! Exceptions that the caller can answer, so that the failed computation continues.

use ramie_coro::effect::{Effect, Next, handle, perform};

/// A line is not a number; the handler answers with a replacement.
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

/// Counts malformed lines as zero, and returns them.
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

/// Stops at the first malformed line, as an ordinary exception would.
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
