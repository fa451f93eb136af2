//! The twin of `std::sync::Mutex`.
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::{LockResult, TryLockError, TryLockResult},
    thread,
    time::Duration,
};

use super::{
    poison::{Poison, guards_like_std, lock_like_std},
    raw_mutex::{NotLocked, RawMutex},
};
use crate::core::{
    cancel::{self, Cancelled},
    time::Deadline,
};

/// A lock around a value; twin of [`std::sync::Mutex`], poisoning included.
///
/// It may be held across any blocking call, because a strand that waits for it parks, and the other
/// fibers of its worker continue.
///
/// # Examples
/// ```
/// use ramie::{fiber, sync::Mutex};
///
/// let total = Mutex::new(0);
/// ramie::run(|| {
///     fiber::scope(|s| {
///         for _ in 0..10 {
///             s.spawn(|| {
///                 let mut total = total.lock().unwrap();
///                 let seen = *total;
///                 fiber::yield_now();
///                 *total = seen + 1;
///             });
///         }
///     });
/// });
/// assert_eq!(total.into_inner().unwrap(), 10);
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: the lock moves with the value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: the value is reached through a guard only, by one strand at a time.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// A guard that gives access to the value; unlocks the Mutex when dropped.
///
/// It is not `Send`, as std's is not:
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// send(ramie::sync::Mutex::new(1).lock().unwrap());
/// ```
#[must_use = "the lock is held only as long as the guard lives"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) mutex: &'a Mutex<T>,
    was_panicking: bool,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives `&T`.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while another strand holds the lock.
    ///
    /// # Cancellation
    /// Not a cancel point; [`lock_or_cancelled`](Self::lock_or_cancelled) is.
    ///
    /// # Errors
    /// A strand panicked while it held the lock, or a coroutine that held it was dropped; the error
    /// contains the guard.
    ///
    /// # Panics
    /// When the calling strand holds the lock already, because it would wait for itself forever.
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    ///
    /// On a fiber in a destructor that runs during a panic, the process ends with a message if
    /// another strand holds the lock, because no other fiber could run to release it.
    #[track_caller]
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        // Cannot fail: it has no deadline and is no cancel point.
        let _ = self.raw.lock(Deadline::NEVER, false);
        self.guard()
    }

    /// Waits for the lock, unless the strand is cancelled; not in std.
    ///
    /// # Blocking
    /// As [`Mutex::lock`].
    ///
    /// # Cancellation
    /// A cancel point, even if the lock is free.
    ///
    /// # Errors
    /// The outer error: the strand was cancelled, or is a fiber that runs a destructor during a
    /// panic while another strand holds the lock. The inner error: as for [`Mutex::lock`].
    ///
    /// # Panics
    /// When the calling strand holds the lock already. Inside [`no_switch`](crate::no_switch()), if
    /// the call would have to wait.
    ///
    /// # Examples
    /// ```
    /// use ramie::{cancel::{self, Cancelled}, sync::Mutex};
    ///
    /// fn add(total: &Mutex<u32>) -> Result<(), Cancelled> {
    ///     *total.lock_or_cancelled()?.unwrap() += 1;
    ///     Ok(())
    /// }
    ///
    /// let total = Mutex::new(0);
    /// assert!(add(&total).is_ok());
    /// cancel::scope(|scope| {
    ///     scope.cancel();
    ///     assert!(add(&total).is_err());
    /// });
    /// ```
    #[track_caller]
    pub fn lock_or_cancelled(&self) -> Result<LockResult<MutexGuard<'_, T>>, Cancelled> {
        cancel::check_cancelled()?;
        match self.raw.lock(Deadline::NEVER, true) {
            Ok(()) => Ok(self.guard()),
            Err(NotLocked) => Err(cancel::cancelled()),
        }
    }

    /// Waits for the lock, for at most `timeout`; not in std.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while another strand holds the lock.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// `WouldBlock`: another strand held the lock all the time. `Poisoned`: the lock is taken, and
    /// the error contains the guard.
    ///
    /// # Panics
    /// As [`Mutex::lock`].
    #[track_caller]
    pub fn lock_timeout(&self, timeout: Duration) -> TryLockResult<MutexGuard<'_, T>> {
        match self.try_lock() {
            Err(TryLockError::WouldBlock) => {}
            taken => return taken,
        }
        match self.raw.lock(Deadline::after(timeout), false) {
            Ok(()) => Ok(self.guard()?),
            Err(NotLocked) => Err(TryLockError::WouldBlock),
        }
    }

    /// Takes the lock if it is free.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// `WouldBlock`: another strand holds the lock. `Poisoned`: the lock is taken, and the error
    /// contains the guard.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.raw.try_lock() { Ok(self.guard()?) } else { Err(TryLockError::WouldBlock) }
    }

    fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        let was_panicking = thread::panicking();
        self.poison.check(MutexGuard { mutex: self, was_panicking, not_send: PhantomData })
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard's strand holds the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's strand holds the lock, and the guard is borrowed mutably.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.poison.note_unlock(self.was_panicking);
        self.mutex.raw.unlock();
    }
}

lock_like_std!(Mutex, RawMutex::new(), try_lock, "<locked>", "");
guards_like_std!(MutexGuard);
