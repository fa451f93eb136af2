//! The guard between handing a pointer out and waiting until it is no longer used.

use std::marker::PhantomData;

use super::fatal;

/// The memory that a call has lent out. A type rather than a value, so that a guard takes no room
/// in a frame that suspends.
pub trait Lent {
    /// Completes the sentence "a panic left a call while …".
    const WHAT: &'static str;
}

/// Ends the process with a message if it is dropped, by a panic or by an early return, before
/// [`settle`](Self::settle).
///
/// A frame that lends its memory (to the kernel, to another strand, to a queue) is sound because it
/// is not left before the borrower is done. A panic between the two would leave it. This guard
/// stands between: made before the memory is handed out, settled when the borrower is done.
/// `crates/ramie/docs/panics.md` lists the places.
///
/// It has no size, and its destructor exists on the unwinding path only.
#[must_use = "dropped at once, it ends the process"]
pub struct HandedOut<L: Lent>(PhantomData<L>);

impl<L: Lent> HandedOut<L> {
    /// Begins the part of the code that must not be left.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "a guard must be made explicitly")]
    pub const fn new() -> Self {
        HandedOut(PhantomData)
    }

    /// Ends that part: nothing that was handed out is used any more.
    #[inline(always)]
    pub fn settle(self) {
        std::mem::forget(self);
    }
}

impl<L: Lent> Drop for HandedOut<L> {
    #[inline(always)]
    fn drop(&mut self) {
        left(L::WHAT)
    }
}

#[cold]
#[inline(never)]
fn left(what: &str) -> ! {
    fatal(&format!(
        "a panic left a call while {what}, and the memory that the call had lent is still in use \
         (see the panic's message above); aborting"
    ))
}
