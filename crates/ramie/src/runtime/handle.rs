//! The handle of a runtime, for any thread.

use std::{fmt, future::Future, io, panic::Location};

use crate::{
    core::{
        strand::{NoValue, Raised},
        worker::{self, RuntimeEnded, RuntimeRef},
    },
    fiber::{Builder, JoinHandle, Place},
    future::block_on,
    metrics::RuntimeMetrics,
};

/// Spawns fibers into a runtime, and ends it, from any thread: of std, of another runtime, of a C
/// library.
///
/// A handle does not keep its runtime from ending. Once the end has begun, its calls fail with
/// [`RuntimeEnded`]; so they do in the child of a fork. A clone is another handle of the same
/// runtime.
///
/// # Examples
/// ```
/// let runtime = ramie::Runtime::builder().build()?.start()?;
/// let handle = runtime.handle();
/// let squares: Vec<_> = (0..4).map(|n| handle.spawn(move || n * n)).collect::<Result<_, _>>()?;
/// let squares: Vec<_> = squares.into_iter().map(|fiber| fiber.join().unwrap()).collect();
/// assert_eq!(squares, [0, 1, 4, 9]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Handle {
    pub(super) runtime: RuntimeRef,
}

impl Handle {
    pub(super) fn of(runtime: RuntimeRef) -> Handle {
        Handle { runtime }
    }

    /// Returns a handle of the runtime that runs this strand.
    ///
    /// The end of a runtime that [`run`](crate::run()) has started begins when the closure of `run`
    /// has returned.
    ///
    /// # Panics
    /// Outside a runtime.
    ///
    /// # Examples
    /// ```
    /// use ramie::Handle;
    ///
    /// ramie::run(|| {
    ///     let handle = Handle::current();
    ///     let from_outside = std::thread::spawn(move || handle.spawn(|| 5)).join().unwrap();
    ///     assert_eq!(from_outside.unwrap().join().unwrap(), 5);
    /// });
    /// assert!(Handle::try_current().is_none());
    /// ```
    #[must_use]
    #[track_caller]
    pub fn current() -> Handle {
        let current = Handle::try_current();
        current.expect("Handle::current was called outside a runtime; call it on a fiber of one")
    }

    /// Returns a handle of the runtime that runs this strand; `None` outside a runtime.
    #[must_use]
    pub fn try_current() -> Option<Handle> {
        worker::with_existing(RuntimeRef::of).flatten().map(Handle::of)
    }

    /// Spawns a fiber on any worker of the runtime. Its [`JoinHandle`] can be joined on any thread,
    /// and awaited on any executor.
    ///
    /// It never parks; it may block the thread for a moment, on locks of the runtime.
    ///
    /// # Errors
    /// [`RuntimeEnded`], in an error of kind `Other`: the end of the runtime has begun.
    /// `OutOfMemory`: there is no memory for one more strand. If strands are threads: the system
    /// refuses one more. In each case the closure is dropped.
    ///
    /// # Examples
    /// ```
    /// use ramie::future::block_on;
    ///
    /// let runtime = ramie::Runtime::builder().build()?.start()?;
    /// let fiber = runtime.handle().spawn(|| "done")?;
    /// // `block_on` stands for any executor.
    /// assert_eq!(block_on(async { fiber.await.unwrap() }), "done");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Builder::new().spawn_into(&self.runtime, f, Location::caller())
    }

    /// Spawns a fiber on a certain worker.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn). `InvalidInput`: no worker has the requested index.
    ///
    /// # Examples
    /// ```
    /// use ramie::{Runtime, Strands, fiber::{self, Place}};
    ///
    /// let runtime = Runtime::builder().strands(Strands::Fibers).workers(2).build()?.start()?;
    /// let there = runtime.handle().spawn_on(Place::Worker(1), fiber::worker)?;
    /// assert_eq!(there.join().unwrap(), Some(1));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_on<F, T>(&self, place: Place, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Builder::new().on(place).spawn_into(&self.runtime, f, Location::caller())
    }

    /// Spawns a fiber with the options of a builder: a name, a stack size, a place.
    ///
    /// # Errors
    /// As [`spawn_on`](Self::spawn_on). `InvalidInput`: the stack size is out of range.
    ///
    /// # Panics
    /// If the name contains a NUL byte.
    #[track_caller]
    pub fn spawn_with<F, T>(&self, builder: Builder, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        builder.spawn_into(&self.runtime, f, Location::caller())
    }

    /// Waits for a future that a fiber of the runtime polls. Calls of this crate inside the future
    /// wait on that fiber, and spawn into the runtime. To poll a future on the calling thread, use
    /// [`future::block_on`](crate::future::block_on).
    ///
    /// # Blocking
    /// Parks the fiber, or blocks the thread outside one, until the future is ready.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// The end of the runtime has begun, the runtime has abandoned the fiber, or there is no memory
    /// for it. Also on a fiber that runs a destructor during a panic.
    ///
    /// # Panics
    /// If the future panics: with its panic. On the thread of the loop that drives the only worker
    /// of the runtime, because no turn is given meanwhile; spawn there instead.
    ///
    /// # Examples
    /// ```
    /// let runtime = ramie::Runtime::builder().build()?.start()?;
    /// let worker = runtime.handle().block_on(async { ramie::fiber::worker() });
    /// # let worker = if worker == Ok(None) { Ok(Some(0)) } else { worker };
    /// assert!(worker.unwrap().is_some());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn block_on<F>(&self, future: F) -> Result<F::Output, RuntimeEnded>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        assert!(
            !self.runtime.needs_turns_of_this_thread(),
            "Handle::block_on was called on the thread of the loop that drives the runtime's only \
             worker, and would wait for turns that the loop does not give meanwhile; call \
             Handle::spawn, and then GuestRuntime::turn until the fiber has ended"
        );
        let fiber = self
            .spawn(move || block_on(future))
            .map_err(|error| RuntimeEnded::of(&error).copied().unwrap_or(RuntimeEnded::ENDED))?;
        match fiber.join_raised() {
            Ok(output) => Ok(output),
            Err(raised) if raised.why() == NoValue::NotRun => Err(RuntimeEnded::ENDED),
            Err(raised) => Raised::raise(raised),
        }
    }

    /// Reads figures of the runtime.
    ///
    /// # Errors
    /// The end of the runtime has begun. If strands are threads, all figures are 0.
    ///
    /// # Examples
    /// ```
    /// let runtime = ramie::Runtime::builder().build()?.start()?;
    /// let handle = runtime.handle();
    /// handle.spawn(|| ())?.join().unwrap();
    /// # if !handle.metrics().unwrap().workers.is_empty() {
    /// assert_eq!(handle.metrics().unwrap().spawned, 1);
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn metrics(&self) -> Result<RuntimeMetrics, RuntimeEnded> {
        let admission = self.runtime.entrance().admit()?;
        let RuntimeRef::Workers(workers) = &self.runtime else {
            return Ok(RuntimeMetrics::default());
        };
        let ((ended, spawned, started), workers) = worker::levels_of(workers, &admission);
        Ok(RuntimeMetrics { spawned, ended, started, workers })
    }

    /// Returns whether the runtime takes fibers: its end has not begun, and this process is not the
    /// child of a fork.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.runtime.entrance().is_open()
    }

    /// Returns whether the calling strand is one of this runtime.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.runtime.is_current()
    }

    /// Whether jobs may use thread-locals of the runtime's threads. Once it has ended, no more do.
    pub(super) fn has_loans(&self) -> bool {
        match &self.runtime {
            RuntimeRef::Workers(workers) => !workers.pool.loans.have_all_ended(),
            RuntimeRef::ThreadStrands(_) => false,
        }
    }

    pub(super) fn is_forked(&self) -> bool {
        self.runtime.entrance().is_forked()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}
