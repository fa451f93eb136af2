//! Enough stack for JSON that is nested deeply.
//!
//! A deserializer recurses for each level of its input. serde_json refuses more than 127 levels,
//! but clients choose how many there are up to that, and the program how much stack each takes. All
//! these levels must fit on the stack, because an overflow ends the process.

use std::panic::resume_unwind;

use http::StatusCode;
use ramie::fiber;

use crate::extract::Rejection;

/// Levels that fit on the stack of a connection's fiber, whatever their types are.
const SHALLOW: usize = 16;
/// The stack for more levels, as large as that of a thread of std.
const STACK_BYTES: usize = 2 << 20;

/// Calls `parse`, on a fiber with a larger stack if `json` is nested deeply.
pub(super) fn on_enough_stack<T>(
    json: &[u8],
    parse: impl FnOnce() -> Result<T, Rejection>,
) -> Result<T, Rejection> {
    match is_deep(json) {
        true => on_large_stack(parse),
        false => parse(),
    }
}

#[cold]
fn on_large_stack<T>(parse: impl FnOnce() -> Result<T, Rejection>) -> Result<T, Rejection> {
    fiber::scope(|scope| {
        let large = fiber::Builder::new().stack_size(STACK_BYTES);
        match large.spawn_scoped_local(scope, parse) {
            Ok(parsing) => parsing.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => {
                log::error!("there is no stack for JSON that is nested deeply: {error}");
                let reason = "the server is short of memory";
                Err(Rejection::new(StatusCode::SERVICE_UNAVAILABLE, reason))
            }
        }
    })
}

/// Whether there are more than [`SHALLOW`] levels before the first mistake of the JSON.
fn is_deep(json: &[u8]) -> bool {
    let mut openings = memchr::memchr2_iter(b'[', b'{', json);
    if openings.nth(SHALLOW).is_none() {
        return false;
    }
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => at += string_length(&json[at..]),
            b'[' | b'{' if depth == SHALLOW => return true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The length of a string with its last quote, without its first.
fn string_length(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(found) if rest[found] == b'"' => return at + found + 1,
            Some(found) => at += found + 2,
            None => return text.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_outside_of_strings() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let (most, more) = (nested(SHALLOW), nested(SHALLOW + 1));
        for shallow in [
            most.clone(),
            format!("[{}]", vec![nested(SHALLOW - 1); 20].join(",")),
            format!("[\"\\\\\", \"\\\"{more}\", {{\"[[\": {}}}]", nested(SHALLOW - 2)),
            format!("\"{more}"),
            format!("\"{more}\\"),
            format!("]]]]{most}"),
        ] {
            assert!(!is_deep(shallow.as_bytes()), "{shallow}");
        }
        for deep in [
            more.clone(),
            format!("[\"]\", {most}"),
            format!("[\"\\\"]\", {most}"),
            format!("[\"\\\\\", {most}"),
            "{\"a\":".repeat(SHALLOW + 1),
        ] {
            assert!(is_deep(deep.as_bytes()), "{deep}");
        }
    }

    #[test]
    fn a_panic_on_the_larger_stack_is_raised_here() {
        let more = "[".repeat(SHALLOW + 1);
        let panic = || -> Result<(), Rejection> { panic!("planted") };
        let caught = std::panic::catch_unwind(|| on_enough_stack(more.as_bytes(), panic));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"planted"));
    }
}
