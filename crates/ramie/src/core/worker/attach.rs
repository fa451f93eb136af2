//! The small worker of an OS thread outside `run`.
//!
//! Every thread that waits in Ramie owns one, made at its first wait: an inbox, timers, and a
//! driver once an op needs one. The thread itself is the worker's root strand, so its waits are
//! timed, woken and dumped like those of a fiber, and fibers spawned there with `spawn_local` run
//! while it waits.
//!
//! When the thread ends, the fibers that have not ended are abandoned, because no thread is left to
//! run them. They are abandoned as soon as the destructors of thread-locals are known to run
//! ([`thread_end`](ramie_coro::thread_end)): a later destructor may wait, and then a fiber that is
//! suspended inside `LocalKey::with` would continue with a value that is already destroyed.

use std::{
    cell::Cell,
    ffi::c_void,
    io, ptr,
    sync::{Arc, OnceLock},
};

use ramie_coro::thread_end::{self, HookOf};
use ramie_driver::sys::{HandedOut, Lent};

use super::defaults::{default_driver_choice, default_stack_size};
use super::{CountedThread, Installed, Shared, Worker, outlive};
use crate::core::{
    loans::Loan,
    strand::StrandHeader,
    time::{Clock, Deadline},
};

/// Abandons the thread's fibers and destroys its fiber-locals when the destructors of thread-locals
/// run, so that the destructors of fiber-locals may use thread-locals. [`end`] frees the worker
/// itself later.
struct AbandonAtThreadEnd;

thread_local! {
    static AT_THREAD_END: AbandonAtThreadEnd = const { AbandonAtThreadEnd };
    /// The worker of this thread. It has no destructor, because destructors may lend, too.
    static ATTACHED: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

impl Drop for AbandonAtThreadEnd {
    fn drop(&mut self) {
        abandon_fibers();
    }
}

/// Abandons the thread's fibers. Called as early among the destructors of thread-locals as
/// possible, and again for fibers that a destructor has made.
fn abandon_fibers() {
    // The fibers' closures and the locals may refer to values that are destroyed afterwards.
    thread_end::begin();
    // SAFETY: null, or set by `attach` on this thread, and not freed: `end` resets it.
    #[allow(unsafe_code)]
    let Some(worker) = (unsafe { ATTACHED.get().as_ref() }) else { return };
    // If a fiber of this worker ends the process, the destructors run on that fiber, so it cannot
    // be abandoned.
    if !worker.running.is_fiber() {
        worker.abandon_all();
        outlive(&worker.stacks.loans);
    }
}

/// Called when the thread's own strand continues after fibers have run. Fibers that are suspended
/// now may refer to thread-locals that are in use. If this thread ends, they have to be abandoned
/// before those thread-locals are destroyed.
#[inline]
pub(super) fn note_suspended_fibers(shared: &Shared) {
    if shared.live() > 0 {
        thread_end::note_wait();
    }
}

/// Called before a strand of this thread lends values, maybe thread-locals, to other threads. If
/// the strand is left suspended when the thread ends, the thread has to wait for the borrowers
/// before those thread-locals are destroyed. Strands of a `run`, and of the threads of a runtime,
/// are not left: the thread waits when it abandons them.
#[inline]
pub(crate) fn note_lending(worker: &Worker) {
    if worker.membership.is_none() || worker.root.guest.is_driven() {
        thread_end::note_lending();
    }
}

/// Gives this thread a small worker, for as long as it runs, destructors of thread-locals included.
#[cold]
#[allow(unsafe_code)]
pub(super) fn attach() {
    let worker = Box::into_raw(Box::new(outside()));
    // SAFETY: the key is valid, and its destructor, `end`, expects a worker from `Box::into_raw`.
    let error = unsafe { libc::pthread_setspecific(key(), worker.cast()) };
    assert!(error == 0, "no memory for a worker: {}", io::Error::from_raw_os_error(error));
    super::CURRENT.set(worker);
    ATTACHED.set(worker);
    // If a destructor of a thread-local attaches this worker, `AT_THREAD_END` may be destroyed
    // already; then the hook abandons the fibers that it is called for, and `end` all others.
    let _ = AT_THREAD_END.try_with(|_| ());
    thread_end::set_hook(HookOf::Fibers, abandon_fibers);
}

fn outside() -> Worker {
    Worker::new(None, default_driver_choice(), Clock::System, default_stack_size(), None)
}

/// The key of the threads' workers. When a thread exits, the C library calls the destructors of
/// keys after those of Rust's thread-locals, so the latter may still wait, as they may with std's
/// types. (At the end of `main` it calls no destructor of a key, because the process ends, and all
/// workers with it.)
#[allow(unsafe_code)]
fn key() -> libc::pthread_key_t {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the C library writes to `key`, which outlives the call; `end` has the type of a
        // destructor.
        let error = unsafe { libc::pthread_key_create(&mut key, Some(end)) };
        assert!(error == 0, "no thread-specific key is left for Ramie: the process has 1,024");
        key
    })
}

/// Frees the worker of a thread that ends.
#[allow(unsafe_code)]
unsafe extern "C" fn end(worker: *mut c_void) {
    // SAFETY: the key's values are workers from `attach`, each given to this function once.
    let worker = unsafe { Box::from_raw(worker.cast::<Worker>()) };
    // No thread will run the remaining fibers of `spawn_local` any more.
    worker.abandon_all();
    outlive(&worker.stacks.loans);
    ATTACHED.set(ptr::null());
    if ptr::eq(super::CURRENT.get(), &raw const *worker) {
        super::CURRENT.set(ptr::null());
    }
}

/// Lent to others: the strand of a thread, and its fibers.
enum Strand {}

impl Lent for Strand {
    const WHAT: &'static str = "a thread's strand and its fibers had not ended";
}

/// Runs `f` on this OS thread as the strand `header`. If the thread belongs to a runtime, `counted`
/// is its entry there. If the strand is one of a scope, its borrows are the `loan`.
pub(crate) fn on_thread_strand(
    header: &'static StrandHeader,
    counted: Option<CountedThread>,
    loan: Option<Loan>,
    f: impl FnOnce(&Worker),
) {
    let strand = HandedOut::<Strand>::new();
    let worker = counted.as_ref().map_or_else(outside, CountedThread::make_worker);
    worker.root.adopt(header);
    {
        let _installed = Installed::new(&worker);
        f(&worker);
        if counted.is_some() {
            worker.wait_for_fibers(Deadline::NEVER);
        }
    }
    worker.abandon_all();
    if let Some(counted) = &counted {
        counted.hold_clock();
    }
    let loans = Arc::clone(&worker.stacks.loans);
    drop(worker);
    strand.settle();
    drop((counted, loan));
    // Nobody joins this thread, so the strands that wait for this one go on meanwhile.
    loans.wait();
}
