//! The small worker of an OS thread outside `run`.
//!
//! Every thread that waits in Ramie owns one, made at its first wait: an inbox, timers, a driver
//! once an op needs it. The thread itself is the worker's root strand, so its waits are timed,
//! woken and seen like any fiber's, and fibers spawned there with `spawn_local` run while it waits.
//! When the thread ends, those that have not ended are given up: nobody is left to run them. That
//! is done as soon as the destructors of thread-locals are known to run
//! ([`thread_end`](ramie_coro::thread_end)), because a fiber may be suspended inside
//! `LocalKey::with` of a value that is destroyed before a later destructor waits.

use std::{cell::Cell, ffi::c_void, io, ptr, sync::OnceLock};

use ramie_coro::thread_end;
use ramie_driver::sys::{HandedOut, Lent};

use super::defaults::{default_driver_choice, default_stack_size};
use super::{CountedThread, Installed, Shared, Worker};
use crate::core::{
    strand::StrandHeader,
    time::{Clock, Deadline},
};

/// Gives up the thread's fibers and destroys its fiber-locals while the destructors of
/// thread-locals run, so that those may use them. The worker itself goes later.
struct Farewell {
    worker: Cell<*const Worker>,
}

thread_local! {
    static FAREWELL: Farewell = const { Farewell { worker: Cell::new(ptr::null()) } };
}

impl Drop for Farewell {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: null, or set by `attach` on this thread: `end` comes after these destructors.
        let Some(worker) = (unsafe { self.worker.get().as_ref() }) else { return };
        say_farewell(worker);
    }
}

/// The same, called as early among the destructors as can be.
fn say_farewell_early() {
    // Gone, it has done it already.
    let _ = FAREWELL.try_with(|farewell| {
        // SAFETY: as in `drop`.
        #[allow(unsafe_code)]
        if let Some(worker) = unsafe { farewell.worker.get().as_ref() } {
            say_farewell(worker);
        }
    });
}

fn say_farewell(worker: &Worker) {
    // The fibers' closures and the locals may refer to values that are destroyed afterwards.
    thread_end::begin();
    // If one of its fibers ends the process, that fiber runs on to the very end.
    if !worker.running.is_fiber() {
        worker.abandon_all();
    }
}

/// The thread's own strand continues after fibers have run, some of which are suspended. They may
/// refer to thread-locals that are in use now, so if this thread ends, they are to be abandoned
/// before those are destroyed.
#[inline]
pub(super) fn note_suspended_fibers(shared: &Shared) {
    if shared.live() > 0 {
        thread_end::note_start();
    }
}

/// Gives this thread a small worker, for as long as it runs, destructors of thread-locals included.
#[cold]
#[allow(unsafe_code)]
pub(super) fn attach() {
    let worker = Box::into_raw(Box::new(outside()));
    // SAFETY: the key is valid, and `end` is what it does with the worker.
    let error = unsafe { libc::pthread_setspecific(key(), worker.cast()) };
    assert!(error == 0, "no memory for a worker: {}", io::Error::from_raw_os_error(error));
    super::CURRENT.set(worker);
    // Attached by one of those destructors, it says farewell at its end.
    let _ = FAREWELL.try_with(|farewell| farewell.worker.set(worker));
    thread_end::set_hook(say_farewell_early);
}

fn outside() -> Worker {
    Worker::new(None, default_driver_choice(), Clock::System, default_stack_size(), None)
}

/// The key of the threads' workers. What the C library does for keys at a thread's exit comes after
/// the destructors of Rust's thread-locals, so that those may wait, as std's types let them. (At
/// the end of `main` it does nothing: then the process ends, and all workers with it.)
#[allow(unsafe_code)]
fn key() -> libc::pthread_key_t {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is written to; `end` has the type that is asked for.
        let error = unsafe { libc::pthread_key_create(&mut key, Some(end)) };
        assert!(error == 0, "no thread-specific key is left for Ramie: the process has 1,024");
        key
    })
}

/// The thread ends.
#[allow(unsafe_code)]
unsafe extern "C" fn end(worker: *mut c_void) {
    // SAFETY: the key's values are workers from `attach`, each given to this function once.
    let worker = unsafe { Box::from_raw(worker.cast::<Worker>()) };
    // Fibers of `spawn_local` that are still there go no further: nobody will run them.
    worker.abandon_all();
    if ptr::eq(super::CURRENT.get(), &raw const *worker) {
        super::CURRENT.set(ptr::null());
    }
}

/// Lent to others: the strand of a thread, and its fibers.
enum Strand {}

impl Lent for Strand {
    const WHAT: &'static str = "a thread's strand and its fibers had not ended";
}

/// Runs `f` on an OS thread that is the strand `header`; of a runtime, if it has an entry there.
pub(crate) fn on_thread_strand(
    header: &'static StrandHeader,
    counted: Option<&CountedThread>,
    f: impl FnOnce(&Worker),
) {
    let strand = HandedOut::<Strand>::new();
    let worker = counted.map_or_else(outside, CountedThread::make_worker);
    worker.root.adopt(header);
    {
        let _installed = Installed::new(&worker);
        f(&worker);
        if counted.is_some() {
            worker.wait_for_fibers(Deadline::NEVER);
        }
    }
    worker.abandon_all();
    if let Some(counted) = counted {
        counted.hold_clock();
    }
    drop(worker);
    strand.settle();
}
