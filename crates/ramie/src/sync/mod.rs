//! Twins of `std::sync` that park the strand, never the worker, and primitives that std lacks:
//! [`Semaphore`], [`Event`], [`oneshot`], [`broadcast`], [`watch`]. They work between fibers and
//! threads in any combination, across workers and runtimes. Items that cannot block are std's own.

mod barrier;
pub mod broadcast;
mod condvar;
mod event;
mod lazy_lock;
pub mod mpsc;
mod mutex;
mod once;
mod once_lock;
pub mod oneshot;
mod poison;
pub(crate) mod raw_mutex;
pub(crate) mod raw_rwlock;
mod rwlock;
mod semaphore;
pub mod watch;

#[doc(no_inline)]
pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use event::Event;
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
#[allow(deprecated)]
pub use once::{ONCE_INIT, Once, OnceState};
pub use once_lock::OnceLock;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{
    AcquireError, AcquireTimeoutError, OwnedSemaphorePermit, Semaphore, SemaphorePermit,
    TryAcquireError,
};
