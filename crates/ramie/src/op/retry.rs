//! The pauses of a call that is tried again, because nothing reports when it could succeed.

use std::time::Duration;

use crate::core::worker;

/// The pauses between the attempts of one call; each is twice as long as the one before, up to a
/// limit.
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// From 50 us to 5 ms, for a call that waits for the kernel or for a peer that is running.
    pub(crate) const fn short() -> Self {
        Pauses { next: Duration::from_micros(50), longest: Duration::from_millis(5) }
    }

    /// From 1 ms to 50 ms, for a call that waits for another process.
    pub(crate) const fn long() -> Self {
        Pauses { next: Duration::from_millis(1), longest: Duration::from_millis(50) }
    }

    pub(crate) fn pause(&mut self) {
        worker::pause(self.next);
        self.next = (self.next * 2).min(self.longest);
    }
}
