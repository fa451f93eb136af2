//! An answer that a fault gives to an op instead of the kernel's (feature `faults`).

use std::cell::Cell;

use rustix::io::Errno;

/// The errno that the kernel seems to have returned, and how many times: a fault that the driver
/// must hide from its caller.
#[derive(Debug)]
pub(crate) struct InjectedAnswer {
    errno: Cell<i32>,
    times: Cell<u8>,
}

impl InjectedAnswer {
    pub(crate) const fn none() -> Self {
        InjectedAnswer { errno: Cell::new(0), times: Cell::new(0) }
    }

    pub(crate) fn set(&self, errno: i32, times: u8) {
        self.errno.set(errno);
        self.times.set(times);
    }

    /// Whether the answer must be given once more.
    pub(crate) fn is_due(&self) -> bool {
        self.times.get() > 0
    }

    /// Whether the answer is that the descriptor is not ready.
    pub(crate) fn is_again(&self) -> bool {
        self.errno.get() == Errno::AGAIN.raw_os_error()
    }

    /// Takes one answer, `-errno`. A poll that replaces the op never gets the answer that the
    /// descriptor is not ready.
    pub(crate) fn take(&self, is_poll: bool) -> Option<i32> {
        if !self.is_due() || (is_poll && self.is_again()) {
            return None;
        }
        self.times.set(self.times.get() - 1);
        Some(-self.errno.get())
    }
}
