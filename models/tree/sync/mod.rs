//! The primitives that are checked.

pub(crate) mod event;
pub(crate) mod mutex;
pub(crate) mod oneshot;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
