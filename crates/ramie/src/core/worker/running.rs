//! The strand that runs on a worker.
#![allow(unsafe_code)]

use std::{cell::Cell, ptr};

use super::FiberStack;

/// The strand that runs on a worker, and the `no_switch` regions that it is in.
#[repr(C)]
pub(crate) struct RunningStrand {
    /// The stack of the fiber that runs; null: the code on the thread's own stack.
    pub(super) current: Cell<*const FiberStack>,
    /// The stack of the fiber that runs in a `no_switch` region; null outside.
    pub(super) masked: Cell<*const FiberStack>,
    /// The number of `no_switch` regions that the strand is in. INVARIANT: while it is in one,
    /// `current` is null and `masked` has its value, so that a switch needs no check of its own.
    pub(super) no_switch_depth: Cell<u32>,
}

impl RunningStrand {
    pub(super) fn new() -> Self {
        RunningStrand {
            current: Cell::new(ptr::null()),
            masked: Cell::new(ptr::null()),
            no_switch_depth: Cell::new(0),
        }
    }

    /// The fiber that runs outside `no_switch` regions, if it is one and not the thread itself.
    #[inline(always)]
    pub(crate) fn fiber(&self) -> Option<&FiberStack> {
        // SAFETY: `current` is null or the stack in use, which lives as long as its worker.
        unsafe { self.current.get().as_ref() }
    }

    /// The fiber that runs in a `no_switch` region.
    #[inline(always)]
    pub(super) fn masked_fiber(&self) -> Option<&FiberStack> {
        // SAFETY: `masked` is null or the stack in use, which lives as long as its worker.
        unsafe { self.masked.get().as_ref() }
    }

    /// Whether a fiber runs, in a `no_switch` region or not.
    pub(crate) fn is_fiber(&self) -> bool {
        !self.current.get().is_null() || !self.masked.get().is_null()
    }

    pub(super) fn is_in_no_switch(&self) -> bool {
        self.no_switch_depth.get() > 0
    }

    /// Whether the strand has neither a limit nor a scope around it.
    #[inline(always)]
    pub(crate) fn has_no_context(&self) -> bool {
        match self.fiber() {
            Some(stack) => stack.strand.is_empty(),
            None => ramie_coro::context::is_empty(),
        }
    }
}
