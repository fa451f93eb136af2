//! The region in which a strand must not suspend: its guard, and the check at each suspension.

use std::ptr;

use super::{FiberStack, RunningStrand, Worker, current, with_existing};
use crate::core::wait::park::WaitRecord;

const NO_SWITCH: &str = "a call inside no_switch would suspend the strand; move the blocking call \
                         (or yield_now) out of the no_switch region";

/// Runs `f`, in which any call that would suspend the strand panics.
///
/// For code that must not be interleaved with other fibers of this worker: the initializer of a
/// `thread_local!`, a region in which a last-in-first-out thread-local context is set.
///
/// A coroutine that suspends inside `f` leaves its resumer in the region. If it goes on anywhere
/// but there, the process is aborted with a message.
///
/// # Panics
/// The call inside `f` that would suspend panics, with its place.
///
/// # Examples
/// ```
/// let sum = ramie::no_switch(|| (1..=4).sum::<u32>());
/// assert_eq!(sum, 10);
/// ```
pub fn no_switch<T>(f: impl FnOnce() -> T) -> T {
    let worker = current();
    let _no_switch = NoSwitch::new(&worker);
    f()
}

/// Forbids the strand that runs to suspend, until dropped.
///
/// The code inside may be on a coroutine's stack, and that coroutine may suspend, be carried to
/// another fiber, or to a time when the worker is gone, and leave the region there. So this keeps
/// no reference, and dropping it begins with the question whether it is still in its place.
pub(crate) struct NoSwitch {
    worker: *const Worker,
    masked: *const FiberStack,
    depth: u32,
}

impl NoSwitch {
    pub(crate) fn new(worker: &Worker) -> Self {
        let running = &worker.running;
        running.forbid_switches();
        NoSwitch { worker, masked: running.masked.get(), depth: running.no_switch_depth() }
    }

    fn is_innermost_of(&self, worker: &Worker) -> bool {
        ptr::eq(worker, self.worker)
            && worker.running.masked.get() == self.masked
            && worker.running.no_switch_depth() == self.depth
    }
}

impl Drop for NoSwitch {
    fn drop(&mut self) {
        let left = with_existing(|worker| {
            let is_in_order = self.is_innermost_of(worker);
            if is_in_order {
                worker.running.allow_switches();
            }
            is_in_order
        });
        if left != Some(true) {
            abort_no_switch_out_of_order();
        }
    }
}

/// A coroutine's stack is as good as the fiber's own.
#[cold]
#[inline(never)]
fn check_other_stack() {
    if ramie_coro::overflow::is_in_signal_handler() {
        ramie_driver::sys::fatal(
            "a signal handler called something that waits. It may only set flags and write \
             to descriptors; wait for the signal on a fiber instead (ramie::signal). Aborting.",
        )
    }
}

#[cold]
fn abort_no_switch_out_of_order() -> ! {
    ramie_driver::sys::fatal(
        "a no_switch region was left on another fiber than the one that entered it, or out \
         of order: a coroutine suspended inside. Let it suspend outside of no_switch. Aborting.",
    )
}

/// Refuses a call that may suspend inside a `no_switch` region of this thread.
///
/// # Panics
/// Inside one. The location is the caller's, which a closure for `with_existing` would hide.
#[track_caller]
pub(crate) fn check_may_switch() {
    let may_switch = with_existing(|worker| worker.running.may_switch());
    assert!(may_switch.unwrap_or(true), "{NO_SWITCH}");
}

impl RunningStrand {
    /// Begins a region in which the strand that runs must not suspend.
    fn forbid_switches(&self) {
        self.mask();
        self.regions.set(self.regions.get() + 1);
    }

    /// Hides the fiber that runs from all suspensions, before `regions` is raised.
    pub(super) fn mask(&self) {
        if self.regions.get() == 0 {
            self.masked.set(self.current.replace(ptr::null()));
        }
    }

    fn allow_switches(&self) {
        self.regions.set(self.regions.get() - 1);
        self.unmask_if_free();
    }

    /// The reverse of [`mask`](Self::mask), after `regions` was lowered.
    pub(super) fn unmask_if_free(&self) {
        if self.regions.get() == 0 && !self.masked.get().is_null() {
            self.current.set(self.masked.replace(ptr::null()));
        }
    }

    /// The strand that runs has ended. It is still in a `no_switch` region if a coroutine
    /// suspended inside one and was left so; the next strand is not.
    #[inline]
    pub(crate) fn leave_no_switch(&self) {
        if self.regions.get() != 0 {
            self.leave_all();
        }
    }

    #[cold]
    fn leave_all(&self) {
        self.regions.set(self.regions.get() - self.no_switch_depth());
        self.unmask_if_free();
    }

    /// Refuses a call that may suspend inside a `no_switch` region.
    ///
    /// # Panics
    /// Inside one.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check_may_switch(&self) {
        if self.current.get().is_null() {
            self.check_root_may_switch();
        }
    }

    /// As [`check_may_switch`](Self::check_may_switch), for a wait: the panic names the kind and
    /// the place of the wait, from its record.
    ///
    /// # Panics
    /// Inside one.
    #[inline(always)]
    pub(crate) fn check_may_wait(&self, record: &WaitRecord) {
        if self.current.get().is_null() {
            self.check_root_may_wait(record);
        }
    }

    /// Ends the process if a fiber's wait is called for on a signal handler's stack, where the
    /// `local` of the caller lies then.
    #[inline(always)]
    pub(crate) fn check_stack<T>(&self, local: &T) {
        if self.fiber().is_some_and(|stack| !stack.has_on_its_stack(local)) {
            check_other_stack();
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn check_root_may_switch(&self) {
        assert!(self.root_may_switch(), "{NO_SWITCH}");
        self.check_masked_stack();
    }

    #[cold]
    #[inline(never)]
    fn check_root_may_wait(&self, record: &WaitRecord) {
        let (kind, location) = (record.kind.name, record.location);
        assert!(self.root_may_switch(), "{NO_SWITCH}. It would wait for {kind}, at {location}");
        self.check_masked_stack();
    }

    /// As [`check_stack`](Self::check_stack), for a fiber that holds contexts.
    fn check_masked_stack(&self) {
        let here = 0_u8;
        if self.masked_fiber().is_some_and(|stack| !stack.has_on_its_stack(&here)) {
            check_other_stack();
        }
    }

    fn may_switch(&self) -> bool {
        self.fiber().is_some() || self.root_may_switch()
    }

    /// In a destructor that runs during a panic the call finds its own way not to suspend.
    fn root_may_switch(&self) -> bool {
        self.no_switch_depth() == 0 || std::thread::panicking()
    }
}
