//! `Instant` as a type of this crate, so that it can show a runtime's own clock; deadlines.

use std::{
    ops::{Add, AddAssign, Sub, SubAssign},
    sync::OnceLock,
    time::Duration,
};

/// A point on the monotonic clock of the runtime; twin of [`std::time::Instant`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instant {
    ns: u64,
}

impl Instant {
    /// Reads the clock of the current runtime, or the system's outside one.
    ///
    /// # Examples
    /// ```
    /// let start = ramie::time::Instant::now();
    /// assert!(start.elapsed() < std::time::Duration::from_secs(60));
    /// ```
    #[must_use]
    pub fn now() -> Self {
        Instant { ns: crate::core::worker::now_ns() }
    }

    pub(crate) fn from_ns(ns: u64) -> Self {
        Instant { ns }
    }

    /// Returns the time that passed since `earlier`, zero if `earlier` is later.
    #[must_use]
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// Returns the time that passed since `earlier`, `None` if `earlier` is later.
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.ns.checked_sub(earlier.ns).map(Duration::from_nanos)
    }

    /// Returns the time that passed since `earlier`, zero if `earlier` is later.
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.checked_duration_since(earlier).unwrap_or_default()
    }

    /// Returns the time that passed since this instant.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(*self)
    }

    /// Adds a duration; `None` if the result is out of range (584 years).
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        self.ns.checked_add(ns).map(|ns| Instant { ns })
    }

    /// Subtracts a duration, `None` before the clock's origin.
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        self.ns.checked_sub(ns).map(|ns| Instant { ns })
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        self.checked_add(duration).expect("overflow when adding duration to instant")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        self.checked_sub(duration).expect("overflow when subtracting duration from instant")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

/// One instant on both clocks, read once, so that conversions are exact both ways. The two reads
/// are some tens of ns apart, and so are converted instants.
fn anchor() -> &'static (std::time::Instant, u64) {
    static ANCHOR: OnceLock<(std::time::Instant, u64)> = OnceLock::new();
    ANCHOR.get_or_init(|| (std::time::Instant::now(), ramie_driver::sys::monotonic_ns()))
}

impl From<std::time::Instant> for Instant {
    fn from(instant: std::time::Instant) -> Self {
        let (std_anchor, ns) = *anchor();
        let ns = match instant.checked_duration_since(std_anchor) {
            Some(after) => ns.saturating_add(after.as_nanos() as u64),
            None => ns.saturating_sub(std_anchor.duration_since(instant).as_nanos() as u64),
        };
        Instant { ns }
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> Self {
        let (std_anchor, ns) = *anchor();
        match instant.ns.checked_sub(ns) {
            Some(after) => std_anchor + Duration::from_nanos(after),
            None => std_anchor - Duration::from_nanos(ns - instant.ns),
        }
    }
}

/// The instant at which a wait ends at the latest, in ns on the clock of the waiter's worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Deadline(u64);

impl Deadline {
    pub(crate) const NEVER: Deadline = Deadline(u64::MAX);

    pub(crate) fn at(instant: Instant) -> Self {
        Deadline(instant.ns)
    }

    /// The instant `timeout` from now; a timeout beyond the clock's range never expires.
    pub(crate) fn after(timeout: Duration) -> Self {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Deadline(crate::core::worker::now_ns().saturating_add(timeout))
    }

    pub(crate) fn as_ns(self) -> u64 {
        self.0
    }

    pub(crate) fn has_passed(self) -> bool {
        self != Deadline::NEVER && self.0 <= crate::core::worker::now_ns()
    }
}
