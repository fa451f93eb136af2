//! The strand of a worker's own thread: its stack, its fiber-locals, its context.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    ptr::{self, null},
    sync::Arc,
};

use ramie_coro::context;

use super::{FiberStack, Installed, Shared, SurveyInbox, Worker, WorkerTimers, guest::GuestTurn};
use crate::core::strand::{StrandHeader, Wake, WakeRef};

/// Calls `f` with `strand` as the current one of `ramie_coro`. `f` suspends only by the loop, which
/// makes `strand` the current one again, or not at all.
pub(super) fn in_context_of<T>(strand: &context::Strand, f: impl FnOnce() -> T) -> T {
    struct Restore(*const context::Strand);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: it was current when `in_context_of` was called, around this call.
            unsafe { context::set_current(self.0) };
        }
    }
    let _restore = Restore(context::current());
    // SAFETY: the borrow outlives the call; `strand` is current until `_restore` is dropped.
    unsafe { context::set_current(strand) };
    f()
}

/// The strand of a worker's own thread.
pub(crate) struct RootStrand {
    /// Stands for the thread's stack. It gets a header when the strand first waits.
    stack: Box<FiberStack>,
    /// The strand of the thread's own code, as `ramie_coro` knows it.
    context_strand: Cell<*const context::Strand>,
    /// The wait of the thread for the end of its fibers.
    pub(super) waits_for_fibers: Cell<Option<WakeRef>>,
    /// The present turn, if another loop of the thread drives this worker.
    pub(super) guest: GuestTurn,
    /// Where askers find the id of this strand.
    surveys: Arc<SurveyInbox>,
}

impl RootStrand {
    pub(super) fn new(shared: &'static Shared, surveys: Arc<SurveyInbox>) -> Self {
        RootStrand {
            stack: Box::new(FiberStack::of_thread(shared)),
            context_strand: Cell::new(null()),
            waits_for_fibers: Cell::new(None),
            guest: GuestTurn::default(),
            surveys,
        }
    }

    #[inline(always)]
    pub(super) fn stack(&self) -> &FiberStack {
        &self.stack
    }

    /// Whether `stack` is the one of this strand.
    #[inline(always)]
    pub(super) fn is_on(&self, stack: &FiberStack) -> bool {
        ptr::eq(stack, &raw const *self.stack)
    }

    /// Makes `header` the strand of this thread.
    pub(crate) fn adopt(&self, header: &'static StrandHeader) {
        self.stack.stand_for(header);
        self.surveys.note_root(Some(header.id()));
    }

    /// The strand of this thread has ended; its header no longer belongs to this worker.
    pub(crate) fn forget(&self, timers: &WorkerTimers) {
        timers.forget(&self.stack);
        self.stack.stand_for_none();
        self.surveys.note_root(None);
    }

    /// Remembers the context of the thread's own code, which calls the worker's loop.
    #[inline(always)]
    pub(super) fn note_context(&self) {
        self.context_strand.set(context::current());
    }

    /// Makes the context of the thread's own code the current one.
    #[inline(always)]
    pub(super) fn set_context(&self) {
        // SAFETY: the thread's own strand, which was current when the loop began.
        unsafe { context::set_current(self.context_strand.get()) };
    }

    /// Calls `f` with this strand as the current one of `ramie_coro`, so `f` has a context of its
    /// own. `header` is the header of this strand.
    pub(crate) fn run_in_own_context<T>(&self, header: &StrandHeader, f: impl FnOnce() -> T) -> T {
        let strand = &self.stack.strand;
        strand.set_id(header.id_bits());
        in_context_of(strand, f)
    }

    pub(super) fn has_locals(&self) -> bool {
        !self.stack.locals.is_empty()
    }

    /// Ends the locals of this strand. Their destructors run on `worker`, to which it belongs.
    pub(crate) fn end_locals(&self, worker: &Worker) {
        if self.has_locals() {
            let _installed = Installed::new(worker);
            self.stack.locals.free();
        }
    }

    /// A fiber has ended, and it may have been the last one for which the thread waits.
    #[cold]
    pub(super) fn wake_if_last(&self, shared: &Shared) {
        if shared.live() == 0
            && let Some(wait) = self.waits_for_fibers.take()
        {
            wait.wake(Wake::Woken);
        }
    }
}
