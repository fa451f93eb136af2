//! Regions in which a strand must not suspend.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs `f`, in which any call that would suspend the strand panics.
///
/// For code that must not be interleaved with other fibers of this worker: the initializer of a
/// `thread_local!`, a region in which a last-in-first-out thread-local context is set.
///
/// # Panics
/// The call inside `f` that would suspend panics and names itself as the culprit.
///
/// # Examples
/// ```
/// let sum = ramie::no_switch(|| (1..=4).sum::<u32>());
/// assert_eq!(sum, 10);
/// ```
pub fn no_switch<T>(f: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    let _leave = Leave;
    f()
}

#[inline]
pub(crate) fn check() {
    if DEPTH.get() != 0 {
        refuse();
    }
}

#[cold]
fn refuse() -> ! {
    panic!(
        "a call inside no_switch would suspend the strand; move the blocking call (or yield_now) \
         out of the no_switch region"
    );
}
