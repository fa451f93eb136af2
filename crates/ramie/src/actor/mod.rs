//! Actors: a strand that owns a state, and a mailbox of closures that it runs on that state, one
//! after another.
//!
//! Only the actor's strand uses the state, so the state needs no lock, and a closure may wait (for
//! I/O, for another actor) while later closures wait in the mailbox. The mailbox is a bounded
//! [`channel`], so a strand that sends closures faster than the actor runs them has to wait.
//!
//! If strands only read and change a value for a few instructions, a [`Mutex`](crate::sync::Mutex)
//! is cheaper, because a call of an actor costs two switches and two allocations, 150 ns.
//!
//! # How an actor ends
//! | cause | closures in the mailbox | the state |
//! |---|---|---|
//! | [`Actor::stop`] | run, if they were sent before | is returned |
//! | the drop of the last handle | run | is dropped, by the actor's strand |
//! | a panic of a closure | are dropped | is dropped, by the actor's strand |
//!
//! After the end every call fails at once, with the reason. An actor is a strand, so
//! [`run`](crate::run()) waits for its end: drop all handles, or stop the actor. An actor whose
//! state contains a handle to itself, directly or through another actor, does not end until it is
//! stopped.

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

/// The capacity of the mailbox of [`Actor::spawn`], in closures.
const MAILBOX: usize = 64;

enum Letter<S> {
    Run(Box<dyn FnOnce(&mut S) + Send>),
    Stop(oneshot::Sender<S>),
}

/// A handle to an actor whose state is an `S`; clones are handles to the same actor.
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
/// Closures move to the actor's strand, so they must be `Send`:
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

    /// Starts an actor with a mailbox for `capacity` closures; with 0, each call waits until the
    /// actor takes its closure.
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

    /// Sends `f` to the actor, which runs it on its state. The call does not wait for that.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while the mailbox is full.
    ///
    /// # Cancellation
    /// A cancel point. If the call is cancelled, `f` is dropped.
    ///
    /// # Errors
    /// The actor has ended, or the calling strand is cancelled. If `f` panics, this call succeeds
    /// and later calls fail.
    ///
    /// # Panics
    /// If the caller is a closure that this actor runs and the mailbox is full, because only the
    /// actor could make room.
    #[track_caller]
    pub fn cast(&self, f: impl FnOnce(&mut S) + Send + 'static) -> Result<(), CallError> {
        self.send(Letter::Run(Box::new(f)))
    }

    /// Sends `f` to the actor, which runs it on its state, and returns the result of `f`.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until the actor has run `f`.
    ///
    /// # Cancellation
    /// A cancel point. If the call is cancelled after `f` was put into the mailbox, `f` runs
    /// nevertheless, and its result is dropped.
    ///
    /// # Errors
    /// The actor has ended before `f` could run, `f` or a closure before it has panicked, or the
    /// calling strand is cancelled.
    ///
    /// # Panics
    /// If the caller is a closure that this actor runs, because the actor would wait for itself.
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
            // When `f` unwinds, the reason is recorded before the reply is dropped, so that the
            // caller, which the drop wakes, finds the reason.
            let reply = reply;
            let verdict = verdict;
            let answered = f(state);
            drop(verdict);
            let _ = reply.send(answered);
        })?;
        answer.recv().map_err(|error| self.reason(error))
    }

    /// Ends the actor after it has run all closures sent before, and returns its state.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until the actor has ended.
    ///
    /// # Cancellation
    /// A cancel point. If the call is cancelled after the actor got the request, the actor ends
    /// nevertheless, and drops its state.
    ///
    /// # Errors
    /// The actor has ended already, by a panic or because another handle stopped it; or the calling
    /// strand is cancelled.
    ///
    /// # Panics
    /// If the caller is a closure that this actor runs, because the actor would wait for itself.
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
            "an actor cannot call itself: use the state that the closure gets"
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
                    panic!("an actor cannot send to its own full mailbox: use a larger mailbox")
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

/// Records a panic when it is dropped while the strand unwinds.
struct Verdict(Arc<AtomicBool>);

impl Drop for Verdict {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

fn work<S>(mut state: S, letters: Receiver<Letter<S>>, verdict: Verdict) {
    // Declared here so that it is dropped before the closures in the mailbox: the drop of a closure
    // wakes its caller, which reads the reason.
    let _verdict = verdict;
    while let Ok(letter) = letters.recv() {
        match letter {
            Letter::Run(f) => f(&mut state),
            Letter::Stop(reply) => {
                // Drops the mailbox first, so that another call of `stop` fails at once.
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
