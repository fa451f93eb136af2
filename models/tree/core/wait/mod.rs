//! Waits: all shipped, and a stand-in for the code that calls wakers.

pub(crate) mod completion;
pub(crate) mod park;
pub(crate) mod parking_lot;
mod record;
mod waker;
mod word;

pub(crate) use self::waker::wake;
