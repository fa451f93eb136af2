//! Suspensions of strands to which contexts are attached ([`local::attached`](crate::core::local)).
//!
//! A fiber that holds contexts runs as if it were in a `no_switch` region: the worker's `current`
//! is null, and `masked` names the fiber's stack. So each of its suspensions takes the cold path of
//! a strand that may be no fiber, and ends up here. A fiber without contexts has no check to make.
//!
//! | `current` | `regions` | the strand that runs |
//! |---|---|---|
//! | the stack | 0 | a fiber without contexts |
//! | null, `masked` is the stack | [`HOLDS_CONTEXTS`] | a fiber that holds contexts |
//! | null, `masked` is the stack | a count, with or without that bit | a fiber in `no_switch` regions |
//! | null, `masked` is null | 0 or a count | the thread itself, or no strand: the loop |

use ramie_coro::context;

use super::{
    FiberStack, NoSwitch, RunningStrand, Until, Worker, root::in_context_of, with_existing,
};
use crate::core::local::attached;

/// The bit of `regions` that means: the fiber that runs holds contexts.
const HOLDS_CONTEXTS: u32 = 1 << 31;

/// Notes that a context is attached to the strand that runs. Returns false if no strand runs,
/// because the worker's loop has called this code.
pub(crate) fn note_context() -> bool {
    let noted = with_existing(|worker| {
        if worker.running.is_fiber() {
            worker.running.hold_contexts();
        } else if worker.surveys.is_in_loop() {
            return false;
        }
        // So that the end of the strand, which looks for locals only, ends its contexts, too.
        worker.running_stack().locals.note_context();
        true
    });
    noted.unwrap_or(true)
}

/// Notes that the strand that runs has no context any more.
pub(crate) fn note_no_context() {
    with_existing(|worker| worker.running.release_contexts());
}

impl RunningStrand {
    /// The number of `no_switch` regions that the strand is in.
    #[inline]
    pub(super) fn no_switch_depth(&self) -> u32 {
        self.regions.get() & !HOLDS_CONTEXTS
    }

    fn hold_contexts(&self) {
        self.mask();
        self.regions.set(self.regions.get() | HOLDS_CONTEXTS);
    }

    fn release_contexts(&self) {
        self.regions.set(self.regions.get() & !HOLDS_CONTEXTS);
        self.unmask_if_free();
    }

    /// Whether a fiber runs that may suspend, with contexts or without.
    pub(super) fn is_fiber_that_may_switch(&self) -> bool {
        self.is_fiber() && !self.is_in_no_switch()
    }
}

/// The depth in a copy of `regions`, in whose upper half another field may lie.
pub(super) fn depth_in_copy(regions: usize) -> u32 {
    regions as u32 & !HOLDS_CONTEXTS
}

/// Suspends the strand that runs, which is no fiber, or a fiber that holds contexts.
#[cold]
#[inline(never)]
pub(super) fn switch_out_slowly(worker: &Worker) {
    match worker.running.masked_fiber() {
        Some(stack) => suspend_with_contexts(worker, stack, || {}),
        None => worker.run(Until::Root),
    }
}

/// Suspends a fiber that holds contexts.
pub(super) fn suspend_with_contexts(
    worker: &Worker,
    stack: &FiberStack,
    make_ready: impl FnOnce(),
) {
    let contexts = suspend_contexts(worker, stack);
    make_ready();
    worker.running.release_contexts();
    stack.suspend();
    worker.running.hold_contexts();
    resume_contexts(worker, stack, contexts);
    if attached::has_no_context() {
        worker.running.release_contexts();
    }
}

/// Suspends the contexts of the strand on `stack`, which runs this.
pub(super) fn suspend_contexts(worker: &Worker, stack: &FiberStack) -> attached::Suspended {
    call_hooks(worker, stack, attached::suspend_all)
}

pub(super) fn resume_contexts(worker: &Worker, stack: &FiberStack, contexts: attached::Suspended) {
    call_hooks(worker, stack, || contexts.resume_all());
}

/// Ends the contexts that are still attached to a strand that ends. Returns whether there were any.
pub(crate) fn end_contexts(worker: &Worker, stack: &FiberStack) -> bool {
    if attached::has_no_context() {
        return false;
    }
    call_hooks(worker, stack, attached::end_all);
    worker.running.release_contexts();
    true
}

/// Runs `f`, which calls hooks of the program, on the strand on `stack`.
///
/// The frames below may be lent, because a wait of the strand may have begun. So a hook must
/// suspend neither the strand (`no_switch`) nor a coroutine that the strand is resuming: hooks have
/// a context of their own, in which no coroutine is found.
fn call_hooks<R>(worker: &Worker, stack: &FiberStack, f: impl FnOnce() -> R) -> R {
    // No other strand's id: the generation is 0.
    let index = stack.try_header().map_or(u32::MAX, |header| header.id().index());
    let own = context::Strand::new(u64::from(index) + 1);
    // A destructor in a hook that panics may do I/O, which is then awaited in place and changes the
    // record.
    let record = stack.record.get();
    let result = {
        let _no_switch = NoSwitch::new(worker);
        in_context_of(&own, f)
    };
    stack.record.set(record);
    result
}
