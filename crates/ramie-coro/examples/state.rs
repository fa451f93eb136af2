//! A variable that code reads and writes without receiving it as a parameter: the handler holds it.

use ramie_coro::effect::{Effect, handle, perform};

struct Get;
impl Effect for Get {
    type Output = u64;
}

struct Set(u64);
impl Effect for Set {
    type Output = ();
}

/// Runs `body` with a variable, and returns its final value, too.
fn with_state<R>(initial: u64, body: impl FnOnce() -> R) -> (R, u64) {
    let state = std::cell::Cell::new(initial);
    let result = handle(
        || handle(body, |_: Get, resume| resume.with(state.get())),
        |Set(value): Set, resume| {
            state.set(value);
            resume.with(())
        },
    );
    (result, state.get())
}

fn next_random() -> u64 {
    let next = perform(Get).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    perform(Set(next));
    next >> 33
}

pub(crate) fn main() {
    let three = || [next_random() % 6, next_random() % 6, next_random() % 6];
    let (dice, state) = with_state(42, three);
    assert_eq!(with_state(42, three).0, dice);
    // This is the innermost variable; the outer one is unchanged.
    let (inner, outer) = with_state(1, || with_state(2, || perform(Set(3))).1);
    assert_eq!((inner, outer), (3, 1));
    println!("{dice:?}, then {state}");
}
