//! The items of `std::time`, in use.

use super::std;
use std::{
    error::Error,
    fmt::{Debug, Display},
    hash::Hash,
    ops::{Add, AddAssign, Sub, SubAssign},
    panic::{RefUnwindSafe, UnwindSafe},
    time::{Duration, Instant, SystemTime, SystemTimeError, UNIX_EPOCH},
};

types! { Instant, SystemTime, SystemTimeError }

methods! {
    Instant {
        fn now() -> Instant;
        fn duration_since(this: &Instant, earlier: Instant) -> Duration;
        fn checked_duration_since(this: &Instant, earlier: Instant) -> Option<Duration>;
        fn saturating_duration_since(this: &Instant, earlier: Instant) -> Duration;
        fn elapsed(this: &Instant) -> Duration;
        fn checked_add(this: &Instant, duration: Duration) -> Option<Instant>;
        fn checked_sub(this: &Instant, duration: Duration) -> Option<Instant>;
    }
    SystemTime {
        fn now() -> SystemTime;
        fn duration_since(
            this: &SystemTime, earlier: SystemTime
        ) -> Result<Duration, SystemTimeError>;
        fn elapsed(this: &SystemTime) -> Result<Duration, SystemTimeError>;
        fn checked_add(this: &SystemTime, duration: Duration) -> Option<SystemTime>;
        fn checked_sub(this: &SystemTime, duration: Duration) -> Option<SystemTime>;
    }
    SystemTimeError {
        fn duration(this: &SystemTimeError) -> Duration;
    }
}

impls! {
    [] Instant: [Add<Duration>] [AddAssign<Duration>] [Clone] [Debug] [Hash] [Ord]
        [PartialEq<Instant>] [PartialOrd<Instant>] [Sub<Duration>] [Sub<Instant>]
        [SubAssign<Duration>] [Copy] [Eq] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] SystemTime: [Add<Duration>] [AddAssign<Duration>] [Clone] [Debug] [Hash] [Ord]
        [PartialEq<SystemTime>] [PartialOrd<SystemTime>] [Sub<Duration>] [SubAssign<Duration>]
        [Copy] [Eq] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] SystemTimeError: [Clone] [Debug] [Display] [Error] [RefUnwindSafe] [Send] [Sync] [Unpin]
        [UnwindSafe];
}

constants! {
    UNIX_EPOCH: SystemTime;
    SystemTime::UNIX_EPOCH: SystemTime;
}

left_to_std! {
    std::time {
        types: Duration, TryFromFloatSecsError;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [types(), methods(), impls(), constants()].concat()
}
