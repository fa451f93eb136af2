//! Of fibers, what a call that ignores its cancellation does; no model has such a call.

use std::time::Duration;

pub(crate) fn yield_now() {
    loom::thread::yield_now();
}

pub(crate) fn sleep(_: Duration) {
    loom::thread::yield_now();
}
