//! Time as strands see it: twins of `std::time`'s types, read from the clock of the runtime.
//!
//! On the system clock, [`Instant`] is `CLOCK_MONOTONIC` in ns. A runtime built with a
//! [`ManualClock`] has its own time, which moves when the test advances it, or when every strand
//! waits.

mod interval;
mod system_time;

#[doc(no_inline)]
pub use std::time::{Duration, TryFromFloatSecsError};

pub use interval::{Interval, MissedTick, interval, interval_at};
pub use system_time::{SystemTime, SystemTimeError, UNIX_EPOCH};

#[doc(no_inline)]
pub use crate::cancel::{Elapsed, with_deadline, with_timeout};
pub use crate::{
    core::time::{Instant, ManualClock},
    fiber::{sleep, sleep_until},
};
