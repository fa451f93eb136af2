//! A runtime in the background: all its workers are threads of their own, and other threads use it
//! through handles.
//!
//! # What runs where
//! The thread of worker 0 starts the other workers, runs its own loop, ends the runtime, and
//! reports what was abandoned: what `run` does on the thread of its caller. So the end needs no
//! help of the thread that owns the [`BackgroundRuntime`], which may be gone.
//!
//! # Protocol
//!
//! | the runtime | changed by |
//! |---|---|
//! | runs | a shutdown: the first closes the [entrance](crate::core::worker), and begins the grace period |
//! | ends: strands go on, spawns are refused | the workers, when no strand is left or the grace period is over; an earlier end of that period, by another shutdown |
//! | has ended | - |
//!
//! - *Who wakes whom*: a spawn wakes one sleeping worker; the end of a fiber wakes its joiner, a
//!   strand or the waker of a future, wherever that is; the end of the runtime wakes all that wait
//!   for it.
//! - *The race to fear* is a spawn during the shutdown: it either is refused, or its fiber is one
//!   of those for which the runtime waits (core/worker/entrance.rs).
//! - *A shutdown by code for which the end waits*, such as a strand of the runtime, cannot wait
//!   (core/worker/roster.rs). So a drop there begins the shutdown only, and a call panics.
//! - *Deadlocks*: a thread that could use a handle is a thread of the program that runs outside of
//!   Ramie's calls. While there is one, no standstill is reported (`deadlock/standstill.rs`).
//! - *Forks*: a child has a copy of the handle, and no worker. All calls fail there, and a drop
//!   leaves the threads alone, which the child does not have.
//! - *Signals*: the threads inherit the signal mask of the thread that starts the runtime.

use std::{
    fmt, io,
    panic::resume_unwind,
    sync::{Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use ramie_driver::sys::HandedOut;

use super::{
    AbandonedFibers, Ended, Handle, Runtime, Strands,
    builder::Config,
    start::prepare_process,
    worker_threads::{no_thread, not_started},
    workforce::{Fibers, Workforce, report},
};
use crate::{
    core::{
        panic,
        worker::{Installed, RuntimeRef, Until},
    },
    op::blocking,
};

/// A runtime whose workers run in the background; made by [`Runtime::start`].
///
/// Dropping it ends the runtime, as the return of the closure ends [`run`](crate::run()): it waits
/// until all fibers have ended, or for [`Builder::grace`](super::Builder::grace). If the drop would
/// wait for itself ([`Handle::can_shut_down_here`]), and during a panic, it begins the end of the
/// runtime and does not wait.
#[must_use = "dropping it ends the runtime"]
pub struct BackgroundRuntime {
    handle: Handle,
    grace: Option<Duration>,
    first: Option<FirstThread>,
}

/// The thread of worker 0, or the one that waits for the strands that are threads.
struct FirstThread {
    thread: JoinHandle<()>,
    /// Gets the outcome when the thread runs no code of the program any more. In a mutex, so that
    /// threads may share the runtime.
    served: Mutex<mpsc::Receiver<thread::Result<()>>>,
}

impl Runtime {
    /// Starts workers on threads of their own, and returns at once. Other threads use the runtime
    /// through its [`Handle`]s. May be called again; each call starts a runtime.
    ///
    /// The first thread is named `name-0`, where `name` is the
    /// [`thread_name`](super::Builder::thread_name). All threads inherit the signal mask of the
    /// caller.
    ///
    /// # Blocking
    /// Blocks the calling thread until the workers have started.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// A driver cannot be opened, a thread cannot be started or pinned, or the function of
    /// `on_worker_start` has panicked; the text names the cause. `Unsupported`: this is the child
    /// of a fork, and the parent had used this crate.
    ///
    /// # Panics
    /// If the function that makes the run-queue policy panics.
    ///
    /// # Examples
    /// ```
    /// let runtime = ramie::Runtime::builder().workers(2).build()?.start()?;
    /// let handle = runtime.handle();
    /// let fiber = std::thread::spawn(move || handle.spawn(|| 6 * 7)).join().unwrap()?;
    /// assert_eq!(fiber.join().unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(&self) -> io::Result<BackgroundRuntime> {
        let (sender, receiver) = mpsc::channel();
        let config = self.config.clone();
        let builder = thread::Builder::new().name(format!("{}-0", config.thread_name));
        let (tell, served) = mpsc::channel();
        let thread = builder.spawn(move || {
            let outcome = panic::catch(|| serve(&config, &sender));
            // After a panic in the start the starter waits for this.
            drop(sender);
            let _ = tell.send(outcome);
        });
        let thread = thread.map_err(|error| not_started(&no_thread(&error)))?;
        let first = FirstThread { thread, served: Mutex::new(served) };
        match receiver.recv() {
            Ok(Ok(handle)) => {
                let grace = self.config.grace;
                Ok(BackgroundRuntime { handle, grace, first: Some(first) })
            }
            Ok(Err(error)) => {
                let _ = first.join();
                Err(error)
            }
            Err(_) => match first.join() {
                Err(payload) => resume_unwind(payload),
                Ok(()) => unreachable!("the thread reports its start, or panics"),
            },
        }
    }
}

impl FirstThread {
    /// Waits until the thread runs no code of the program any more.
    ///
    /// # Errors
    /// With its panic.
    fn wait(&self) -> thread::Result<()> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.recv().unwrap_or(Ok(()))
    }

    /// The same, and waits until the thread has ended.
    fn join(self) -> thread::Result<()> {
        let outcome = self.wait();
        outcome.and(self.thread.join())
    }
}

/// Serves until the end of the runtime, on its first thread.
fn serve(config: &Config, started: &mpsc::Sender<io::Result<Handle>>) {
    prepare_process();
    let _inspected = config.inspect.begin();
    let report_start = |started_with| {
        // The starter waits for it.
        let _ = started.send(started_with);
    };
    let abandoned = match config.strands {
        Strands::Threads => super::threads::serve(config, |threads| {
            report_start(Ok(Handle::of(RuntimeRef::ThreadStrands(threads))));
        }),
        Strands::Fibers => match Workforce::start(config, false) {
            Ok(force) => {
                let workers = std::sync::Arc::clone(&force.workers);
                report_start(Ok(Handle::of(RuntimeRef::Workers(workers))));
                serve_fibers(force)
            }
            Err(error) => return report_start(Err(error)),
        },
    };
    report(config, &abandoned);
}

fn serve_fibers(force: Workforce) -> AbandonedFibers {
    let fibers = HandedOut::<Fibers>::new();
    {
        let _installed = Installed::new(&force.first);
        force.watching.while_watched(&force.first, || force.first.run(Until::Finished));
    }
    force.end(fibers)
}

impl BackgroundRuntime {
    /// Returns a handle of the runtime, which does not keep the runtime from ending.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends the runtime as [`Handle::shutdown`] does, and waits until its threads have ended. If
    /// abandoned fibers have closures on the blocking pool, the threads are left alone instead, and
    /// end after those.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until the runtime has ended.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// As [`Handle::shutdown`]. If the function of
    /// [`on_abandoned`](super::Builder::on_abandoned) panicked: with its panic.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = ramie::Runtime::builder().workers(1).build()?.start()?;
    /// let handle = runtime.handle();
    /// let abandoned = runtime.shutdown(Duration::from_secs(5));
    /// assert_eq!(abandoned.count(), 0);
    /// let error = handle.spawn(|| ()).unwrap_err();
    /// assert!(ramie::RuntimeEnded::of(&error).is_some());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn shutdown(mut self, timeout: Duration) -> AbandonedFibers {
        let abandoned = self.handle.shutdown(timeout);
        if let Err(payload) = self.join() {
            resume_unwind(payload);
        }
        abandoned
    }

    /// Begins the end as [`Handle::shutdown_async`] does, and returns a future of it, for tasks of
    /// an executor, whose threads must not block. The end begins at once, even if the future is
    /// never polled. A function of [`on_abandoned`](super::Builder::on_abandoned) may still run
    /// when the future is ready.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// async fn serve(runtime: ramie::BackgroundRuntime) {
    ///     // …
    ///     let abandoned = runtime.shutdown_async(Duration::from_secs(5)).await;
    ///     assert_eq!(abandoned.count(), 0);
    /// }
    /// # let runtime = ramie::Runtime::builder().build()?.start()?;
    /// # ramie::future::block_on(serve(runtime));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown_async(mut self, timeout: Duration) -> Ended {
        self.first = None;
        self.handle.shutdown_async(timeout)
    }

    /// Waits for the first thread, if the runtime has ended. The thread may run code of the program
    /// then, which reports the abandoned fibers, so a fiber waits by the blocking pool. A thread
    /// that has to outlive loans is not joined.
    #[track_caller]
    fn join(&mut self) -> thread::Result<()> {
        let Some(first) = self.first.take().filter(|_| self.handle.has_ended()) else {
            return Ok(());
        };
        // That thread itself may drop the runtime.
        if first.thread.thread().id() == thread::current().id() {
            return Ok(());
        }
        blocking(|| if self.handle.has_loans() { first.wait() } else { first.join() })
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if self.first.is_none() || self.handle.is_forked() {
            return;
        }
        self.handle.close(self.grace);
        if !self.handle.can_shut_down_here() || thread::panicking() {
            return;
        }
        if self.handle.wait_for_end().is_ok() {
            // Its panic was reported when it happened.
            let _ = self.join();
        }
    }
}

impl fmt::Debug for BackgroundRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundRuntime").field("handle", &self.handle).finish_non_exhaustive()
    }
}
