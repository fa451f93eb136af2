//! The small worker of an OS thread outside `run`.
//!
//! Every thread that waits in Ramie owns one, made at its first wait: an inbox, timers, a driver
//! once an op needs it. The thread itself is the worker's root strand, so its waits are timed,
//! woken and seen like any fiber's, and fibers spawned there with `spawn_local` run while it waits.
//! When the thread ends, those that have not ended are given up: nobody is left to run them.

use std::{cell::RefCell, mem::ManuallyDrop, ptr};

use super::{Berth, Installed, Worker};
use crate::{
    runtime::{default_driver_choice, default_stack_size},
    strand::Slot,
    time::{Clock, Deadline},
};

/// A worker that goes with its thread.
struct Attached {
    worker: ManuallyDrop<Box<Worker>>,
}

thread_local! {
    // A second thread-local beside `CURRENT`: this one has a destructor and is touched only here.
    static ATTACHED: RefCell<Option<Attached>> = const { RefCell::new(None) };
}

/// Gives this thread a small worker; tells whether it could.
#[cold]
#[allow(unsafe_code)]
pub(super) fn attach() -> bool {
    let worker = Box::new(Worker::new(
        None,
        default_driver_choice(),
        Clock::System,
        default_stack_size(),
        None,
    ));
    let address: *const Worker = &raw const *worker;
    let kept = ATTACHED.try_with(|attached| {
        *attached.borrow_mut() = Some(Attached { worker: ManuallyDrop::new(worker) });
    });
    // Inside the destructors at a thread's exit it cannot be kept: it was dropped with the closure.
    if kept.is_ok() {
        super::CURRENT.set(address);
    }
    kept.is_ok()
}

impl Drop for Attached {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if self.worker.is_on_fiber() {
            // One of its fibers ends the process: it runs on this worker to the very end.
            return;
        }
        // Their destructors may still wait, for those fibers too.
        self.worker.end_root_locals();
        // Fibers of `spawn_local` that are still there go no further: nobody will run them.
        self.worker.abandon_all();
        // Not so when `run` has installed a worker, and one of its fibers ends the process.
        if ptr::eq(super::CURRENT.get(), &raw const **self.worker) {
            super::CURRENT.set(ptr::null());
        }
        // SAFETY: dropped once, here: `drop` runs once.
        unsafe { ManuallyDrop::drop(&mut self.worker) };
    }
}

/// Runs `f` on an OS thread that is the strand `slot`; of a runtime, if it has a berth there.
pub(crate) fn on_thread_strand(
    slot: &'static Slot,
    berth: Option<&Berth>,
    f: impl FnOnce(&Worker),
) {
    let outside =
        || Worker::new(None, default_driver_choice(), Clock::System, default_stack_size(), None);
    let worker = berth.map_or_else(outside, Berth::make_worker);
    worker.adopt_root(slot);
    {
        let _installed = Installed::new(&worker);
        f(&worker);
        if berth.is_some() {
            worker.wait_for_fibers(Deadline::NEVER);
        }
    }
    worker.abandon_all();
}

impl Worker {
    /// The strand of this thread has ended; its slot is no longer this worker's.
    pub(crate) fn forget_root(&self) {
        self.forget_timer(&self.root);
        self.root.stand_for_none();
    }
}
