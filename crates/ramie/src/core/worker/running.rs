//! The strand that runs on a worker.
#![allow(unsafe_code)]

use std::{cell::Cell, ptr};

use ramie_driver::sys::coarse_ms;

use super::{FiberStack, Shared, recorder::Recorder, sampling::Sampling};

/// The strand that runs on a worker, the `no_switch` regions that it is in, and whether it holds
/// contexts ([`contexts`](super::contexts) has a table).
#[repr(C)]
pub(crate) struct RunningStrand {
    /// The stack of the fiber that runs; null: the code on the thread's own stack, or `masked`.
    pub(super) current: Cell<*const FiberStack>,
    /// The stack of the fiber that runs in a `no_switch` region or with contexts; otherwise null.
    pub(super) masked: Cell<*const FiberStack>,
    /// The number of `no_switch` regions that the strand is in, and a bit that means that it is a
    /// fiber that holds contexts. INVARIANT: unless this is 0, `current` is null and `masked` has
    /// its value, so that a switch needs no check of its own.
    pub(super) regions: Cell<u32>,
    /// The coarse clock of the worker: ms of `CLOCK_MONOTONIC`, modulo 2^32, read at each poll.
    now_ms: Cell<u32>,
    /// The events of a recording.
    pub(crate) recorder: Recorder,
    /// The sample of how long strands wait for their turn and run.
    pub(super) sampling: Sampling,
}

impl RunningStrand {
    pub(super) fn new(switches_per_poll: u32, shared: &'static Shared) -> Self {
        RunningStrand {
            current: Cell::new(ptr::null()),
            masked: Cell::new(ptr::null()),
            regions: Cell::new(0),
            now_ms: Cell::new(coarse_ms()),
            recorder: Recorder::new(shared),
            sampling: Sampling::new(switches_per_poll),
        }
    }

    /// The time of the last poll, in ms, for the ages of waits. No wait reads a clock for that.
    #[inline(always)]
    pub(crate) fn now_ms(&self) -> u32 {
        self.now_ms.get()
    }

    /// Reads the coarse clock, which takes about 5 ns. It moves in steps of 1 to 10 ms.
    pub(super) fn read_clock(&self) {
        self.now_ms.set(coarse_ms());
    }

    /// The fiber that runs outside `no_switch` regions, if it is one and not the thread itself.
    #[inline(always)]
    pub(crate) fn fiber(&self) -> Option<&FiberStack> {
        // SAFETY: `current` is null or the stack in use, which lives as long as its worker.
        unsafe { self.current.get().as_ref() }
    }

    /// The fiber that runs in a `no_switch` region or with contexts.
    #[inline(always)]
    pub(super) fn masked_fiber(&self) -> Option<&FiberStack> {
        // SAFETY: `masked` is null or the stack in use, which lives as long as its worker.
        unsafe { self.masked.get().as_ref() }
    }

    /// Whether a fiber runs, in a `no_switch` region or with contexts or not.
    pub(crate) fn is_fiber(&self) -> bool {
        !self.current.get().is_null() || !self.masked.get().is_null()
    }

    pub(super) fn is_in_no_switch(&self) -> bool {
        self.no_switch_depth() > 0
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
