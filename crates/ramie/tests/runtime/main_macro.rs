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

#[ramie::main(workers = 3, driver = "poll", thread_name = "mine", stack_size = 65_536)]
fn with_options() {
    assert_eq!(fiber::workers(), 3);
    let there = fiber::Builder::new().on(fiber::Place::Worker(2));
    let name = || std::thread::current().name().map(str::to_owned);
    assert_eq!(there.spawn(name).unwrap().join().unwrap().as_deref(), Some("mine-2"));
}

#[ramie::main(strands = "threads", blocking_threads = 1)]
fn on_threads() {
    assert!(fiber::current().id().is_thread());
}

#[test]
fn options_are_the_runtimes() {
    with_options();
    on_threads();
}

#[test]
fn the_body_runs_as_a_fiber() {
    plain();
    assert_eq!(with_a_result(), Ok(7));
    assert!(fiber::current().id().is_thread());
}
