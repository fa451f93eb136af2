//! The payload that replaces the value of a strand, or of a call on another thread, that failed.

use std::{any::Any, panic::resume_unwind};

use crate::core::{
    panic::{catch, drop_quietly, message},
    worker::{UNREPORTED, note_reported, set_reported, was_reported},
};

/// The reason why a strand has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoValue {
    /// Its closure panicked, and the panic hook was called.
    Panicked,
    /// Its closure panicked by [`resume_unwind`], which does not call the hook, or under a hook
    /// that the program set instead of the runtime's.
    PanickedSilently,
    /// The strand was not started, or was abandoned, for the reason in the payload. No hook was
    /// called.
    NotRun,
}

/// The payload with which a strand, or a call, has ended instead of a value.
///
/// If nobody takes the payload, it is dropped, and a panic of its destructor goes no further.
pub(crate) struct Raised {
    why: NoValue,
    /// INVARIANT: there until the value is consumed.
    payload: Option<Box<dyn Any + Send>>,
}

impl Raised {
    pub(crate) fn new(why: NoValue, payload: Box<dyn Any + Send>) -> Self {
        Raised { why, payload: Some(payload) }
    }

    /// The reason.
    pub(crate) fn why(&self) -> NoValue {
        self.why
    }

    /// Takes the payload, to give it to the program.
    #[cold]
    pub(crate) fn into_payload(mut self) -> Box<dyn Any + Send> {
        self.payload.take().expect("it is consumed once")
    }

    /// Continues the panic of another strand on this strand.
    ///
    /// A strand that was not run has not panicked, so no hook has reported anything. Its reason is
    /// raised as a new panic, because otherwise the process could end without a message.
    #[cold]
    #[track_caller]
    pub(crate) fn raise(self) -> ! {
        let why = self.why;
        let payload = self.into_payload();
        match (why, message(&*payload)) {
            (NoValue::NotRun, Some(reason)) => panic!("{reason}"),
            (NoValue::Panicked, _) => note_reported(&*payload),
            _ => {}
        }
        resume_unwind(payload)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        drop_quietly(self.payload.take());
    }
}

/// Runs `f`; if it panics, takes note of whether the panic hook was called meanwhile.
pub(crate) fn catch_raised<T>(f: impl FnOnce() -> T) -> Result<T, Raised> {
    let reported_before = set_reported(UNREPORTED);
    let outcome = catch(f).map_err(|payload| {
        let why =
            if was_reported(&*payload) { NoValue::Panicked } else { NoValue::PanickedSilently };
        Raised::new(why, payload)
    });
    if reported_before != UNREPORTED {
        set_reported(reported_before);
    }
    outcome
}
