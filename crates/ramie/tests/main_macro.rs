//! `#[ramie::main]`.

use ramie::fiber;

#[ramie::main]
fn plain() {
    assert_eq!(fiber::current().name(), Some("main"));
}

/// Attributes and return types are kept.
#[ramie::main]
#[inline(never)]
pub(crate) fn with_a_result() -> Result<u8, std::num::ParseIntError> {
    let number = fiber::spawn(|| "7".parse::<u8>()).join().unwrap()?;
    if number == 7 {
        return Ok(number);
    }
    "not a number".parse()
}

#[test]
fn the_body_runs_as_a_fiber() {
    plain();
    assert_eq!(with_a_result(), Ok(7));
    assert!(fiber::current().id().is_thread());
}
