//! One direction of a stream that async code waits for.
//!
//! # Protocol
//! A poll that finds nothing leaves its waker here, and starts a helper strand if none waits. The
//! helper waits until the stream is ready, takes the waker out and calls it, and ends. *The race to
//! fear* is a poll that leaves its waker while the helper ends: both do so under the lock. Either
//! the helper takes the new waker, too, or the poll finds no helper and starts another; readiness
//! is level-triggered, so that one sees what the first has seen.
//!
//! A wait that is refused (no memory, no descriptor for a driver) is the error of the next poll
//! that finds nothing; otherwise the two would call each other for ever. A helper that never runs,
//! because there is no memory for its stack, is also an error of that poll; otherwise the poll
//! would wait for it for ever.
//!
//! `run` does not wait for a helper, because the stream may have been carried out of `run`, or lie
//! in a static. When only helpers are left, their waits are cancelled, and the next poll that finds
//! nothing fails with that cancellation.
//!
//! No buffer is in the kernel's hands between two polls, so a future may be dropped, or forgotten,
//! at any time. Dropping the stream cancels the helper.

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
    /// Of the helper that waits.
    cancel: Option<CancelHandle>,
    /// Why the last one did not wait.
    refusal: Option<io::Error>,
    is_closed: bool,
}

impl Readiness {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a waker called when the stream is ready.
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
            // On this worker, next to whom it wakes. A thread has no time to run fibers.
            if fiber::current().id().is_thread() {
                drop(fiber::spawn(help));
            } else {
                drop(fiber::spawn_local(help));
            }
        }
        Ok(())
    }

    /// A helper has ended.
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

    /// Lets the helper go.
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

/// Of a helper, to say how its wait has ended: if it is dropped and never run, that it has not
/// waited.
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
