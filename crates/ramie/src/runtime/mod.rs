//! Runtimes: how they are configured, how `run` begins and ends.

mod builder;
mod start;
mod threads;

pub use builder::{AbandonedFibers, Builder, Driver, Strands};

use builder::Config;

/// Runs `f` as a fiber, with the calling thread as the first of as many workers as the machine has
/// CPUs, and returns its value when it and every fiber spawned meanwhile have ended.
///
/// `f` may borrow and need not be `Send`: it runs on this thread, and this call blocks.
///
/// A fiber that never ends keeps this call from returning, also one whose handle was dropped. If
/// fibers are left a second after `f` has returned, the log names them once, at level warn (ten of
/// them by name or id), each with its wait and the place; a debug build writes that to stderr, too.
/// [`Builder::grace`] bounds the wait, and then there is no such line. A worker on which a fiber
/// computes without ever suspending cannot report its fibers; if all workers are such, there is no
/// report.
///
/// # Blocking
/// Blocks the calling thread, which works as a worker meanwhile.
///
/// # Cancellation
/// Not a cancel point.
///
/// # Panics
/// With the panic of `f`, after the other fibers have ended. When the runtime cannot be started:
/// with the sentence that [`Builder::build`] would give as an error. Inside another `run`.
///
/// # Examples
/// ```
/// let mut total = 0;
/// ramie::run(|| {
///     total = ramie::fiber::spawn(|| 40).join().unwrap() + 2;
/// });
/// assert_eq!(total, 42);
/// ```
#[track_caller]
pub fn run<F, T>(f: F) -> T
where
    F: FnOnce() -> T,
{
    match Runtime::builder().build() {
        Ok(runtime) => runtime.run(f),
        Err(error) => panic!("{error}"),
    }
}

/// A configuration whose parts have been tried; made by [`Runtime::builder`].
///
/// Several runtimes may run in one process, each on threads of its own.
#[derive(Debug)]
pub struct Runtime {
    config: Config,
}

impl Runtime {
    /// Starts the description of a runtime.
    ///
    /// # Examples
    /// ```
    /// let runtime = ramie::Runtime::builder().workers(1).build()?;
    /// assert_eq!(runtime.run(|| 7), 7);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Runs `f` as [`run`] does, with this runtime's configuration. May be called again.
    ///
    /// # Blocking
    /// Blocks the calling thread, which works as a worker meanwhile.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// As [`run`].
    #[track_caller]
    pub fn run<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T,
    {
        start::run(&self.config, f)
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.config.workers
    }
}
