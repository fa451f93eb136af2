//! Prefetches for fibers whose turn comes soon. Any address will do, because a prefetch cannot
//! fault.

use std::ptr;

use ramie_driver::sys;

use super::FiberStack;

/// The prefetches of a pop of the run queue for later entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefetch {
    /// The queue is short.
    Nothing,
    /// Stacks, and the few lines of frames of fibers that yield in a loop of their first function.
    Shallow,
    /// Stacks, and more lines of frames.
    Deep,
    /// Stacks, and the frames in which fibers wait for ops.
    Waits,
}

/// A line of the cache, in bytes.
const LINE: usize = 64;
/// The number of lines of frames that are prefetched for a shallow fiber, and of those in which a
/// fiber waits for an op.
const FEW: usize = 4;
/// The number of lines of frames that are prefetched for a deeper fiber.
const MORE: usize = 12;
/// The depth in bytes at which a fiber is not shallow any more. The registers that the switch saves
/// may lie below the lines that are prefetched.
const DEEP: usize = FEW * LINE + 32;

impl Prefetch {
    /// The prefetches for fibers that are as deep as this one.
    pub(super) fn for_fibers_like(stack: &FiberStack) -> Self {
        let depth = ptr::from_ref(stack).addr().wrapping_sub(stack.stack_pointer().addr());
        if depth < DEEP { Prefetch::Shallow } else { Prefetch::Deep }
    }
}

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
pub(super) fn few_frames(stack: *const FiberStack) {
    lines::<FEW>(stack.cast::<u8>().wrapping_sub(FEW * LINE));
}

/// The frames of a deeper fiber, below those of a shallow one.
#[inline(always)]
pub(super) fn deeper_frames(stack: *const FiberStack) {
    lines::<{ MORE - FEW }>(stack.cast::<u8>().wrapping_sub(MORE * LINE));
}

/// The frames in which a suspended fiber continues.
#[inline(always)]
pub(super) fn frames_of_wait(stack: &FiberStack) {
    lines::<FEW>(stack.stack_pointer());
}

#[inline(always)]
fn lines<const COUNT: usize>(first: *const u8) {
    for number in 0..COUNT {
        sys::prefetch(first.wrapping_add(number * LINE));
    }
}
