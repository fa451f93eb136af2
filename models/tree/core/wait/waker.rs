//! In place of what calls wakers: no model has one.

pub(crate) fn wake(waker: std::task::Waker) {
    waker.wake();
}
