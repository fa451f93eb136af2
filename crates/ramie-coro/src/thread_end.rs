//! Whether the destructors of this thread's thread-locals run.
//!
//! A coroutine may be suspended inside `LocalKey::with`, and be kept in another thread-local. At
//! the end of the thread the value that it refers to may be destroyed first, so then the coroutine
//! must neither go on nor be unwound. std destroys thread-locals in the reverse of the order in
//! which they were first used (so do `__cxa_thread_atexit_impl` and std's own list where that is
//! missing), and says nothing when it begins. What tells is a thread-local of our own: all those
//! that were first used before it are destroyed after it.
//!
//! | this thread | left by |
//! |---|---|
//! | runs | the destructor of any of our keys, or [`begin`] |
//! | ends: [`has_begun`] | nothing |
//!
//! *The race to fear*: the program first uses a thread-local after our last one, keeps a coroutine
//! there, and destroys that before ours. So not one key is used but one for each of the first 16
//! starts, and from then on whenever their number has doubled. To use a key at each suspension
//! would be exact, and would leave some 50 bytes behind each time, because no key can be taken
//! back. What is left is an assumption on the program, stated in the docs of
//! [`Coroutine`](crate::Coroutine) and of `ramie::fiber`.

use std::cell::Cell;

thread_local! {
    // None of these has a destructor, so they are there until the very end.
    static STARTS: Cell<u64> = const { Cell::new(0) };
    static HAS_BEGUN: Cell<bool> = const { Cell::new(false) };
    static HOOK: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Tells that the thread ends, when it is destroyed.
struct Teller;

impl Drop for Teller {
    fn drop(&mut self) {
        HAS_BEGUN.set(true);
        if let Some(hook) = HOOK.get() {
            hook();
        }
    }
}

/// Starts for each of which a key is used; behind them, those whose number is a power of two.
const EACH_OF: u64 = 16;

macro_rules! tellers {
    ($($name:ident)*) => {
        thread_local! {
            $(static $name: Teller = const { Teller };)*
        }
        /// The first use of each key has it destroyed before all others so far.
        const USES: &[fn()] = &[$(|| {
            // While it is destroyed there is nothing left to tell.
            let _ = $name.try_with(|_| ());
        }),*];
    };
}

tellers! {
    T00 T01 T02 T03 T04 T05 T06 T07 T08 T09 T10 T11 T12 T13 T14 T15 T16 T17 T18 T19 T20 T21 T22 T23
    T24 T25 T26 T27 T28 T29 T30 T31 T32 T33 T34 T35 T36 T37 T38 T39 T40 T41 T42 T43 T44 T45 T46 T47
}

/// Notes that something was started, or has suspended, which must not outlive the thread-locals
/// that are in use now.
pub fn note_start() {
    let number = STARTS.get() + 1;
    STARTS.set(number);
    if number <= EACH_OF || number.is_power_of_two() {
        use_next_key(number);
    }
}

#[cold]
fn use_next_key(number: u64) {
    if let Some(use_key) = USES.get(index_of(number)) {
        use_key();
    }
}

fn index_of(number: u64) -> usize {
    let index = match number {
        ..=EACH_OF => number - 1,
        _ => EACH_OF - 1 + u64::from(number.ilog2() - EACH_OF.ilog2()),
    };
    index as usize
}

/// Tells whether the destructors of this thread's thread-locals are known to run.
#[must_use]
pub fn has_begun() -> bool {
    HAS_BEGUN.get()
}

/// Notes that those destructors run: to be called by one of them, before it drops what may hold a
/// coroutine.
pub fn begin() {
    HAS_BEGUN.set(true);
}

/// Has `hook` called among those destructors, once for each key of ours.
pub fn set_hook(hook: fn()) {
    HOOK.set(Some(hook));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_used_once() {
        let numbers = (1..=EACH_OF).chain((5..37).map(|power| 1 << power));
        assert!(numbers.map(index_of).eq(0..USES.len()));
    }
}
