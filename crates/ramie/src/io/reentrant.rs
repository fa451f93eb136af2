//! A lock that a strand may take again while it holds the lock, as std uses for `Stdout`.
//!
//! The outermost guard of a strand holds the mutex; the inner ones count. Guards stay on their
//! thread, and so does a fiber, so a strand that finds its own id in `owner` may use the data under
//! the mutex: the count and the stored guard.
//!
//! When the process ends, the value must be flushed without the mutex, whose waiters need a worker
//! of their own ([`Reentrant::at_exit`]). For that, the owner's word alone is a lock: a strand that
//! has the mutex claims the word, and waits if the end of the process has claimed it.
#![allow(unsafe_code)]

use std::{
    cell::{Cell, UnsafeCell},
    marker::PhantomData,
    thread,
};

use crate::{
    core::{
        primitive::{AtomicU64, Ordering},
        worker,
    },
    sync::{Mutex, MutexGuard},
};

/// The owner of a lock that no strand holds.
const NOBODY: u64 = 0;
/// The owner while [`Reentrant::at_exit`] uses the value; no strand has this id.
const AT_EXIT: u64 = u64::MAX;

/// A value with a lock that a strand may take again.
pub(super) struct Reentrant<T: 'static> {
    mutex: Mutex<()>,
    owner: AtomicU64,
    depth: Cell<usize>,
    held: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    value: T,
}

// SAFETY: `depth` and `held` are accessed only by the strand that holds `mutex`, or by strands of
// its thread to which it gave a guard; the value by them, or by `at_exit` while there is no owner.
unsafe impl<T: Send> Sync for Reentrant<T> {}
// SAFETY: it is made before it is shared, and then holds no guard.
unsafe impl<T: Send> Send for Reentrant<T> {}

impl<T> Reentrant<T> {
    pub(super) fn new(value: T) -> Self {
        Reentrant {
            mutex: Mutex::new(()),
            owner: AtomicU64::new(NOBODY),
            depth: Cell::new(0),
            held: UnsafeCell::new(None),
            value,
        }
    }

    #[track_caller]
    pub(super) fn lock(&'static self) -> ReentrantGuard<T> {
        let me = own_id();
        if self.owner.load(Ordering::Relaxed) != me {
            let guard = self.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            self.claim(me, guard);
        }
        self.enter()
    }

    /// Takes the lock if no other strand holds it.
    pub(super) fn try_lock(&'static self) -> Option<ReentrantGuard<T>> {
        let me = own_id();
        if self.owner.load(Ordering::Relaxed) != me {
            let guard = match self.mutex.try_lock() {
                Ok(guard) => guard,
                Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(std::sync::TryLockError::WouldBlock) => return None,
            };
            self.claim(me, guard);
        }
        Some(self.enter())
    }

    fn claim(&self, me: u64, guard: MutexGuard<'static, ()>) {
        // Acquire: pairs with the release in `at_exit`.
        let claim = || {
            let claimed =
                self.owner.compare_exchange(NOBODY, me, Ordering::Acquire, Ordering::Relaxed);
            claimed.is_ok()
        };
        while !claim() {
            // `at_exit` uses the value for a moment, and then gives it back.
            thread::yield_now();
        }
        // SAFETY: this strand holds the mutex, without which `held` is not used.
        unsafe { *self.held.get() = Some(guard) };
    }

    fn enter(&'static self) -> ReentrantGuard<T> {
        self.depth.set(self.depth.get() + 1);
        ReentrantGuard { lock: self, not_send: PhantomData }
    }

    /// Uses the value for the last time, on the thread that ends the process, unless a strand is
    /// using it.
    pub(super) fn at_exit(&self, f: impl FnOnce(&T)) {
        let claim = self.owner.compare_exchange(
            NOBODY,
            AT_EXIT,
            // Acquire and release: pair with those of `claim` and of the last guard's drop.
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if claim.is_ok() {
            f(&self.value);
            self.owner.store(NOBODY, Ordering::Release);
        }
    }
}

fn own_id() -> u64 {
    worker::current().current_header().id_bits()
}

pub(super) struct ReentrantGuard<T: 'static> {
    lock: &'static Reentrant<T>,
    not_send: PhantomData<*const ()>,
}

impl<T> std::ops::Deref for ReentrantGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.lock.value
    }
}

impl<T> Drop for ReentrantGuard<T> {
    fn drop(&mut self) {
        let lock = self.lock;
        lock.depth.set(lock.depth.get() - 1);
        if lock.depth.get() == 0 {
            // SAFETY: a guard is alive, so its thread holds the mutex, and no other uses `held`.
            let held = unsafe { (*lock.held.get()).take() };
            // Release: pairs with the acquire of `at_exit`.
            lock.owner.store(NOBODY, Ordering::Release);
            drop(held);
        }
    }
}
