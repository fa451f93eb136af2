//! In place of the code that calls wakers: no model has one.

pub(crate) fn wake(waker: std::task::Waker) {
    waker.wake();
}
