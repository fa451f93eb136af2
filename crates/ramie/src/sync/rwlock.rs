//! The twin of `std::sync::RwLock`.
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::{LockResult, TryLockError, TryLockResult},
    thread,
};

use super::{
    poison::{Poison, guards_like_std, lock_like_std},
    raw_rwlock::{READER, RawRwLock, WRITER},
};
use crate::core::cancel::Cancelled;

/// A lock around a value for many readers or one writer; twin of [`std::sync::RwLock`], poisoning
/// included.
///
/// Requests are granted in order, so neither readers nor writers starve. Therefore a strand that
/// holds the lock for reading and takes it again while a writer waits, waits for itself forever, as
/// it may in std.
///
/// # Examples
/// ```
/// let lock = ramie::sync::RwLock::new(5);
/// {
///     let (one, other) = (lock.read().unwrap(), lock.read().unwrap());
///     assert_eq!(*one + *other, 10);
/// }
/// *lock.write().unwrap() += 1;
/// assert_eq!(lock.into_inner().unwrap(), 6);
/// ```
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: the lock moves with the value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: shared guards give `&T` to many strands, exclusive ones `&mut T` to one.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// A guard for reading the value; releases the lock when dropped.
#[must_use = "the lock is held only as long as the guard lives"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RawRwLock,
    value: NonNull<T>,
}

/// A guard for changing the value; releases the lock when dropped.
#[must_use = "the lock is held only as long as the guard lives"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    was_panicking: bool,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives `&T`.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T: ?Sized> RwLock<T> {
    /// Waits for the lock for reading.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while a writer holds the lock or earlier
    /// requests wait.
    ///
    /// # Cancellation
    /// Not a cancel point; [`read_or_cancelled`](Self::read_or_cancelled) is.
    ///
    /// # Errors
    /// A strand panicked while it held the lock for writing, or a coroutine that held it was
    /// dropped; the error contains the guard.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait. If it would have
    /// to wait on a fiber in a destructor that runs during a panic, the process ends with a
    /// message.
    #[track_caller]
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        if !self.raw.try_add(READER) {
            self.raw.wait_for(READER, false);
        }
        self.read_guard()
    }

    /// Waits for the lock for reading, unless the strand is cancelled; not in std.
    ///
    /// # Blocking
    /// As [`RwLock::read`].
    ///
    /// # Cancellation
    /// A cancel point, even if the lock can be taken at once.
    ///
    /// # Errors
    /// The outer error: the strand was cancelled. The inner error: as for [`RwLock::read`].
    ///
    /// # Panics
    /// As [`RwLock::read`].
    #[track_caller]
    pub fn read_or_cancelled(&self) -> Result<LockResult<RwLockReadGuard<'_, T>>, Cancelled> {
        self.raw.add_or_cancelled(READER)?;
        Ok(self.read_guard())
    }

    /// Takes the lock for reading if that is possible without waiting.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// `WouldBlock`: a writer holds the lock, or strands wait for it. `Poisoned`: the lock is
    /// taken, and the error contains the guard.
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if self.raw.try_add(READER) {
            Ok(self.read_guard()?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Waits for the lock for writing.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while other strands hold the lock or earlier
    /// requests wait.
    ///
    /// # Cancellation
    /// Not a cancel point; [`write_or_cancelled`](Self::write_or_cancelled) is.
    ///
    /// # Errors
    /// As [`RwLock::read`].
    ///
    /// # Panics
    /// As [`RwLock::read`].
    #[track_caller]
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        if !self.raw.try_add(WRITER) {
            self.raw.wait_for(WRITER, false);
        }
        self.write_guard()
    }

    /// Waits for the lock for writing, unless the strand is cancelled; not in std.
    ///
    /// # Blocking
    /// As [`RwLock::write`].
    ///
    /// # Cancellation
    /// A cancel point, even if the lock is free.
    ///
    /// # Errors
    /// The outer error: the strand was cancelled. The inner error: as for [`RwLock::read`].
    ///
    /// # Panics
    /// As [`RwLock::read`].
    #[track_caller]
    pub fn write_or_cancelled(&self) -> Result<LockResult<RwLockWriteGuard<'_, T>>, Cancelled> {
        self.raw.add_or_cancelled(WRITER)?;
        Ok(self.write_guard())
    }

    /// Takes the lock for writing if it is free.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// `WouldBlock`: a strand holds the lock. `Poisoned`: the lock is taken, and the error contains
    /// the guard.
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if self.raw.try_add(WRITER) {
            Ok(self.write_guard()?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    fn value(&self) -> NonNull<T> {
        // SAFETY: the address of a cell's value is not null.
        unsafe { NonNull::new_unchecked(self.value.get()) }
    }

    fn read_guard(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.poison.check(RwLockReadGuard { lock: &self.raw, value: self.value() })
    }

    fn write_guard(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let was_panicking = thread::panicking();
        self.poison.check(RwLockWriteGuard { lock: self, was_panicking, not_send: PhantomData })
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Converts the guard into one for reading, without a writer in between.
    ///
    /// # Blocking
    /// Never.
    pub fn downgrade(s: Self) -> RwLockReadGuard<'a, T> {
        let lock = s.lock;
        mem::forget(s);
        lock.raw.downgrade();
        RwLockReadGuard { lock: &lock.raw, value: lock.value() }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard borrows the lock, and its strand holds it for reading.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard's strand holds the lock for writing.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's strand holds the lock for writing, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.release(READER);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.poison.note_unlock(self.was_panicking);
        self.lock.raw.release(WRITER);
    }
}

lock_like_std!(RwLock, RawRwLock::new(), try_read, format_args!("<locked>"), " for writing");
guards_like_std!(RwLockReadGuard RwLockWriteGuard);
