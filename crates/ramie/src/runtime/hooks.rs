//! What a program adds to the threads of its workers: functions at their start and end, and CPUs.

use std::{fmt, io, sync::Arc};

use ramie_driver::{say, sys::CpuMask};

use super::Builder;
use crate::core::{panic, worker::invalid};

type WorkerHook = Arc<dyn Fn(usize) + Send + Sync>;

/// The hooks of a runtime.
#[derive(Clone, Default)]
pub(super) struct Hooks {
    on_start: Option<WorkerHook>,
    on_stop: Option<WorkerHook>,
    /// The CPUs of the workers, in turn.
    cpus: Option<Arc<[usize]>>,
    blocking_cpus: Option<Arc<[usize]>>,
}

impl Builder {
    /// Sets a function that each worker's thread calls with the index of the worker, before it runs
    /// fibers.
    ///
    /// The function is no fiber: calls of this crate in it act as on a thread outside the runtime.
    /// All workers call it at the same time, so it may wait for the others, for example at a
    /// [`Barrier`](std::sync::Barrier). If it panics, the runtime cannot be started, once the other
    /// calls have returned. A worker that another program's loop drives calls it, too, on the
    /// thread of that loop.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    /// static RUNNING: AtomicUsize = AtomicUsize::new(0);
    ///
    /// let builder = ramie::Runtime::builder().strands(ramie::Strands::Fibers).workers(2);
    /// let builder = builder.on_worker_start(|_| _ = RUNNING.fetch_add(1, SeqCst));
    /// let runtime = builder.on_worker_stop(|_| _ = RUNNING.fetch_sub(1, SeqCst)).build()?;
    /// assert_eq!(runtime.run(|| RUNNING.load(SeqCst)), 2);
    /// assert_eq!(RUNNING.load(SeqCst), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "on_thread_start")]
    pub fn on_worker_start(mut self, f: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.on_start = Some(Arc::new(f));
        self
    }

    /// Sets a function that each worker's thread calls with the index of the worker, when all its
    /// fibers are gone; all workers call it at the same time. A panic of the function goes no
    /// further. It is called for each worker for which the function of
    /// [`on_worker_start`](Self::on_worker_start) has returned. The end of the runtime waits for
    /// it, so it cannot wait for that end: [`Handle::shutdown`](super::Handle::shutdown) panics
    /// there.
    #[doc(alias = "on_thread_stop")]
    pub fn on_worker_stop(mut self, f: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.on_stop = Some(Arc::new(f));
        self
    }

    /// Pins each worker to one of these CPUs, in turn: worker 0 to the first, and so on.
    ///
    /// The thread that calls `run` is worker 0 and is pinned, too, until `run` returns; a thread
    /// whose loop drives a worker is not. A thread that a fiber starts inherits the CPU of its
    /// worker, as everywhere; the threads of the blocking pool do not. It has no effect with
    /// [`Strands::Threads`](super::Strands).
    pub fn pin_workers(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.hooks.cpus = Some(cpus.into_iter().collect());
        self
    }

    /// Lets the threads of the blocking pool run on these CPUs only. By default they run where the
    /// thread may run that starts the runtime.
    pub fn blocking_affinity(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.hooks.blocking_cpus = Some(cpus.into_iter().collect());
        self
    }
}

impl Hooks {
    /// Checks the CPUs.
    ///
    /// # Errors
    /// `InvalidInput`: there are none, or this thread may not run on one of them.
    pub(super) fn check(self) -> io::Result<Hooks> {
        for (option, cpus) in
            [("pin_workers", &self.cpus), ("blocking_affinity", &self.blocking_cpus)]
        {
            let Some(cpus) = cpus else { continue };
            let allowed = CpuMask::of_this_thread()?;
            if cpus.is_empty() {
                return Err(invalid(format!("{option} got no CPU; name one of {allowed:?}")));
            }
            if let Some(cpu) = cpus.iter().find(|cpu| !allowed.has(**cpu)) {
                return Err(invalid(format!(
                    "{option} got the CPU {cpu}, which this thread may not use; it may use \
                     {allowed:?}"
                )));
            }
        }
        Ok(self)
    }

    /// The CPUs of the blocking pool's threads. None: those of the thread that starts them, which
    /// then is not pinned.
    pub(super) fn blocking_cpus(&self) -> Option<CpuMask> {
        match &self.blocking_cpus {
            Some(cpus) => CpuMask::of(cpus.iter().copied()),
            None => self.cpus.as_ref().and_then(|_| CpuMask::of_this_thread().ok()),
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("cpus", &self.cpus).finish_non_exhaustive()
    }
}

/// A thread that is a worker, or about to become one. When this is dropped, its stop hook is called
/// if its start hook has been.
pub(super) struct OnDuty {
    hooks: Hooks,
    index: usize,
    has_begun: bool,
    /// Where the thread ran before.
    before: Option<CpuMask>,
}

impl OnDuty {
    pub(super) fn new(hooks: &Hooks, index: usize) -> OnDuty {
        OnDuty { hooks: hooks.clone(), index, has_begun: false, before: None }
    }

    /// Pins the thread to the CPU of its worker, if it has one.
    ///
    /// # Errors
    /// The system refuses that.
    pub(super) fn pin(&mut self) -> io::Result<()> {
        let Some(cpus) = &self.hooks.cpus else { return Ok(()) };
        let (index, cpu) = (self.index, cpus[self.index % cpus.len()]);
        let before = CpuMask::of_this_thread()?;
        let pinned = CpuMask::of([cpu]).map_or(Ok(()), |mask| mask.apply());
        pinned.map_err(|error| {
            let text = format!("worker {index} cannot be pinned to the CPU {cpu}: {error}");
            io::Error::new(error.kind(), text)
        })?;
        self.before = Some(before);
        Ok(())
    }

    /// Calls the start hook.
    ///
    /// # Errors
    /// It has panicked.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let index = self.index;
        if let Some(hook) = &self.hooks.on_start
            && !panic::call_quietly(|| hook(index))
        {
            let text = format!("the function of on_worker_start panicked on worker {index}");
            return Err(io::Error::other(text));
        }
        self.has_begun = true;
        Ok(())
    }
}

impl Drop for OnDuty {
    fn drop(&mut self) {
        if let Some(hook) = self.hooks.on_stop.as_ref().filter(|_| self.has_begun) {
            panic::call_quietly(|| hook(self.index));
        }
        if let Some(Err(error)) = self.before.take().map(|before| before.apply()) {
            say!(Warn, "a thread that was a worker stays pinned to its CPU: {error}");
        }
    }
}
