//! The reason why an actor did not fulfil a request.

use std::fmt;

use crate::core::cancel::errors_with_cancelled;

/// The reason why an actor did not fulfil a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallError {
    /// The actor was stopped.
    Stopped,
    /// A closure that the actor ran has panicked, which ended the actor. The message of the panic
    /// names the strand.
    Panicked,
    /// The calling strand is cancelled.
    Cancelled,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CallError::Stopped => "the actor was stopped",
            CallError::Panicked => "the actor ended, because a closure that it ran panicked",
            CallError::Cancelled => "the call of the actor was cancelled",
        })
    }
}

errors_with_cancelled!(CallError);
