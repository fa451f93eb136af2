//! One direction of a stream, for which async code waits.
//!
//! # Protocol
//! A poll that would wait stores its waker here, and starts a helper strand if none waits. The
//! helper waits until the stream is ready, takes the waker out, calls it, and ends. *The race to
//! fear* is a poll that stores its waker while the helper ends. Both act under the lock, so either
//! the helper takes the new waker, too, or the poll finds no helper and starts another. Readiness
//! is level-triggered, so the new helper sees the same readiness.
//!
//! If a wait is refused (no memory, no descriptor for a driver), the next poll that would wait
//! returns the error; otherwise poll and helper would call each other forever. The same applies if
//! a helper never runs because there is no memory for its stack; otherwise the poll would wait for
//! it forever.
//!
//! `run` does not wait for a helper, because the stream may have been moved out of `run`, or lie in
//! a static. When only helpers are left, `run` cancels their waits, and the next poll that would
//! wait returns that error.
//!
//! The kernel holds no buffer between two polls, so a future may be dropped, or forgotten, at any
//! time. Dropping the stream cancels the helper.

use std::{
    io,
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use ramie::{cancel::CancelHandle, fiber, io::Async};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

#[derive(Default)]
pub(crate) struct Readiness(Mutex<State>);

#[derive(Default)]
struct State {
    waker: Option<Waker>,
    has_helper: bool,
    /// The cancel handle of the helper that waits.
    cancel: Option<CancelHandle>,
    /// The reason why the last helper did not wait.
    refusal: Option<io::Error>,
    is_closed: bool,
}

impl Readiness {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arranges that a waker is called when the stream is ready.
    pub(crate) fn register<S>(
        this: &Arc<Self>,
        stream: &Arc<S>,
        to: Direction,
        waker: &Waker,
    ) -> io::Result<()>
    where
        S: AsFd + Send + Sync + 'static,
    {
        let waker = waker.clone();
        let mut state = this.lock();
        if let Some(refusal) = state.refusal.take() {
            return Err(refusal);
        }
        let old = state.waker.replace(waker);
        let must_start = !std::mem::replace(&mut state.has_helper, true);
        drop(state);
        drop(old);
        if must_start {
            let (duty, stream) = (Duty::new(this), Arc::clone(stream));
            let help = move || duty.help(stream, to);
            // On this worker, next to the task that it wakes. A thread has no time to run fibers.
            if fiber::current().id().is_thread() {
                drop(fiber::spawn(help));
            } else {
                drop(fiber::spawn_local(help));
            }
        }
        Ok(())
    }

    /// Records that a helper has ended.
    fn end(&self, waited: io::Result<()>) {
        let mut state = self.lock();
        state.has_helper = false;
        state.refusal = waited.err();
        state.cancel = None;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wait<S: AsFd>(&self, stream: &S, to: Direction) -> io::Result<()> {
        fiber::as_daemon(|scope| {
            let mut state = self.lock();
            if state.is_closed {
                return Ok(());
            }
            state.cancel = Some(scope.handle());
            drop(state);
            let stream = Async::from_fd(stream.as_fd())?;
            match to {
                Direction::Read => stream.readable(),
                Direction::Write => stream.writable(),
            }
        })
    }

    /// Cancels the helper.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let (waker, cancel) = (state.waker.take(), state.cancel.take());
        drop(state);
        drop(waker);
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
    }
}

/// The end of a helper's wait. If it is dropped because the helper never ran, it records that the
/// helper has not waited.
struct Duty {
    readiness: Arc<Readiness>,
    waited: Option<io::Result<()>>,
}

impl Duty {
    fn new(readiness: &Arc<Readiness>) -> Self {
        Duty { readiness: Arc::clone(readiness), waited: None }
    }

    fn help<S: AsFd>(mut self, stream: Arc<S>, to: Direction) {
        self.waited = Some(self.readiness.wait(&stream, to));
        drop(stream);
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        let waited = self.waited.take().unwrap_or_else(|| {
            let why = "the fiber that was to wait for the stream could not run; see the log";
            Err(io::Error::new(io::ErrorKind::OutOfMemory, why))
        });
        self.readiness.end(waited);
    }
}
