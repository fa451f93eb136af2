//! The checked primitives.

pub(crate) mod broadcast;
pub(crate) mod condvar;
pub(crate) mod event;
pub(crate) mod mutex;
pub(crate) mod once;
pub(crate) mod oneshot;
mod poison;
mod raw_mutex;
mod raw_rwlock;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod watch;
