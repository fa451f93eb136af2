//! Twins of `std::sync` that park the strand, never the worker. They work between fibers, between
//! threads and between both.

mod mutex;
pub mod oneshot;

pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak};

pub use mutex::{Mutex, MutexGuard};
