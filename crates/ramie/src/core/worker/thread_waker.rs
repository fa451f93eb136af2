//! How to make a worker's thread return from the kernel.
//!
//! A wake is sticky: a thread that enters the kernel after it returns at once.

use super::with_existing;

#[derive(Clone)]
pub(crate) enum ThreadWaker {
    Driver(ramie_driver::Waker),
    /// A thread whose worker has no driver yet sleeps in `std::thread::park`.
    Thread(std::thread::Thread),
}

impl ThreadWaker {
    pub(super) fn wake(&self) {
        match self {
            ThreadWaker::Driver(target) => wake_driver(target),
            ThreadWaker::Thread(thread) => thread.unpark(),
        }
    }
}

/// Makes another worker leave the kernel, through this thread's ring where there is one.
fn wake_driver(target: &ramie_driver::Waker) {
    let through_own =
        with_existing(|worker| worker.io.with_idle_driver(|driver| driver.wake(target)));
    if through_own.flatten().is_none() {
        target.wake();
    }
}
