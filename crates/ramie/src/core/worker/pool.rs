//! The blocking pool: OS threads for calls that cannot be made through the driver.
//!
//! Threads are made on demand up to a limit and end after [`IDLE`] without a job, or with their
//! runtime. A job lies in the frame of the strand that waits for it and may borrow, because the
//! strand waits until the job has ended. A panic in between would end the process ([`HandedOut`]).
#![allow(unsafe_code)]

use std::{
    cell::{Cell, UnsafeCell},
    collections::VecDeque,
    ptr,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::Duration,
};

use ramie_driver::{
    say,
    sys::{CpuMask, HandedOut, Lent, RuntimeThread},
};

use super::{Worker, current, note_lending, with_existing};
use crate::core::{
    loans::{Loan, Loans},
    primitive::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    strand::{Raised, catch_raised},
    wait::{
        completion::Completion,
        park::{WaitKind, WaitRecord, abort_wait_while_unwinding},
    },
};

static BLOCKING: WaitKind = WaitKind::new("a job on the blocking pool");

/// The default limit of threads of a pool.
pub(crate) const DEFAULT_BLOCKING_THREADS: usize = 512;

/// How long a thread of the pool waits for its next job.
const IDLE: Duration = Duration::from_secs(10);

/// A job in the frame of the strand that waits for it.
///
/// The closure is behind a pointer to a trait object, so that the code that queues, runs and awaits
/// a job is compiled once and not for each of the closures.
struct Job<'a> {
    call: UnsafeCell<&'a mut (dyn FnMut() + Send)>,
    /// The panic of the call.
    raised: UnsafeCell<Option<Raised>>,
    done: Completion,
}

/// INVARIANT: the job stays in place until its `done` is finished.
struct JobRef(*const Job<'static>);

/// A job in the queue, with the loan by which the threads of its runtime outlive it.
struct Queued {
    job: JobRef,
    loan: Loan,
}

// SAFETY: a job's closure and the payload of its panic are `Send`, the rest is atomic.
unsafe impl Send for JobRef {}

impl JobRef {
    fn run(self) {
        // SAFETY: the invariant: the job is there.
        let job = unsafe { &*self.0 };
        // SAFETY: a job is queued once, so it is run once, and until it is done only this thread
        // accesses its cells.
        let call = unsafe { &mut *job.call.get() };
        let raised = catch_raised(call).err();
        // SAFETY: as above.
        unsafe { *job.raised.get() = raised };
        // After `finish` the job may be gone; `wake` works on a copy.
        let finished = job.done.finish();
        finished.wake();
    }
}

/// Lent to the pool: a job.
enum LentJob {}

impl Lent for LentJob {
    const WHAT: &'static str = "a job in its frame was on the blocking pool";
}

/// The blocking pools of all runtimes of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BlockingPools {
    /// Threads that run a job, or wait for one.
    pub threads: usize,
    /// Jobs that wait for a thread, or run.
    pub jobs: usize,
    /// Jobs since the process began.
    pub begun: u64,
}

static THREADS: AtomicUsize = AtomicUsize::new(0);
static JOBS: AtomicUsize = AtomicUsize::new(0);
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Reads the figures of all pools.
pub(crate) fn blocking_pools() -> BlockingPools {
    // Relaxed: nothing follows from these numbers.
    BlockingPools {
        threads: THREADS.load(Relaxed),
        jobs: JOBS.load(Relaxed),
        begun: BEGUN.load(Relaxed),
    }
}

thread_local! {
    /// The pool whose jobs this thread runs.
    static SERVED: Cell<*const Pool> = const { Cell::new(ptr::null()) };
}

/// The threads of one runtime for calls that block.
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    has_work: Condvar,
    limit: usize,
    /// Where its threads run; none: where the thread that starts them does.
    cpus: Option<CpuMask>,
    /// The loans of its runtime.
    pub(crate) loans: Arc<Loans>,
}

#[derive(Default)]
struct PoolState {
    queue: VecDeque<Queued>,
    threads: usize,
    idle: usize,
    /// The last attempt to start a thread has failed, and that was logged.
    is_short: bool,
    /// The runtime is gone: nobody will queue a job any more.
    is_closed: bool,
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Self::on(limit, None)
    }

    /// Makes a pool whose threads run on these CPUs.
    pub(crate) fn on(limit: usize, cpus: Option<CpuMask>) -> Self {
        Pool {
            state: Mutex::default(),
            has_work: Condvar::new(),
            limit,
            cpus,
            loans: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Runs `f` on a thread of the pool, and waits for it. If the pool has no thread and cannot
    /// start one, runs `f` here.
    ///
    /// # Panics
    /// With the panic of `f`.
    #[track_caller]
    pub(crate) fn run<F, T>(self: &Arc<Self>, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let mut closure = Some(f);
        let mut value = None;
        let mut call = || value = closure.take().map(|f| f());
        if !self.run_on_a_thread(&mut call) {
            // Better to block this worker than to wait for ever.
            call();
        }
        value.expect("the closure was called once and did not panic")
    }

    /// Runs `call` once on a thread of the pool, and waits for it. Returns false if the pool has no
    /// thread and cannot start one; then `call` has not been called.
    ///
    /// # Panics
    /// With the panic of `call`.
    #[track_caller]
    fn run_on_a_thread(self: &Arc<Self>, call: &mut (dyn FnMut() + Send)) -> bool {
        let job = Job {
            call: UnsafeCell::new(call),
            raised: UnsafeCell::new(None),
            done: Completion::new(),
        };
        let mut state = self.lock_with_a_thread();
        if state.threads == 0 {
            return false;
        }
        let queued = HandedOut::<LentJob>::new();
        // Before a thread can take the job, which may ask for these.
        BEGUN.fetch_add(1, Relaxed);
        JOBS.fetch_add(1, Relaxed);
        let loan = begin_loan(&current());
        state.queue.push_back(Queued { job: JobRef((&raw const job).cast()), loan });
        drop(state);
        self.has_work.notify_one();
        let record = WaitRecord::new(&BLOCKING);
        let waited = current().clock.count_blocking_job(|| job.done.wait(&record));
        if waited.is_err() {
            // This call would fail only on a strand that unwinds, and `op::blocking` runs the
            // closure in place on such a strand.
            park_failed();
        }
        queued.settle();
        JOBS.fetch_sub(1, Relaxed);
        match job.raised.into_inner() {
            Some(raised) => raised.raise(),
            None => true,
        }
    }

    /// Locks the pool, so that a job can be queued. If no thread is idle and the limit allows one
    /// more, starts one first. If none can be started, the pool may be left without a thread.
    fn lock_with_a_thread(self: &Arc<Self>) -> MutexGuard<'_, PoolState> {
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

    /// Whether the calling thread runs a job of this pool.
    pub(crate) fn is_serving_here(&self) -> bool {
        ptr::eq(SERVED.get(), self)
    }

    fn start_thread(self: &Arc<Self>, index: usize) -> std::io::Result<()> {
        let pool = Arc::clone(self);
        let builder = thread::Builder::new().name(format!("ramie-blocking-{index}"));
        let work = move || {
            let _mark = RuntimeThread::enter();
            THREADS.fetch_add(1, Relaxed);
            if let Some(cpus) = &pool.cpus {
                // They were checked when the runtime was built. If the process has lost them since,
                // the kernel has moved its threads itself.
                let _ = cpus.apply();
            }
            SERVED.set(Arc::as_ptr(&pool));
            pool.work();
            SERVED.set(ptr::null());
            THREADS.fetch_sub(1, Relaxed);
        };
        builder.spawn(work).map(drop)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(Queued { job, loan }) = state.queue.pop_front() {
                drop(state);
                job.run();
                drop(loan);
                // A `no_switch` region that the job has left open, in a suspended coroutine, ends
                // with the job.
                with_existing(|worker| worker.running.leave_no_switch());
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

fn begin_loan(worker: &Worker) -> Loan {
    note_lending(worker);
    Loan::begin(Arc::clone(&worker.stacks.loans))
}

#[cold]
fn park_failed() -> ! {
    abort_wait_while_unwinding("a job on the blocking pool")
}
