//! Of fibers, what a call that ignores its cancellation does; no model has such a call.

pub(crate) fn yield_now() {
    loom::thread::yield_now();
}
