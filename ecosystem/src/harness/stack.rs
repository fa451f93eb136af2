//! The deepest use of a stack in this process.

use std::{
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering},
};

static DEEPEST: AtomicUsize = AtomicUsize::new(0);

/// Notes how deep the stack of the calling fiber was used. The harness does so at the end of a
/// section; a section does so at the end of other fibers that run the crate.
pub(crate) fn note() {
    let here = black_box(0_u8);
    if let Some(stack) = ramie::coro::stack_of(&raw const here as usize) {
        DEEPEST.fetch_max(stack.high_water_mark(), Ordering::Relaxed);
    }
}

/// The most bytes that were noted.
pub(super) fn deepest() -> usize {
    DEEPEST.load(Ordering::Relaxed)
}
