//! Waits, all shipped, and in place of what calls wakers, a stand-in.

pub(crate) mod completion;
pub(crate) mod park;
pub(crate) mod parking_lot;
mod waker;

pub(crate) use self::waker::wake;
