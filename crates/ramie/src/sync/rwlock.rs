//! A lock for many readers or one writer.
//!
//! # Protocol: one word
//! Bit 0: a writer holds the lock. Bit 1: strands wait in the lot. The rest: how many readers hold
//! it. While bit 1 is set nobody takes the lock but by being granted it, under the lot's lock; only
//! there is the bit set or cleared. Releases need no lock: they take from the word, and the one
//! that leaves the lock free with strands waiting grants.
//!
//! *The race to fear*: a strand decides to wait and the last holder leaves. The strand sets bit 1
//! in the same step in which it sees the lock held; so the holder, which leaves later, sees the
//! bit. And a writer that is cancelled may have held back readers: it grants, too.
//!
//! # Fairness
//! First come, first served: a strand that comes while others wait goes to the end of the queue,
//! readers too. So neither side starves the other. Adjacent readers are let in together.
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    mem,
    ops::{Deref, DerefMut},
    panic::{RefUnwindSafe, UnwindSafe},
    ptr::NonNull,
    sync::{LockResult, PoisonError, TryLockError, TryLockResult},
    thread,
};

use crate::core::{
    cancel::{self, Cancelled},
    primitive::{AtomicBool, AtomicU64, Ordering},
    wait::{
        park::{Refused, WaitKind, WaitRecord, abort_wait_while_unwinding},
        parking_lot::{LEFT, Parked, ParkingLot, Token},
    },
};

static READ: WaitKind = WaitKind::new("a RwLock, to read");
static WRITE: WaitKind = WaitKind::new("a RwLock, to write");

const FREE: u64 = 0;
const WRITER: u64 = 1;
const WAITERS: u64 = 2;
/// One reader. A strand's request and its token are the value that it adds to the word.
const READER: u64 = 4;

/// A lock around a value for many readers or one writer; twin of [`std::sync::RwLock`], poisoning
/// included.
///
/// Requests are granted in order, so neither readers nor writers starve. A reader that locks it
/// again while a writer waits therefore waits for itself for ever; std's may do the same.
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
    is_poisoned: AtomicBool,
    value: UnsafeCell<T>,
}

/// The lock without the value, so that a guard to read is covariant in the value's type.
struct RawRwLock {
    word: AtomicU64,
    lot: ParkingLot,
}

// SAFETY: the lock moves with the value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: shared guards give `&T` to many strands, exclusive ones `&mut T` to one.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

// As for std's: poisoning shows whether a panic left the value half changed.
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}
impl RefUnwindSafe for RawRwLock {}

/// A guard through which the value is read; releases the lock when dropped.
#[must_use = "the lock is held only as long as the guard lives"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RawRwLock,
    value: NonNull<T>,
}

/// A guard through which the value is changed; releases the lock when dropped.
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

impl<T> RwLock<T> {
    /// Makes a free lock around `value`.
    pub const fn new(value: T) -> Self {
        RwLock {
            raw: RawRwLock { word: AtomicU64::new(FREE), lot: ParkingLot::new() },
            is_poisoned: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Consumes the lock and returns the value.
    ///
    /// # Errors
    /// The lock is poisoned; the error contains the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        let value = self.value.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Takes the lock to read, and waits until that is possible.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while a writer holds the lock or others wait.
    ///
    /// # Cancellation
    /// Not a cancel point; [`read_or_cancelled`](Self::read_or_cancelled) is.
    ///
    /// # Errors
    /// A strand panicked while it held the lock to write; the error contains the guard.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait. In a destructor
    /// that runs during a panic on a fiber, having to wait ends the process with a message.
    #[track_caller]
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        if !self.raw.try_add(READER) {
            self.raw.wait_for(READER, false);
        }
        self.read_guard()
    }

    /// Takes the lock to read, as [`RwLock::read`], unless the strand is cancelled; not in std.
    ///
    /// # Blocking
    /// As [`RwLock::read`].
    ///
    /// # Cancellation
    /// A cancel point, even if it could read at once.
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

    /// Takes the lock to read if that needs no waiting.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// `WouldBlock`: a writer holds it, or strands wait. `Poisoned`: taken; the error contains the
    /// guard.
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if self.raw.try_add(READER) {
            Ok(self.read_guard()?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Takes the lock to write, and waits until that is possible.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while others hold the lock.
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

    /// Takes the lock to write, as [`RwLock::write`], unless the strand is cancelled; not in std.
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

    /// Takes the lock to write if it is free.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// `WouldBlock`: a strand holds the lock. `Poisoned`: taken, and the error contains the guard.
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if self.raw.try_add(WRITER) {
            Ok(self.write_guard()?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    fn value(&self) -> NonNull<T> {
        // SAFETY: a cell's value has an address.
        unsafe { NonNull::new_unchecked(self.value.get()) }
    }

    fn read_guard(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let guard = RwLockReadGuard { lock: &self.raw, value: self.value() };
        if self.is_poisoned() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    fn write_guard(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let was_panicking = thread::panicking();
        let guard = RwLockWriteGuard { lock: self, was_panicking, not_send: PhantomData };
        if self.is_poisoned() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    /// Returns whether a strand panicked while it held the lock to write.
    pub fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Relaxed)
    }

    /// Clears the poisoning after a panic.
    pub fn clear_poison(&self) {
        self.is_poisoned.store(false, Ordering::Relaxed);
    }

    /// Returns the value mutably, without locking, because `&mut self` excludes other references.
    ///
    /// # Errors
    /// The lock is poisoned; the error contains the reference.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        let value = self.value.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl RawRwLock {
    #[track_caller]
    fn add_or_cancelled(&self, holder: u64) -> Result<(), Cancelled> {
        cancel::check_cancelled()?;
        if self.try_add(holder) || self.wait_for(holder, true) {
            return Ok(());
        }
        Err(cancel::cancelled())
    }

    /// Adds a holder unless somebody else holds the lock or waits.
    #[inline]
    fn try_add(&self, holder: u64) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WAITERS == 0 && may_join(word, holder) {
            // Acquire: pairs with the releases in `release` and `downgrade`.
            match self.word.compare_exchange_weak(
                word,
                word + holder,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Waits until it is a holder; `false` if it was cancelled, and minds.
    #[cold]
    #[track_caller]
    fn wait_for(&self, holder: u64, is_cancel_point: bool) -> bool {
        let kind = if holder == READER { &READ } else { &WRITE };
        let detail = std::ptr::from_ref(&self.word).addr() as u64;
        loop {
            let record =
                WaitRecord::new(kind).cancellable_if(is_cancel_point).with_detail(detail, holder);
            let must_wait = || self.mark_waiting(holder);
            match self.lot.park(record, holder, must_wait, &|token| self.pass_on(token)) {
                Ok(Parked::Woken(token)) if token == holder => return true,
                Err(Refused::Unwinding) if !is_cancel_point => {
                    abort_wait_while_unwinding("a RwLock that another strand holds")
                }
                Ok(Parked::Cancelled) | Err(Refused::Cancelled | Refused::Unwinding) => {
                    // Those behind it may have waited for its turn only.
                    self.grant();
                    return false;
                }
                Ok(_) if self.try_add(holder) => return true,
                Ok(_) => {}
            }
        }
    }

    /// Sets the bit, unless the lock can be had. Under the lot's lock.
    fn mark_waiting(&self, holder: u64) -> bool {
        use Ordering::Relaxed;
        let mut word = self.word.load(Relaxed);
        loop {
            if word & WAITERS != 0 {
                return true;
            }
            if may_join(word, holder) {
                return false;
            }
            match self.word.compare_exchange_weak(word, word | WAITERS, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
    }

    /// A waiter is given up; with its token it has been granted the lock.
    fn pass_on(&self, token: Token) {
        match token {
            LEFT => self.grant(),
            holder => self.release(holder),
        }
    }

    #[inline]
    fn release(&self, holder: u64) {
        // Release: the writes of a writer and the reads of a reader come before the next holder.
        let word = self.word.fetch_sub(holder, Ordering::Release) - holder;
        if word == WAITERS {
            self.grant();
        }
    }

    /// Lets in whoever is first in the queue, as far as they go together.
    #[cold]
    fn grant(&self) {
        self.lot.unpark_while(
            |holder| may_join(self.word.load(Ordering::Relaxed), holder),
            |holder| {
                // Acquire: in place of the granted strand's, which follows by its wake-up.
                self.word.fetch_add(holder, Ordering::Acquire);
                holder
            },
            || {
                self.word.fetch_and(!WAITERS, Ordering::Relaxed);
            },
        );
    }
}

/// Whether `holder` can share the lock with those that hold it.
fn may_join(word: u64, holder: u64) -> bool {
    match holder {
        READER => word & WRITER == 0,
        _ => word & !WAITERS == FREE,
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Converts the guard into one to read, with no writer in between.
    ///
    /// # Blocking
    /// Never.
    pub fn downgrade(s: Self) -> RwLockReadGuard<'a, T> {
        let lock = s.lock;
        mem::forget(s);
        // Release: the writes are visible to the readers that are let in.
        let raw = &lock.raw;
        let word = raw.word.fetch_add(READER - WRITER, Ordering::Release);
        if word & WAITERS != 0 {
            raw.grant();
        }
        RwLockReadGuard { lock: raw, value: lock.value() }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value of the lock that is borrowed for the guard's life, held to read.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard's strand holds the lock to write.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's strand holds the lock to write, and the guard is borrowed mutably.
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
        if !self.was_panicking && thread::panicking() {
            self.lock.is_poisoned.store(true, Ordering::Relaxed);
        }
        self.lock.raw.release(WRITER);
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => debug.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => debug.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => debug.field("data", &format_args!("<locked>")),
        };
        debug.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
