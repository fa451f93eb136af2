//! Stand-in for the entrance of a runtime, which is protected by a lock of std: only whether it is
//! closed for the first time.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(crate) struct Entrance {
    is_closed: AtomicBool,
}

impl Entrance {
    pub(crate) fn close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::Relaxed)
    }
}
