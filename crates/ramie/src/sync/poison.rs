//! The code that Mutex and RwLock share: poisoning, and the traits of std's locks and guards.

use std::{
    sync::{LockResult, PoisonError},
    thread,
};

use crate::core::primitive::{AtomicBool, Ordering};

/// Whether a strand panicked while it held the lock.
pub(super) struct Poison(AtomicBool);

impl Poison {
    pub(super) const fn new() -> Self {
        Poison(AtomicBool::new(false))
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Poisons the lock if the strand has begun to panic since it took the lock.
    #[inline]
    pub(super) fn note_unlock(&self, was_panicking: bool) {
        if !was_panicking && thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `access`, as an error if the lock is poisoned.
    pub(super) fn check<A>(&self, access: A) -> LockResult<A> {
        if self.is_set() { Err(PoisonError::new(access)) } else { Ok(access) }
    }
}

/// Adds to a lock the methods about poisoning, and std's traits. The lock has the fields `raw` (the
/// lock without the value), `poison` and `value`. `Debug` borrows the value by `$try_lock`, and
/// writes `$locked` if it cannot. `$how` completes the sentence about a strand that panicked "while
/// it held the lock".
macro_rules! lock_like_std {
    ($lock:ident, $raw:expr, $try_lock:ident, $locked:expr, $how:literal) => {
        // As std's are, because poisoning shows whether a panic left the value half changed.
        impl<T: ?Sized> std::panic::UnwindSafe for $lock<T> {}
        impl<T: ?Sized> std::panic::RefUnwindSafe for $lock<T> {}

        impl<T> $lock<T> {
            /// Makes an unlocked lock around `value`.
            pub const fn new(value: T) -> Self {
                $lock { raw: $raw, poison: Poison::new(), value: UnsafeCell::new(value) }
            }

            /// Consumes the lock and returns the value.
            ///
            /// # Errors
            /// The lock is poisoned; the error contains the value.
            pub fn into_inner(self) -> LockResult<T> {
                self.poison.check(self.value.into_inner())
            }
        }

        impl<T: ?Sized> $lock<T> {
            #[doc = concat!("Returns whether a strand panicked while it held the lock", $how, ".")]
            pub fn is_poisoned(&self) -> bool {
                self.poison.is_set()
            }

            /// Marks the lock as no longer poisoned.
            pub fn clear_poison(&self) {
                self.poison.clear();
            }

            /// Borrows the value mutably, without locking, because `&mut self` excludes other
            /// references.
            ///
            /// # Errors
            /// The lock is poisoned; the error contains the reference.
            pub fn get_mut(&mut self) -> LockResult<&mut T> {
                self.poison.check(self.value.get_mut())
            }
        }

        impl<T: Default> Default for $lock<T> {
            fn default() -> Self {
                $lock::new(T::default())
            }
        }

        impl<T> From<T> for $lock<T> {
            fn from(value: T) -> Self {
                $lock::new(value)
            }
        }

        impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for $lock<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut debug = f.debug_struct(stringify!($lock));
                match self.$try_lock() {
                    Ok(guard) => debug.field("data", &&*guard),
                    Err(TryLockError::Poisoned(error)) => debug.field("data", &&**error.get_ref()),
                    Err(TryLockError::WouldBlock) => debug.field("data", &$locked),
                };
                debug.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
            }
        }
    };
}

/// Makes guards write themselves as their values.
macro_rules! guards_like_std {
    ($($guard:ident)+) => {$(
        impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + std::fmt::Display> std::fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }
    )+};
}

pub(super) use {guards_like_std, lock_like_std};
