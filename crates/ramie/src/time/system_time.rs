//! `SystemTime` as a newtype, so that it can be read from a runtime's own clock.

use std::{
    error, fmt,
    ops::{Add, AddAssign, Sub, SubAssign},
    time::{self, Duration},
};

/// 1970-01-01 00:00:00 UTC; twin of [`std::time::UNIX_EPOCH`].
pub const UNIX_EPOCH: SystemTime = SystemTime::UNIX_EPOCH;

/// Wall-clock time; twin of [`std::time::SystemTime`].
///
/// # Examples
/// ```
/// use ramie::time::{Duration, SystemTime, UNIX_EPOCH};
///
/// let later = SystemTime::now() + Duration::from_secs(1);
/// assert!(later.duration_since(UNIX_EPOCH).is_ok());
/// assert_eq!(SystemTime::from(std::time::SystemTime::from(later)), later);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemTime(time::SystemTime);

impl SystemTime {
    /// 1970-01-01 00:00:00 UTC.
    pub const UNIX_EPOCH: SystemTime = SystemTime(time::SystemTime::UNIX_EPOCH);

    /// Reads the wall clock.
    #[must_use]
    pub fn now() -> Self {
        SystemTime(time::SystemTime::now())
    }

    /// Returns the time that passed since `earlier`.
    ///
    /// # Errors
    /// `earlier` is later than this moment, because the clock was set back or the arguments were
    /// swapped.
    pub fn duration_since(&self, earlier: SystemTime) -> Result<Duration, SystemTimeError> {
        self.0.duration_since(earlier.0).map_err(SystemTimeError)
    }

    /// Returns the time that passed since this moment.
    ///
    /// # Errors
    /// As for [`SystemTime::duration_since`].
    pub fn elapsed(&self) -> Result<Duration, SystemTimeError> {
        SystemTime::now().duration_since(*self)
    }

    /// Adds a duration; `None` if the system cannot represent the result.
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<SystemTime> {
        self.0.checked_add(duration).map(SystemTime)
    }

    /// Subtracts a duration; `None` if the system cannot represent the result.
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<SystemTime> {
        self.0.checked_sub(duration).map(SystemTime)
    }
}

impl Add<Duration> for SystemTime {
    type Output = SystemTime;

    fn add(self, duration: Duration) -> SystemTime {
        SystemTime(self.0 + duration)
    }
}

impl AddAssign<Duration> for SystemTime {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for SystemTime {
    type Output = SystemTime;

    fn sub(self, duration: Duration) -> SystemTime {
        SystemTime(self.0 - duration)
    }
}

impl SubAssign<Duration> for SystemTime {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl fmt::Debug for SystemTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<time::SystemTime> for SystemTime {
    fn from(time: time::SystemTime) -> Self {
        SystemTime(time)
    }
}

impl From<SystemTime> for time::SystemTime {
    fn from(time: SystemTime) -> Self {
        time.0
    }
}

/// The error of [`SystemTime::duration_since`] if `earlier` is later; twin of
/// [`std::time::SystemTimeError`].
#[derive(Clone, Debug)]
pub struct SystemTimeError(time::SystemTimeError);

impl SystemTimeError {
    /// Returns by how much it is later.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.0.duration()
    }
}

impl fmt::Display for SystemTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl error::Error for SystemTimeError {}

impl From<time::SystemTimeError> for SystemTimeError {
    fn from(error: time::SystemTimeError) -> Self {
        SystemTimeError(error)
    }
}

impl From<SystemTimeError> for time::SystemTimeError {
    fn from(error: SystemTimeError) -> Self {
        error.0
    }
}
