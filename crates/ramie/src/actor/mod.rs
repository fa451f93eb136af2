//! Actors: a strand that owns a state, and a mailbox of closures that it runs on that state, one
//! after another.
//!
//! Nobody else sees the state, so it needs no lock; and a closure may wait (for I/O, for another
//! actor) while others queue behind it, which under a lock would be a mistake. The mailbox is a
//! bounded [`channel`], so a strand that sends faster than the actor works has to wait.
//!
//! Where several strands only read and change a value for some instructions, a
//! [`Mutex`](crate::sync::Mutex) is cheaper: a call costs two switches and two allocations, 150 ns.
//!
//! # How an actor ends
//! | by | closures in the mailbox | the state |
//! |---|---|---|
//! | [`Actor::stop`] | those sent before it run | is returned |
//! | the drop of the last handle | run | is dropped, by the actor's strand |
//! | a panic of a closure | are dropped | is dropped, by the actor's strand |
//!
//! Afterwards every call fails at once, with the reason. An actor is a strand like any other:
//! [`run`](crate::run()) waits for its end, so drop the handles or stop it. One that has a handle
//! to itself, in its state or by way of another actor, has to be stopped.

mod error;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

pub use self::error::CallError;
use crate::{
    channel::{self, Receiver, Sender, TrySendError},
    core::strand::FiberId,
    fiber,
    sync::oneshot::{self, RecvError},
};

/// How many closures fit into the mailbox that [`Actor::spawn`] makes.
const MAILBOX: usize = 64;

enum Letter<S> {
    Run(Box<dyn FnOnce(&mut S) + Send>),
    Stop(oneshot::Sender<S>),
}

/// A handle to a strand that owns an `S`; clones are handles to the same one.
///
/// # Examples
/// ```
/// use ramie::actor::Actor;
/// ramie::run(|| {
///     let log = Actor::spawn(Vec::new());
///     log.cast(|lines| lines.push("one")).unwrap();
///     let count = log.call(|lines| {
///         lines.push("two");
///         lines.len()
///     });
///     assert_eq!(count, Ok(2));
///     assert_eq!(log.stop(), Ok(vec!["one", "two"]));
/// });
/// ```
/// Values that go to the actor's strand are `Send`:
/// ```compile_fail,E0277
/// ramie::actor::Actor::spawn(std::rc::Rc::new(1));
/// ```
pub struct Actor<S> {
    mailbox: Sender<Letter<S>>,
    strand: FiberId,
    has_panicked: Arc<AtomicBool>,
}

impl<S: Send + 'static> Actor<S> {
    /// Starts an actor with a mailbox for 64 closures.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Panics
    /// As [`fiber::spawn`].
    #[must_use = "an actor ends when its last handle is dropped"]
    pub fn spawn(state: S) -> Self {
        Actor::with_mailbox(MAILBOX, state)
    }

    /// Starts an actor with a mailbox for `capacity` closures; with 0 each waits until the actor
    /// takes it.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Panics
    /// As [`fiber::spawn`].
    #[must_use = "an actor ends when its last handle is dropped"]
    pub fn with_mailbox(capacity: usize, state: S) -> Self {
        let (mailbox, letters) = channel::bounded(capacity);
        let has_panicked = Arc::new(AtomicBool::new(false));
        let verdict = Verdict(Arc::clone(&has_panicked));
        let strand = fiber::spawn(move || work(state, letters, verdict));
        Actor { mailbox, strand: strand.fiber().id(), has_panicked }
    }

    /// Has the actor run `f` on its state, and does not wait for that.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while the mailbox is full.
    ///
    /// # Cancellation
    /// A cancel point. Where it fails `f` is dropped.
    ///
    /// # Errors
    /// The actor has ended, or the strand that calls is cancelled. If `f` panics the *next* calls
    /// fail.
    ///
    /// # Panics
    /// In a closure that this actor runs, when its mailbox is full: nobody else could make room.
    #[track_caller]
    pub fn cast(&self, f: impl FnOnce(&mut S) + Send + 'static) -> Result<(), CallError> {
        self.send(Letter::Run(Box::new(f)))
    }

    /// Has the actor run `f` on its state, and returns the result of `f`.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until the actor has run it.
    ///
    /// # Cancellation
    /// A cancel point. An `f` that is in the mailbox by then runs nevertheless, and its result is
    /// dropped.
    ///
    /// # Errors
    /// The actor has ended before `f` could run, `f` or a closure before it has panicked, or the
    /// strand that calls is cancelled.
    ///
    /// # Panics
    /// In a closure that this actor runs: it would wait for itself.
    #[track_caller]
    pub fn call<R, F>(&self, f: F) -> Result<R, CallError>
    where
        R: Send + 'static,
        F: FnOnce(&mut S) -> R + Send + 'static,
    {
        self.check_is_other();
        let (reply, answer) = oneshot::channel();
        let verdict = Verdict(Arc::clone(&self.has_panicked));
        self.cast(move |state| {
            // On unwinding the verdict is recorded first, then the reply is dropped, so its waiter
            // finds the reason.
            let reply = reply;
            let verdict = verdict;
            let answered = f(state);
            drop(verdict);
            let _ = reply.send(answered);
        })?;
        answer.recv().map_err(|error| self.reason(error))
    }

    /// Ends the actor and returns its state, when all closures sent before have run.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until then.
    ///
    /// # Cancellation
    /// A cancel point. An actor that has the request by then ends nevertheless, and drops its
    /// state.
    ///
    /// # Errors
    /// The actor has ended already, by a panic or because another handle stopped it; or the strand
    /// that calls is cancelled.
    ///
    /// # Panics
    /// In a closure that this actor runs: it would wait for itself.
    #[track_caller]
    pub fn stop(&self) -> Result<S, CallError> {
        self.check_is_other();
        let (reply, state) = oneshot::channel();
        self.send(Letter::Stop(reply))?;
        state.recv().map_err(|error| self.reason(error))
    }

    #[track_caller]
    fn check_is_other(&self) {
        assert!(
            !self.is_own_strand(),
            "an actor cannot wait for itself: use the state it is given"
        );
    }

    fn is_own_strand(&self) -> bool {
        fiber::current().id() == self.strand
    }

    #[track_caller]
    fn send(&self, letter: Letter<S>) -> Result<(), CallError> {
        if self.is_own_strand() {
            return match self.mailbox.try_send(letter) {
                Ok(()) => Ok(()),
                Err(TrySendError::Disconnected(_)) => Err(self.ended()),
                Err(TrySendError::Full(_)) => {
                    panic!("an actor's mailbox is full, and the actor itself wants to send to it")
                }
            };
        }
        self.mailbox.send(letter).map_err(|error| match error.is_cancelled() {
            true => CallError::Cancelled,
            false => self.ended(),
        })
    }

    fn reason(&self, error: RecvError) -> CallError {
        match error {
            RecvError::Cancelled => CallError::Cancelled,
            RecvError::Closed => self.ended(),
        }
    }

    fn ended(&self) -> CallError {
        // Acquire: pairs with the release of the verdict.
        match self.has_panicked.load(Ordering::Acquire) {
            true => CallError::Panicked,
            false => CallError::Stopped,
        }
    }
}

/// Lies where a panic may pass by, and takes it down.
struct Verdict(Arc<AtomicBool>);

impl Drop for Verdict {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

fn work<S>(mut state: S, letters: Receiver<Letter<S>>, verdict: Verdict) {
    // Dropped before the letters are, whose senders ask for it.
    let _verdict = verdict;
    while let Ok(letter) = letters.recv() {
        match letter {
            Letter::Run(f) => f(&mut state),
            Letter::Stop(reply) => {
                // The next call of `stop` returns at once.
                drop(letters);
                let _ = reply.send(state);
                return;
            }
        }
    }
}

impl<S> Clone for Actor<S> {
    fn clone(&self) -> Self {
        Actor {
            mailbox: self.mailbox.clone(),
            strand: self.strand,
            has_panicked: Arc::clone(&self.has_panicked),
        }
    }
}

impl<S> fmt::Debug for Actor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor").field("strand", &self.strand).finish_non_exhaustive()
    }
}
