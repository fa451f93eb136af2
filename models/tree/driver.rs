//! Of the driver, the clock: it stands still, so no grace period ends.

pub(crate) mod sys {
    pub(crate) fn monotonic_ns() -> u64 {
        0
    }
}
