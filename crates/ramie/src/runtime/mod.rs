//! Runtimes: how they are configured, how `run` begins and ends, and the other ways to use one: in
//! the background, through handles, or driven by another program's loop.

mod background;
mod builder;
mod ended;
mod guest;
mod handle;
mod hooks;
mod options;
mod shutdown;
mod start;
mod threads;
#[cfg(test)]
mod view_tests;
mod worker_threads;
mod workforce;

pub use crate::core::worker::RuntimeEnded;
pub use background::BackgroundRuntime;
pub use builder::Builder;
pub use ended::Ended;
pub use guest::{GuestRuntime, Turned};
pub use handle::Handle;
pub use options::{AbandonedFibers, Driver, Strands};

use builder::Config;

/// Runs `f` as a fiber, and returns its value when `f` and every fiber spawned meanwhile have
/// ended. There are as many workers as CPUs that this process may use; the calling thread is the
/// first.
///
/// `f` may borrow and need not be `Send`: it runs on this thread, and this call blocks.
///
/// A fiber that never ends keeps this call from returning, even if its handle was dropped. If
/// fibers are left a second after `f` has returned, the log names them once, at level warn (ten of
/// them by name or id), each with its wait and the place in the source; a debug build also writes
/// that to stderr. If [`Builder::grace`] limits the wait, there is no such line. A worker on which
/// a fiber computes without ever suspending cannot report its fibers; if that is so on all workers,
/// there is no report.
///
/// # Blocking
/// Blocks the calling thread, which is a worker meanwhile.
///
/// # Cancellation
/// Not a cancel point.
///
/// # Panics
/// If `f` panics: with its panic, after the other fibers have ended. If the runtime cannot be
/// started: with the text of the error, for example an error of [`Builder::build`] or of a driver
/// that cannot be opened. If it is called inside another `run`, or in a destructor that runs during
/// a panic.
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

/// A checked configuration, with which closures can be run; made by [`Runtime::builder`].
///
/// - [`run`](Self::run) runs a closure here, and returns when all fibers have ended;
/// - [`start`](Self::start) starts workers in the background, for other threads;
/// - [`start_guest`](Self::start_guest) makes a worker that another loop of this thread drives.
///
/// Several runtimes may run in one process, each on threads of its own.
#[derive(Debug)]
pub struct Runtime {
    config: Config,
}

impl Runtime {
    /// Returns a builder with the default options.
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
    /// Blocks the calling thread, which is a worker meanwhile.
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
