//! The end of an iterator whose steps are cancel points.
//!
//! A `for` loop that handles each error by trying the next step would run forever in a cancelled
//! scope, because every step fails at once. So the first step that is cancelled yields its error.
//! If the next step is made inside the same cancelled scope, or beyond the same limit, the
//! iteration is over, for good.
//!
//! A step whose own limit has passed (`with_timeout(.., || iterator.next())`) does not end the
//! iteration, because that limit is gone at the next step. The next step may have another limit
//! that has passed already, and even at the same instant: two limits of zero on a clock that stands
//! still. So the outermost frame that cancelled the last step is remembered and compared by its
//! serial number. The outermost one counts because it lasts longest: below a limit that has
//! passed, steps with limits of their own end, too.

use std::{io, num::NonZeroU64};

use super::{frame::outermost_cause, is_cancelled};

/// The state of an iterator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Steps {
    #[default]
    Going,
    /// The last step was cancelled by the frame with this serial number.
    Cancelled(NonZeroU64),
    Over,
}

impl Steps {
    /// Decides whether the next step is made.
    #[inline(always)]
    pub(crate) fn go_on(&mut self) -> bool {
        *self == Steps::Going || self.go_on_after_cancellation()
    }

    /// As [`go_on`](Self::go_on), for an iterator that owns its source. Because nothing else could
    /// continue with the source, the iterator makes more steps outside the cancelled scope.
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
        let Steps::Cancelled(cause) = *self else { return false };
        let goes_on = outermost_cause() != Some(cause);
        *self = if goes_on { Steps::Going } else { Steps::Over };
        goes_on
    }

    /// Records a step that failed.
    #[cold]
    pub(crate) fn note(&mut self, error: &io::Error) {
        // If no frame cancels the strand now, none of them can cancel the next step, too.
        if is_cancelled(error)
            && let Some(cause) = outermost_cause()
        {
            *self = Steps::Cancelled(cause);
        }
    }

    /// Ends the iteration.
    #[cold]
    pub(crate) fn end(&mut self) {
        *self = Steps::Over;
    }

    /// Records the outcome of a step, and returns it.
    pub(crate) fn noted<T>(&mut self, step: io::Result<T>) -> io::Result<T> {
        step.inspect_err(|error| self.note(error))
    }
}
