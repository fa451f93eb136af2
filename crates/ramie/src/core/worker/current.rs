//! The worker of this thread: finding it, installing it.

use std::{cell::Cell, ptr};

use super::{Worker, attach};

thread_local! {
    pub(super) static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// The worker of this thread.
///
/// INVARIANT: the pointer is that of `CURRENT`, taken on this thread. `CURRENT` is set by
/// [`Installed`] and [`attach`] only, which keep their worker until they have reset it. Users keep
/// this value for the length of one call of the crate; a fiber suspended meanwhile is resumed by
/// this very worker, or never.
pub(crate) struct Current(*const Worker);

impl std::ops::Deref for Current {
    type Target = Worker;

    #[inline(always)]
    #[allow(unsafe_code)]
    fn deref(&self) -> &Worker {
        // SAFETY: the invariant of the field.
        unsafe { &*self.0 }
    }
}

/// Returns the worker of this thread, which gets a small one if it has none.
///
/// A value rather than a closure's argument: a call between the fiber's code and the switch would
/// cost more than the switch (see `FiberStack::suspend`).
#[inline(always)]
pub(crate) fn current() -> Current {
    let current = CURRENT.get();
    if current.is_null() { attach_now() } else { Current(current) }
}

#[cold]
#[inline(never)]
fn attach_now() -> Current {
    attach::attach();
    Current(CURRENT.get())
}

/// Lets every other runnable strand of this worker run once; returns at once while the strand
/// unwinds.
#[inline(always)]
#[track_caller]
pub(crate) fn yield_now() {
    if std::thread::panicking() {
        return;
    }
    current().yield_now();
}

/// Runs `f` with the worker of this thread if it has one.
#[inline]
pub(crate) fn with_existing<R>(f: impl FnOnce(&Worker) -> R) -> Option<R> {
    if CURRENT.get().is_null() { None } else { Some(f(&current())) }
}

/// Whether this code is run by a runtime's worker.
pub(crate) fn is_inside_run() -> bool {
    with_existing(|worker| {
        worker.running.is_fiber() || worker.membership.is_some() || worker.thread_strands.is_some()
    })
    .unwrap_or(false)
}

/// Makes a worker the thread's current one, until dropped.
pub(crate) struct Installed<'a> {
    previous: *const Worker,
    worker: &'a Worker,
}

impl<'a> Installed<'a> {
    pub(crate) fn new(worker: &'a Worker) -> Self {
        Installed { previous: CURRENT.replace(worker), worker }
    }
}

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        if !ptr::eq(CURRENT.get(), self.worker) {
            abort_out_of_order();
        }
        CURRENT.set(self.previous);
    }
}

#[cold]
fn abort_out_of_order() -> ! {
    ramie_driver::sys::fatal(
        "a run was left out of order: a coroutine of another library suspended inside its \
         closure. Aborting.",
    )
}
