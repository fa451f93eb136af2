//! Receivers whose values are instants of the clock. They need no sender and no strand, because
//! each waiter sets its own timer.

use std::time::Duration;

use super::{
    error::RecvTimeoutError,
    receiver::{Flavor, Receiver},
};
use crate::core::{
    cancel,
    primitive::{Arc, AtomicU64, Ordering},
    time::{Deadline, Instant},
    wait::park::{self, Refused, WaitKind, WaitRecord},
    worker,
};

static WAIT: WaitKind = WaitKind::new("the time of a channel");

/// The next instant of a timed channel. The strand that advances it receives the previous one.
pub(super) struct Timed {
    /// In ns on the clock; `u64::MAX` means never.
    next_ns: AtomicU64,
    /// In ns; `None` if there is one instant only.
    period_ns: Option<u64>,
}

impl Timed {
    pub(super) fn nothing() -> Self {
        Timed { next_ns: AtomicU64::new(u64::MAX), period_ns: None }
    }

    /// Returns the next instant.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline::at(Instant::from_ns(self.next_ns.load(Ordering::Acquire)))
    }

    /// Takes the next instant if it has been reached.
    pub(super) fn take(&self) -> Option<Instant> {
        let now = worker::now_ns();
        loop {
            let next = self.next_ns.load(Ordering::Acquire);
            if next > now || next == u64::MAX {
                return None;
            }
            // Missed instants are skipped.
            let after = self.period_ns.map_or(u64::MAX, |period| now.saturating_add(period));
            let taken =
                self.next_ns.compare_exchange(next, after, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return Some(Instant::from_ns(next));
            }
        }
    }

    #[track_caller]
    pub(super) fn wait(&self, deadline: Deadline) -> Result<Instant, RecvTimeoutError> {
        loop {
            if cancel::is_cancelled_here() {
                return Err(RecvTimeoutError::Cancelled);
            }
            if let Some(moment) = self.take() {
                return Ok(moment);
            }
            if deadline.has_passed() {
                return Err(RecvTimeoutError::Timeout);
            }
            let record = WaitRecord::new(&WAIT).until(deadline.min(self.deadline())).cancellable();
            if park::park(&record) == Err(Refused::Unwinding) {
                return Err(RecvTimeoutError::Disconnected);
            }
        }
    }
}

fn timed(first_ns: u64, period_ns: Option<u64>) -> Receiver<Instant> {
    let timed = Timed { next_ns: AtomicU64::new(first_ns), period_ns };
    Receiver { flavor: Flavor::Timed(Arc::new(timed), |moment| moment) }
}

/// Makes a receiver that gets one value after `duration`: the instant at which it was due.
///
/// No other value follows, and the receiver is never disconnected.
#[must_use]
pub fn after(duration: Duration) -> Receiver<Instant> {
    timed(Deadline::after(duration).as_ns(), None)
}

/// Makes a receiver that gets one value, `when`, at that instant.
#[must_use]
pub fn at(when: Instant) -> Receiver<Instant> {
    timed(Deadline::at(when).as_ns(), None)
}

/// Makes a receiver that gets a value every `period`: the instant for which the value was due.
///
/// The channel holds at most one value: if a value is received late, the next one is due one period
/// after that.
#[must_use]
pub fn tick(period: Duration) -> Receiver<Instant> {
    let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    timed(Deadline::after(period).as_ns(), Some(period_ns))
}

/// Makes a receiver that gets no value and is never disconnected.
#[must_use]
pub fn never<T>() -> Receiver<T> {
    Receiver { flavor: Flavor::Never }
}
