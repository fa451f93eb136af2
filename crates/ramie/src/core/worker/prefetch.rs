//! Prefetches for fibers whose turn comes soon. Any address will do, because a prefetch cannot
//! fault.

use ramie_driver::sys;

use super::FiberStack;

/// The prefetches of a pop of the run queue for later entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefetch {
    /// The queue is short.
    Nothing,
    /// Stacks, and the frames of shallow fibers.
    Shallow,
    /// Stacks, and the frames in which fibers wait for ops.
    Waits,
}

/// A line of the cache, in bytes.
const LINE: usize = 64;
/// The number of lines of a fiber's frames that are prefetched.
const FRAME_LINES: usize = 4;
/// The distance in bytes from the wait record of a fiber that waits for an op down to the end of
/// the frame in which the record lies (`op/perform.rs`).
const BELOW_RECORD: usize = 176;

#[inline(always)]
pub(super) fn line<T>(address: *const T) {
    sys::prefetch(address.cast());
}

/// The two lines of a stack that a wait touches.
#[inline(always)]
pub(crate) fn stack(stack: *const FiberStack) {
    lines::<2>(stack.cast());
}

/// The frames of a shallow fiber: they lie just below its stack.
#[inline(always)]
pub(super) fn frames_below(stack: *const FiberStack) {
    lines::<FRAME_LINES>(stack.cast::<u8>().wrapping_sub(FRAME_LINES * LINE));
}

/// The frames in which a fiber continues, which lie around the record of its wait. A fiber that has
/// only yielded has no record, and is assumed to be shallow.
#[inline(always)]
pub(super) fn frames_of_wait(stack: &FiberStack) {
    let record: *const u8 = stack.record.get().cast();
    match record.is_null() {
        false => lines::<FRAME_LINES>(record.wrapping_sub(BELOW_RECORD)),
        true => frames_below(stack),
    }
}

#[inline(always)]
fn lines<const COUNT: usize>(first: *const u8) {
    for number in 0..COUNT {
        sys::prefetch(first.wrapping_add(number * LINE));
    }
}
