//! How an iterator whose steps are cancel points ends.
//!
//! A `for` loop that handles each error by trying the next step would run for ever in a cancelled
//! scope, where every step fails at once. So the first step that is cancelled yields its error, and
//! if the strand is still cancelled at the next step, the iteration is over, for good.
//!
//! A step whose own limit has passed (`with_timeout(.., || iterator.next())`) does not end the
//! iteration, because that limit is gone at the next step. The next step may have another limit
//! that has passed already, so the limit of the last cancelled step is kept and compared.

use std::io;

use super::{ambient, is_cancelled, is_cancelled_here};
use crate::time::Deadline;

/// What one iterator has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Steps {
    #[default]
    Going,
    /// The last step was cancelled, under this limit.
    Cancelled(Deadline),
    Over,
}

impl Steps {
    /// Whether there is a next step.
    #[inline(always)]
    pub(crate) fn go_on(&mut self) -> bool {
        *self == Steps::Going || self.go_on_after_cancellation()
    }

    /// The same for an iterator that owns its source, which nothing else could go on with: outside
    /// the cancelled scope there are more steps.
    pub(crate) fn go_on_or_pause(&mut self) -> bool {
        let before = *self;
        let goes_on = self.go_on();
        if !goes_on {
            *self = before;
        }
        goes_on
    }

    #[cold]
    #[inline(never)]
    fn go_on_after_cancellation(&mut self) -> bool {
        let Steps::Cancelled(limit) = *self else { return false };
        // Another limit belongs to this step alone, though it may have passed already.
        let now = ambient();
        let goes_on = !is_cancelled_here() || (!now.is_cancelled && now.deadline != limit);
        *self = if goes_on { Steps::Going } else { Steps::Over };
        goes_on
    }

    /// Takes note of a step that failed.
    #[cold]
    pub(crate) fn note(&mut self, error: &io::Error) {
        if is_cancelled(error) {
            *self = Steps::Cancelled(ambient().deadline);
        }
    }

    /// Ends the iteration.
    #[cold]
    pub(crate) fn end(&mut self) {
        *self = Steps::Over;
    }

    /// Takes note of what a step came to, and hands it on.
    pub(crate) fn noted<T>(&mut self, step: io::Result<T>) -> io::Result<T> {
        step.inspect_err(|error| self.note(error))
    }
}
