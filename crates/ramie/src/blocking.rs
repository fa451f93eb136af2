//! The blocking pool: OS threads for calls that cannot be made through the driver.
//!
//! Threads are made on demand up to a limit and end after [`IDLE`] without a job, or with their
//! runtime. A job lies in the frame of the strand that waits for it and may borrow: the strand
//! waits to the job's end. A panic in between would end the process ([`HandedOut`]).
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    collections::VecDeque,
    io,
    mem::ManuallyDrop,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock},
    thread,
    time::Duration,
};

use ramie_driver::{
    say,
    sys::{HandedOut, Lent},
};

use crate::{
    cancel,
    completion::Completion,
    panic::{Raised, catch_raised},
    park::{WaitKind, WaitRecord},
    worker,
};

static BLOCKING: WaitKind = WaitKind::new("a job on the blocking pool");

/// How many threads a pool has at most, unless told.
pub(crate) const DEFAULT_THREADS: usize = 512;

/// How long a thread of the pool waits for its next job.
const IDLE: Duration = Duration::from_secs(10);

/// Runs a closure that blocks its thread, without blocking the worker; other fibers run meanwhile.
///
/// For calls that wait outside Ramie's sight: a C library, a file on a slow disk, long computation.
/// The closure may borrow, since this call returns only when it has ended. A fiber's place in the
/// queue is first come, first served; the pool has 512 threads unless
/// [`Builder::blocking_threads`](crate::Builder::blocking_threads) says otherwise.
///
/// # Blocking
/// Parks the fiber until the closure has ended.
///
/// # Cancellation
/// Not a cancel point: the closure is waited for to its end.
///
/// # Panics
/// With the closure's panic. Inside [`no_switch`](crate::no_switch()).
///
/// # Outside a fiber
/// Runs the closure right here: the thread may block.
///
/// While the strand unwinds from a panic, too, the closure runs right here.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let text = String::from("borrowed");
///     let length = ramie::blocking(|| text.len());
///     assert_eq!(length, 8);
/// });
/// ```
/// The closure runs on another thread:
/// ```compile_fail,E0277
/// let here = std::rc::Rc::new(1);
/// ramie::blocking(|| println!("{here}"));
/// ```
#[track_caller]
pub fn blocking<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    worker::check_may_switch();
    let pool = worker::with_existing(|worker| {
        let team = worker.team().map(|team| Arc::clone(&team.pool));
        worker.is_on_fiber().then(|| team.unwrap_or_else(|| Arc::clone(shared_pool())))
    });
    match pool.flatten() {
        Some(pool) if !thread::panicking() => pool.run(f),
        _ => f(),
    }
}

/// Runs a call that may fail on the blocking pool, as a cancel point: not in a scope that is
/// cancelled already, and once begun to its end.
#[track_caller]
pub(crate) fn blocking_io<F, T>(f: F) -> io::Result<T>
where
    F: FnOnce() -> io::Result<T> + Send,
    T: Send,
{
    if cancel::is_cancelled_here() {
        return Err(cancel::error());
    }
    blocking(f)
}

/// The pool of fibers on threads outside `run`.
fn shared_pool() -> &'static Arc<Pool> {
    static POOL: OnceLock<Arc<Pool>> = OnceLock::new();
    POOL.get_or_init(|| Arc::new(Pool::new(DEFAULT_THREADS)))
}

/// A job in the frame of the strand that waits for it.
#[repr(C)]
struct Job<F, T> {
    header: JobHeader,
    closure: UnsafeCell<ManuallyDrop<F>>,
    outcome: UnsafeCell<Option<Result<T, Raised>>>,
}

struct JobHeader {
    run: unsafe fn(*const JobHeader),
    done: Completion,
}

/// INVARIANT: the job stays in place until its `done` is finished.
struct JobRef(*const JobHeader);

// SAFETY: a job's closure and value are `Send` (`Pool::run` demands it), the rest is atomic.
unsafe impl Send for JobRef {}

impl JobRef {
    fn run(self) {
        // SAFETY: the invariant: the job is there.
        let run = unsafe { (*self.0).run };
        // SAFETY: `run` was made for the type that this header is the head of.
        unsafe { run(self.0) };
    }
}

unsafe fn run_job<F: FnOnce() -> T, T>(header: *const JobHeader) {
    // SAFETY: the header is the first field of a `Job<F, T>`, which is `repr(C)`.
    let job = unsafe { &*header.cast::<Job<F, T>>() };
    // SAFETY: a job is queued once, so it is run once, and until it is done it is this thread's.
    let closure = unsafe { &mut *job.closure.get() };
    // SAFETY: as above: taken once.
    let closure = unsafe { ManuallyDrop::take(closure) };
    let outcome = catch_raised(closure);
    // SAFETY: as above.
    unsafe { *job.outcome.get() = Some(outcome) };
    // After `finish` the job may be gone; `wake` works on a copy.
    let finished = job.header.done.finish();
    finished.wake();
}

/// Lent to the pool: a job.
enum Queued {}

impl Lent for Queued {
    const WHAT: &'static str = "a job in its frame was on the blocking pool";
}

pub(crate) struct Pool {
    state: Mutex<State>,
    has_work: Condvar,
    limit: usize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<JobRef>,
    threads: usize,
    idle: usize,
    /// The last attempt to start a thread has failed, and that was logged.
    is_short: bool,
    /// The runtime is gone: nobody will queue a job any more.
    is_closed: bool,
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Pool { state: Mutex::default(), has_work: Condvar::new(), limit }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    #[track_caller]
    fn run<F, T>(self: &Arc<Self>, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let job = Job {
            header: JobHeader { run: run_job::<F, T>, done: Completion::new() },
            closure: UnsafeCell::new(ManuallyDrop::new(f)),
            outcome: UnsafeCell::new(None),
        };
        let mut state = self.lock_with_a_thread();
        if state.threads == 0 {
            drop(state);
            // Better to block this worker than to wait for ever.
            return ManuallyDrop::into_inner(job.closure.into_inner())();
        }
        let queued = HandedOut::<Queued>::new();
        state.queue.push_back(JobRef(&raw const job.header));
        drop(state);
        self.has_work.notify_one();
        let record = WaitRecord::new(&BLOCKING);
        let waited = worker::current().count_blocking_job(|| job.header.done.wait(&record));
        if waited.is_err() {
            // `blocking` runs the closure in place while unwinding, and nothing unwinds in between.
            park_failed();
        }
        queued.settle();
        match job.outcome.into_inner() {
            Some(Ok(value)) => value,
            Some(Err(raised)) => raised.raise(),
            None => unreachable!("a job that is done has stored its outcome"),
        }
    }

    /// Locks the pool, so that a job can be queued. If no thread is idle and the limit allows one
    /// more, starts one first. The pool may have no thread afterwards, which could run the job.
    fn lock_with_a_thread(self: &Arc<Self>) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.idle > state.queue.len() || state.threads >= self.limit {
            return state;
        }
        let Err(error) = self.start_thread(state.threads) else {
            state.threads += 1;
            state.is_short = false;
            return state;
        };
        // Logged once, because the program's logger may use the pool and come here again; and
        // without the lock, before the job is queued, because the logger may wait.
        if std::mem::replace(&mut state.is_short, true) {
            return state;
        }
        let has_threads = state.threads > 0;
        drop(state);
        match has_threads {
            true => say!(Warn, "the blocking pool cannot grow: {error}"),
            false => say!(Warn, "the blocking pool has no thread ({error}); the worker blocks"),
        }
        self.lock()
    }

    /// Lets the threads end as soon as they have nothing to do.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.has_work.notify_all();
    }

    fn start_thread(self: &Arc<Self>, index: usize) -> std::io::Result<()> {
        let pool = Arc::clone(self);
        let builder = thread::Builder::new().name(format!("ramie-blocking-{index}"));
        builder.spawn(move || pool.work()).map(drop)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                job.run();
                // A `no_switch` region that the job has left open, in a suspended coroutine, ends
                // with the job.
                worker::with_existing(worker::Worker::leave_no_switch);
                state = self.lock();
                continue;
            }
            if state.is_closed {
                return;
            }
            state.idle += 1;
            let (woken, waited) = match self.has_work.wait_timeout(state, IDLE) {
                Ok(result) => result,
                Err(poisoned) => poisoned.into_inner(),
            };
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cold]
fn park_failed() -> ! {
    crate::park::abort_wait_while_unwinding("a job on the blocking pool")
}
