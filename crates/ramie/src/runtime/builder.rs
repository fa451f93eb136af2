//! The options of a runtime, their defaults and ranges.

use std::{fmt, io, num::NonZero, sync::Arc, time::Duration};

use ramie_driver::{Choice, Submitter};

use super::{
    Driver, Runtime, Strands,
    hooks::Hooks,
    options::{AbandonedFibers, in_range, strands_from_env},
};
use crate::{
    core::{
        time::{Clock, ManualClock},
        worker::{
            DEFAULT_BLOCKING_THREADS, Policy, checked_stack_size, invalid, stack_size_from_env,
        },
    },
    deadlock::Deadlock,
    inspect::{FlightRecorder, InspectChoices, InspectOptions},
    stall::{self, Reaction, Stall},
};

/// The most workers a runtime may have.
const MAX_WORKERS: usize = 1024;

/// Makes the run-queue policy of one worker.
pub(super) type MakePolicy = Arc<dyn Fn() -> Box<dyn Policy> + Send + Sync>;

pub(super) type OnAbandoned = Arc<dyn Fn(&AbandonedFibers) + Send + Sync>;

#[derive(Clone)]
pub(super) struct Config {
    pub(super) workers: usize,
    pub(super) strands: Strands,
    pub(super) stack_size: usize,
    pub(super) driver: Choice,
    pub(super) submitter: Submitter,
    pub(super) blocking_threads: usize,
    pub(super) thread_name: String,
    pub(super) grace: Option<Duration>,
    pub(super) clock: Clock,
    pub(super) policy: Option<MakePolicy>,
    pub(super) on_abandoned: Option<OnAbandoned>,
    pub(super) watch: stall::Settings,
    pub(super) hooks: Hooks,
    /// Whether other processes may ask for dumps.
    pub(super) inspect: InspectOptions,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("workers", &self.workers)
            .field("strands", &self.strands)
            .field("stack_size", &self.stack_size)
            .field("driver", &self.driver)
            .field("submitter", &self.submitter)
            .field("blocking_threads", &self.blocking_threads)
            .field("thread_name", &self.thread_name)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

/// Describes a runtime; made by [`Runtime::builder`].
///
/// | option | default | range |
/// |---|---|---|
/// | `workers` | the CPUs this process may use | 1 to 1,024 |
/// | `strands` | `Fibers`, or `RAMIE_STRANDS` (`fibers`, `threads`) | |
/// | `stack_size` | 256 KiB, or `RAMIE_STACK` (bytes); the closure of `run` gets at least 2 MiB | 32 KiB to 1 GiB |
/// | `driver` | `Auto`, or `RAMIE_DRIVER` (`auto`, `uring`, `poll`) | |
/// | `submitter` | `Worker`, or `RAMIE_SUBMIT` (`worker`, `kernel-thread`, `sidecar`) | |
/// | `blocking_threads` | 512 | 1 to 16,384 |
/// | `thread_name` | `ramie-worker` | no NUL bytes |
/// | `grace` | for ever | |
/// | `pin_workers`, `blocking_affinity` | the CPUs this process may use | some of these |
/// | `stall_limit` | 25 ms, or `RAMIE_STALL_MS` (ms; 0: no reports) | 1 ms to 1 hour |
/// | `inspect` | off, or `RAMIE_INSPECT` (1: on, 0: off) | |
/// | `dump_on_quit` | off | |
///
/// `RAMIE_CAPS` masks features of io_uring, for tests ([`ramie_driver::masked_from_env`]). An empty
/// variable counts as unset. A value that is not allowed makes [`build`](Builder::build) return an
/// error that names the allowed values. Threads outside `run` use the default instead, because
/// their calls cannot report such an error.
#[derive(Default)]
#[must_use = "a builder does nothing until build is called"]
pub struct Builder {
    workers: Option<usize>,
    strands: Option<Strands>,
    stack_size: Option<usize>,
    driver: Option<Driver>,
    submitter: Option<Submitter>,
    blocking_threads: Option<usize>,
    thread_name: Option<String>,
    grace: Option<Duration>,
    clock: Clock,
    policy: Option<MakePolicy>,
    on_abandoned: Option<OnAbandoned>,
    watch: WatchOptions,
    inspect: InspectChoices,
    pub(super) hooks: Hooks,
}

/// The options of the watchdog.
#[derive(Default)]
struct WatchOptions {
    stall_limit: Option<Option<Duration>>,
    on_stall: Reaction<Stall>,
    on_deadlock: Reaction<Deadlock>,
    test: Option<&'static str>,
}

impl WatchOptions {
    fn check(self) -> io::Result<stall::Settings> {
        let WatchOptions { stall_limit, on_stall, on_deadlock, test } = self;
        Ok(stall::Settings { limit: stall::limit(stall_limit)?, on_stall, on_deadlock, test })
    }
}

impl Builder {
    /// Sets how many OS threads run fibers, including the thread that calls `run`.
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = Some(count);
        self
    }

    /// Chooses the kind of strands; overrides `RAMIE_STRANDS`.
    ///
    /// With [`Strands::Threads`] the number of workers has no effect, the closure of `run` runs on
    /// the calling thread's own stack, a thread has std's stack unless its builder sets another
    /// size, and the grace period is measured by the runtime's clock. A thread cannot be abandoned
    /// as a fiber can, so after the grace period it is reported, and continues.
    ///
    /// # Examples
    /// ```
    /// let runtime = ramie::Runtime::builder().strands(ramie::Strands::Threads).build()?;
    /// let is_thread = runtime.run(|| {
    ///     ramie::fiber::spawn(|| ramie::fiber::current().id().is_thread()).join().unwrap()
    /// });
    /// assert!(is_thread);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn strands(mut self, strands: Strands) -> Self {
        self.strands = Some(strands);
        self
    }

    /// Sets the usable bytes of a fiber's stack, rounded up to whole pages; a guard of 64 KiB lies
    /// below. A larger stack costs address space, not memory, because stacks are committed lazily.
    ///
    /// The closure of `run` gets at least 2 MiB, as std gives to a thread, so this size applies to
    /// it only if it is larger.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Chooses the driver; overrides `RAMIE_DRIVER`.
    pub fn driver(mut self, driver: Driver) -> Self {
        self.driver = Some(driver);
        self
    }

    /// Chooses which thread submits a worker's ops while its fibers run; overrides
    /// `RAMIE_SUBMIT`.
    ///
    /// Leave it at [`Submitter::Worker`] unless fibers compute for tens of microseconds or more
    /// between their I/O and a CPU is idle. Then another submitter lets I/O begin and end while a
    /// fiber computes, and moves the kernel's part of it, such as copying large messages, to
    /// another CPU. If fibers mostly wait for I/O, another submitter costs time and CPU;
    /// [`Submitter`] has measurements.
    ///
    /// If the kernel refuses to make a thread for a ring, or if the driver is the polling one,
    /// which has no ring, the worker submits its ops itself and logs a warning. Each worker has a
    /// submitter of its own. Threads outside `run`, and strands that are threads, always submit
    /// their ops themselves.
    ///
    /// # Examples
    /// ```
    /// let builder = ramie::Runtime::builder().workers(1).submitter(ramie::Submitter::Sidecar);
    /// let runtime = builder.build()?;
    /// runtime.run(|| ramie::fs::read("/dev/null"))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn submitter(mut self, submitter: Submitter) -> Self {
        self.submitter = Some(submitter);
        self
    }

    /// Limits the number of threads of the blocking pool, which are made on demand.
    pub fn blocking_threads(mut self, count: usize) -> Self {
        self.blocking_threads = Some(count);
        self
    }

    /// Names the worker threads: `name-1`, `name-2` and so on. The thread that calls `run` keeps
    /// its own name.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = Some(name.into());
        self
    }

    /// Sets how long `run` waits, once its closure has returned, for the fibers that have not
    /// ended. After that it abandons them: their ops are cancelled, their stacks are leaked and
    /// nothing on them is dropped; a warning in the log names each. By default `run` waits for
    /// ever.
    ///
    /// A fiber that computes without ever suspending cannot be abandoned, because it occupies its
    /// worker. A closure that an abandoned fiber runs by [`blocking`](crate::blocking()) goes on.
    /// `run` does not wait for it, but the threads of the workers end after it, because it may use
    /// their thread-locals. So does the thread that called `run`, unless it is the main thread: the
    /// end of the process waits for nobody.
    ///
    /// # Examples
    /// ```standalone_crate
    /// use std::{thread, time::Duration};
    ///
    /// let runtime = ramie::Runtime::builder().grace(Duration::from_millis(10)).build()?;
    /// runtime.run(|| {
    ///     let forever = || loop { thread::park() };
    ///     ramie::fiber::spawn_local(move || ramie::blocking(forever));
    ///     ramie::fiber::yield_now();
    /// });
    /// // The process ends, although that closure has not.
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn grace(mut self, period: Duration) -> Self {
        self.grace = Some(period);
        self
    }

    /// Sets a function that is called on the thread of `run` when fibers had to be abandoned.
    pub fn on_abandoned(mut self, f: impl Fn(&AbandonedFibers) + Send + Sync + 'static) -> Self {
        self.on_abandoned = Some(Arc::new(f));
        self
    }

    /// Sets for how long a fiber may run without a switch before that counts as a stall of its
    /// worker, or `None` for no reports; overrides `RAMIE_STALL_MS`.
    ///
    /// A fiber that computes, or that blocks its thread in a system call or on a lock of std,
    /// keeps the other fibers of its worker from running. A thread of the runtime, the watchdog,
    /// reports that within twice the limit, once for each run of a fiber, and once in 10 s for each
    /// closure and place of its spawn. The report names fiber, closure and cause; if it waits for a
    /// lock, also the fibers of the worker that may hold the lock, with the places where they wait.
    ///
    /// Time in which the thread waits for a CPU, or the process is stopped, does not count. A fiber
    /// that is the only strand of its runtime is not reported, because it keeps nobody waiting.
    /// There are no reports about strands that are threads, and none where /proc does not have the
    /// times of threads (`/proc/self/task/ID/schedstat`) or a filter refuses process_vm_readv(2).
    /// Turn the reports off if a filter kills the process for that call.
    ///
    /// With the crate feature `backtrace` the report has the calls in which the fiber is (on
    /// x86-64). The watchdog then interrupts a thread that computes by SIGURG, unless the program
    /// has a handler for it. A call that is not restarted after signals (`poll`, `nanosleep`, one
    /// with a timeout of its socket), and that the thread begins at that very moment, fails with
    /// `EINTR`. Otherwise it sends no signals. It sleeps while all workers sleep.
    pub fn stall_limit(mut self, limit: Option<Duration>) -> Self {
        self.watch.stall_limit = Some(limit);
        self
    }

    /// Sets what happens when a fiber [stalls](Self::stall_limit) its worker. By default the report
    /// goes to stderr, and to the program's logger as a warning once the worker runs on.
    ///
    /// # Examples
    /// ```
    /// use ramie::{Reaction, Runtime};
    ///
    /// // For tests: a stall of any fiber fails them.
    /// let runtime = Runtime::builder().on_stall(Reaction::Abort).build()?;
    /// runtime.run(|| ());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_stall(mut self, reaction: Reaction<Stall>) -> Self {
        self.watch.on_stall = reaction;
        self
    }

    /// Lets other processes of the same user, and root, ask for [dumps](crate::inspect) while this
    /// runtime runs, by `ramie dump PID`; overrides `RAMIE_INSPECT`.
    ///
    /// The runtime then has a thread and a Unix socket, which it shares with the other runtimes of
    /// the process ([`inspect::socket_path`](crate::inspect::socket_path)). If the socket cannot be
    /// opened, a warning with the reason goes to stderr and to the log, and the runtime runs
    /// without it.
    pub fn inspect(mut self, is_inspected: bool) -> Self {
        self.inspect.is_served = Some(is_inspected);
        self
    }

    /// Sets what happens when strands can never go on. By default a report goes to stderr, and to
    /// the program's logger as a warning, once for each deadlock.
    ///
    /// - Strands that wait for one another in a cycle: to lock a `Mutex` or a `RwLock`, for the end
    ///   of a strand, or for the end of a scope. If other fibers run meanwhile, the cycle is found
    ///   about two seconds after it has begun, otherwise within a second. The report has each
    ///   strand's name, the line where it waits, and the line where it was spawned.
    /// - A process all of whose strands wait, also for channels and other primitives of this crate,
    ///   and that has nothing left that could wake one of them: no op in flight, no limit, no
    ///   timer, and no thread besides those of the runtime. A thread of the program might hold a
    ///   sender or a handle, so a process with such a thread is not reported. On x86-64 the report
    ///   also has the strands whose stacks refer to a channel, or to a lock that readers hold, for
    ///   which another strand waits.
    ///
    /// Waits with a time limit do not count, and neither do waits that a cancel scope around them
    /// can end. Strands that are threads are reported only as part of a cycle with fibers.
    ///
    /// The holder of a lock is the strand that has locked it. So one report may be wrong: if a
    /// fiber gives its guard to another fiber of its worker, and then waits for a strand that waits
    /// for the lock, that counts as a cycle until the other fiber drops the guard. Drop a guard
    /// where it was taken, or set another reaction in such a program.
    ///
    /// The watchdog, a thread of the runtime, asks the workers once a second, or less often if they
    /// have so many fibers that this would take more than 0.1 % of a CPU: a million fibers are
    /// asked about every few minutes. It does not ask while all workers sleep.
    ///
    /// With [`Reaction::Ignore`] there is no search.
    ///
    /// # Examples
    /// ```
    /// use ramie::{Deadlock, Reaction, Runtime};
    ///
    /// let log = Reaction::call(|deadlock: &Deadlock| {
    ///     deadlock.iter().for_each(|strand| eprintln!("{strand}"));
    /// });
    /// let runtime = Runtime::builder().on_deadlock(log).build()?;
    /// runtime.run(|| ());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_deadlock(mut self, reaction: Reaction<Deadlock>) -> Self {
        self.watch.on_deadlock = reaction;
        self
    }

    /// Lets a deadlock end the process with the name of the test; for `#[ramie::test]`.
    #[doc(hidden)]
    pub fn __in_test(mut self, name: &'static str) -> Self {
        self.watch.test = Some(name);
        self
    }

    /// Makes SIGQUIT (Ctrl-\ in a terminal, or `kill -QUIT PID`) write a [dump](crate::inspect) to
    /// stderr while this runtime runs, instead of ending the process.
    ///
    /// The handler only wakes a thread, which writes the dump, so this works while all workers
    /// hang. The environment variable `RAMIE_DUMP_FILE`, an absolute path, names a file to which
    /// the dump is added, instead of stderr. If stderr is a pipe that nobody reads, the rest of a
    /// dump is lost.
    ///
    /// The thread takes no descriptor, but 64 MiB of address space (`ulimit -v`) once it has
    /// allocated memory, as each thread does.
    ///
    /// If the signal was ignored when the program was started, as in the background of a shell
    /// script, it is answered by a dump nevertheless. A handler that the program has installed
    /// before is called first, and a [`Signals`](crate::signal::Signals) receives the signal, too.
    /// A handler that the program installs later replaces this one. When no such runtime runs any
    /// more, the signal has the effect that it had before.
    pub fn dump_on_quit(mut self, dumps: bool) -> Self {
        self.inspect.dumps_on_quit = dumps;
        self
    }

    /// Records the last steps of all strands, and writes them to a file when something goes wrong:
    /// see [`FlightRecorder`]. By default `RAMIE_FLIGHT_RECORDER` decides, which has the absolute
    /// path of the directory; without it there is none.
    ///
    /// A process has one flight recorder, with the options of the first runtime that asked for it.
    /// It costs about 1 % of the CPU time of a server, and a thread that sleeps.
    pub fn flight_recorder(mut self, recorder: FlightRecorder) -> Self {
        self.inspect.flight = Some(recorder);
        self
    }

    /// Makes sleeps, timeouts and deadlines follow a clock that the caller advances.
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock = Clock::Manual(clock);
        self
    }

    /// Lets a policy decide which of the runnable fibers of a worker runs next. `make` is called
    /// once for each worker. It has no effect with [`Strands::Threads`].
    pub fn policy<P: Policy + 'static>(
        mut self,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) -> Self {
        self.policy = Some(Arc::new(move || Box::new(make())));
        self
    }

    /// Checks the options. If io_uring is required ([`Driver::Uring`], or `RAMIE_DRIVER=uring`),
    /// also tries to open a ring.
    ///
    /// # Errors
    /// `InvalidInput`: an option is out of its range, or an environment variable does not parse;
    /// the text names the allowed values. Other kinds: io_uring is required and cannot be used,
    /// because the kernel refuses it or no descriptors are left.
    pub fn build(self) -> io::Result<Runtime> {
        let driver = match self.driver {
            Some(Driver::Auto) => Choice::Auto,
            Some(Driver::Uring) => Choice::Uring,
            Some(Driver::Poll) => Choice::Poll,
            None => Choice::from_env().map_err(invalid)?,
        };
        ramie_driver::masked_from_env().map_err(invalid)?;
        let submitter = match self.submitter {
            Some(submitter) => submitter,
            None => Submitter::from_env().map_err(invalid)?.unwrap_or_default(),
        };
        let workers = match self.workers {
            Some(count) => in_range("workers", count, 1, MAX_WORKERS)?,
            None => std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_WORKERS),
        };
        let stack_size = match self.stack_size {
            Some(bytes) => checked_stack_size("stack_size", bytes)?,
            None => stack_size_from_env()?.unwrap_or(ramie_coro::DEFAULT_USABLE_BYTES),
        };
        let threads = self.blocking_threads.unwrap_or(DEFAULT_BLOCKING_THREADS);
        let thread_name = self.thread_name.unwrap_or_else(|| "ramie-worker".to_owned());
        if thread_name.contains('\0') {
            return Err(invalid("thread_name contains a NUL byte; leave it out"));
        }
        let strands = match self.strands {
            Some(strands) => strands,
            None => strands_from_env()?.unwrap_or_default(),
        };
        let config = Config {
            workers,
            strands,
            stack_size,
            driver,
            submitter,
            blocking_threads: in_range("blocking_threads", threads, 1, 16_384)?,
            thread_name,
            grace: self.grace,
            clock: self.clock,
            policy: self.policy,
            on_abandoned: self.on_abandoned,
            inspect: self.inspect.check()?,
            watch: self.watch.check()?,
            hooks: self.hooks.check()?,
        };
        if driver == Choice::Uring {
            // The kernel may refuse a ring, and only this function can report that as an error.
            let mut trial = ramie_driver::Driver::open(driver, &ramie_driver::Config::default())?;
            trial.note_thread_goes_on();
        }
        Ok(Runtime { config })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("workers", &self.workers)
            .field("stack_size", &self.stack_size)
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}
