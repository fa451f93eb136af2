//! Deadlines on a clock that stands still, for each thread, until the thread's timer fires.
//!
//! A timer fires as soon as its strand has suspended, and a thread may suspend at any time. So the
//! models cover a deadline that expires before, between and after all operations of the others.

use std::time::Duration;

use super::worker;

#[derive(Clone, Copy)]
pub struct Instant(u64);

impl Instant {
    pub(crate) fn from_ns(ns: u64) -> Self {
        Instant(ns)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Deadline(u64);

impl Deadline {
    pub(crate) const NEVER: Deadline = Deadline(u64::MAX);

    pub(crate) fn at(instant: Instant) -> Self {
        Deadline(instant.0)
    }

    pub(crate) fn after(timeout: Duration) -> Self {
        Deadline(worker::now_ns() + timeout.as_nanos() as u64)
    }

    pub(crate) fn has_passed(self) -> bool {
        self != Deadline::NEVER && self.0 <= worker::now_ns()
    }

    pub(crate) fn as_ns(self) -> u64 {
        self.0
    }
}
