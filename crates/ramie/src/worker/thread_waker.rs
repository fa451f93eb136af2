//! How to make a worker's thread return from the kernel.
//!
//! A wake is sticky: a thread that enters the kernel after it returns at once.

use super::wake_driver;

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
