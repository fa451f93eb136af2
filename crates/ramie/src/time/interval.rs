//! Ticks at a steady pace.

use super::{Duration, Instant, sleep_until};
use crate::core::cancel::{Cancelled, check_cancelled};

/// The rule of an [`Interval`] for ticks that it missed because the strand waited for them too
/// late.
///
/// With a period of 10, and a strand that took the tick at 10 and waits again at 35:
///
/// | | ticks at | scheduled for |
/// |---|---|---|
/// | `Burst` | 35, 35, 40, 50 | 20, 30, 40, 50 |
/// | `Delay` | 35, 45, 55 | 20, 45, 55 |
/// | `Skip` | 35, 40, 50 | 20, 40, 50 |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissedTick {
    /// Returns missed ticks at once, one after another, and keeps the schedule. The default.
    #[default]
    Burst,
    /// Starts the schedule anew: the next tick comes a period after the late one.
    Delay,
    /// Omits missed ticks: the next tick comes at the next time of the schedule.
    Skip,
}

/// Ticks at a steady pace; made by [`interval`].
///
/// It is also an [`Iterator`] over the ticks, which ends only if the strand is cancelled.
///
/// # Examples
/// ```
/// use ramie::time::{Duration, interval};
///
/// ramie::run(|| {
///     let period = Duration::from_millis(1);
///     let ticks: Vec<_> = interval(period).take(3).collect();
///     assert_eq!(ticks[2] - ticks[0], 2 * period);
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
    missed_tick: MissedTick,
}

/// Makes ticks at once and then each `period`.
///
/// # Panics
/// When the period is zero.
#[must_use]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Makes ticks at `start` and then each `period`.
///
/// # Panics
/// When the period is zero.
#[must_use]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period above zero; yield_now lets others run");
    Interval { next: start, period, missed_tick: MissedTick::default() }
}

impl Interval {
    /// Waits for the next tick and returns the time that it was scheduled for; returns at once if
    /// that time has passed.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// A cancel point. After a cancelled call, the same tick is still the next.
    ///
    /// # Errors
    /// Cancelled.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn tick(&mut self) -> Result<Instant, Cancelled> {
        check_cancelled()?;
        sleep_until(self.next);
        if self.next > Instant::now() {
            check_cancelled()?;
        }
        let scheduled = self.next;
        let now = Instant::now();
        self.next = self.after(scheduled, now);
        Ok(scheduled)
    }

    fn after(&self, scheduled: Instant, now: Instant) -> Instant {
        let late = now.saturating_duration_since(scheduled);
        if late < self.period || self.missed_tick == MissedTick::Burst {
            return saturating_add(scheduled, self.period);
        }
        if self.missed_tick == MissedTick::Delay {
            return saturating_add(now, self.period);
        }
        let into_period = Duration::from_nanos((late.as_nanos() % self.period.as_nanos()) as u64);
        saturating_add(now, self.period - into_period)
    }

    /// Starts the schedule anew: the next tick comes a period from now.
    pub fn reset(&mut self) {
        self.reset_at(saturating_add(Instant::now(), self.period));
    }

    /// Starts the schedule anew: the next tick comes at `instant`.
    pub fn reset_at(&mut self, instant: Instant) {
        self.next = instant;
    }

    /// Returns the time between two ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns the rule for missed ticks.
    #[must_use]
    pub fn missed_tick(&self) -> MissedTick {
        self.missed_tick
    }

    /// Chooses the rule for missed ticks.
    pub fn set_missed_tick(&mut self, missed_tick: MissedTick) {
        self.missed_tick = missed_tick;
    }
}

/// An instant that is out of range never comes.
fn saturating_add(instant: Instant, duration: Duration) -> Instant {
    instant.checked_add(duration).unwrap_or(Instant::from_ns(u64::MAX))
}

impl Iterator for Interval {
    type Item = Instant;

    #[track_caller]
    fn next(&mut self) -> Option<Instant> {
        self.tick().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}
