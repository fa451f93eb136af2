//! A mutual exclusion lock that parks the strand that waits for it.
//!
//! # Protocol: one word
//! `0`: free. Otherwise the id of the owner; bit 31, unused in ids, is set while strands wait in
//! the lot. (A free lock may have the bit set too: the waiter that was woken has not come yet.)
//!
//! | from | to | by |
//! |---|---|---|
//! | `0` | owner | `lock`, `try_lock` |
//! | `WAITERS` | owner + `WAITERS` | `lock`, `try_lock` that barge in; the waiter that was woken |
//! | owner | owner + `WAITERS` | a strand that is about to park |
//! | owner | `0` | `unlock` |
//! | owner + `WAITERS` | `0`, `WAITERS`, or another owner (+ `WAITERS`) | `unlock`, under the lot's lock |
//!
//! # Fairness
//! The first strand that comes may take a released lock, which keeps a running strand running. But
//! if a waiter was woken [`LOSSES`] times and found the lock taken again, it requests that the next
//! `unlock` hands the lock to it, so no strand loses the race more often. (If the lock were handed
//! over at the first loss, a lock that two workers contend for would be unused while the new owner
//! wakes: 300 to 600 ns for each lock instead of 30.)
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    panic::{RefUnwindSafe, UnwindSafe},
    sync::{LockResult, PoisonError, TryLockError, TryLockResult},
    thread,
    time::Duration,
};

use crate::core::{
    cancel::{self, Cancelled},
    primitive::{AtomicBool, AtomicU64, Ordering},
    spin_lock::SpinWait,
    time::Deadline,
    wait::{
        park::{Refused, WaitKind, WaitRecord, abort_wait_while_unwinding},
        parking_lot::{LEFT, Parked, ParkingLot, Token},
    },
    worker,
};

static LOCK: WaitKind = WaitKind::new("a Mutex");

const FREE: u64 = 0;
const WAITERS: u64 = 1 << 31;

/// The number of times that a woken waiter may lose the race before it requests the lock.
const LOSSES: u32 = 16;
/// The number of times that a strand tries again before it waits for an owner on another worker.
const LOOKS: u32 = 10;

/// A waiter's request: to be given the lock rather than a chance to take it.
const HAND_OVER: u64 = 1;
/// The token with which a waiter was given the lock.
const HANDED_OVER: Token = 1;

/// The timeout passed first, or the strand was cancelled.
struct NotLocked;

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
    word: AtomicU64,
    lot: ParkingLot,
    is_poisoned: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock moves with the value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: the value is reached through a guard only, by one strand at a time.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

// As for std's: poisoning shows whether a panic left the value half changed.
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

/// A guard through which the value is used; unlocks the Mutex when dropped.
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

impl<T> Mutex<T> {
    /// Makes a free lock around `value`.
    pub const fn new(value: T) -> Self {
        Mutex {
            word: AtomicU64::new(FREE),
            lot: ParkingLot::new(),
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
    /// A strand panicked while it held the lock; the error contains the guard.
    ///
    /// # Panics
    /// When the calling strand holds the lock already, because it would wait for itself for ever.
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    ///
    /// On a fiber in a destructor that runs during a panic, the process ends with a message if
    /// another strand holds the lock, because no other fiber could run to release it.
    #[track_caller]
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let me = own_id();
        // Acquire: pairs with the release in `unlock`.
        if self.word.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // It ends with the lock only.
            let _ = self.lock_contended(me, Deadline::NEVER, false);
        }
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
        let me = own_id();
        // Acquire: pairs with the release in `unlock`.
        if self.word.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_err()
            && self.lock_contended(me, Deadline::NEVER, true).is_err()
        {
            return Err(cancel::cancelled());
        }
        Ok(self.guard())
    }

    /// Waits for the lock, for `timeout` at most; not in std.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
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
        match self.lock_contended(own_id(), Deadline::after(timeout), false) {
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
        let word = self.word.load(Ordering::Relaxed);
        let is_free = word & !WAITERS == FREE;
        let new = own_id() | word & WAITERS;
        let taken = is_free
            && self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken { Ok(self.guard()?) } else { Err(TryLockError::WouldBlock) }
    }

    #[cold]
    #[track_caller]
    fn lock_contended(
        &self,
        me: u64,
        deadline: Deadline,
        is_cancel_point: bool,
    ) -> Result<(), NotLocked> {
        let mut losses = 0;
        let (mut looks, mut back_off) = (looks_worth(), SpinWait::new());
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & !WAITERS == FREE {
                let new = me | word & WAITERS;
                if self.try_change(word, new) {
                    return Ok(());
                }
                continue;
            }
            assert!(
                word & !WAITERS != me,
                "this strand holds the Mutex already and would wait for itself for ever; drop the \
                 first guard before locking again"
            );
            if word & WAITERS == 0 && looks > 0 {
                looks -= 1;
                back_off.pause();
                continue;
            }
            if word & WAITERS == 0 && !self.try_change(word, word | WAITERS) {
                continue;
            }
            let record = WaitRecord::new(&LOCK)
                .until(deadline)
                .cancellable_if(is_cancel_point)
                .with_detail(std::ptr::from_ref(&self.word).addr() as u64, word);
            let still_held = || {
                let word = self.word.load(Ordering::Relaxed);
                word & WAITERS != 0 && word != WAITERS
            };
            let request = if losses < LOSSES { 0 } else { HAND_OVER };
            match self.lot.park(record, request, still_held, &|token| self.pass_on(token)) {
                Ok(Parked::Woken(HANDED_OVER)) => return Ok(()),
                Ok(Parked::TimedOut | Parked::Cancelled) | Err(Refused::Cancelled) => {
                    return Err(NotLocked);
                }
                Ok(Parked::Refused) => {}
                Ok(_) => {
                    losses += 1;
                    (looks, back_off) = (looks_worth(), SpinWait::new());
                }
                Err(Refused::Unwinding) if is_cancel_point || deadline != Deadline::NEVER => {
                    return Err(NotLocked);
                }
                Err(Refused::Unwinding) => {
                    abort_wait_while_unwinding("a Mutex that another strand holds")
                }
            }
        }
    }

    /// A waiter is given up that had been handed the lock or woken to take it.
    fn pass_on(&self, token: Token) {
        match token {
            HANDED_OVER => self.unlock(),
            LEFT => {}
            // If it is not free, its owner wakes the next waiter.
            _ => drop(self.try_lock()),
        }
    }

    fn try_change(&self, word: u64, new: u64) -> bool {
        // Acquire: if it takes the lock, it pairs with the release in `unlock`.
        self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn unlock(&self) {
        let word = self.word.load(Ordering::Relaxed);
        let is_plain = word & WAITERS == 0;
        // Release: the writes of the owner are visible to the next one.
        let freed = is_plain
            && self.word.compare_exchange(word, FREE, Ordering::Release, Ordering::Relaxed).is_ok();
        if !freed {
            self.unlock_contended();
        }
    }

    #[cold]
    fn unlock_contended(&self) {
        self.lot.unpark_one(|candidate| {
            let Some(next) = candidate else {
                self.word.store(FREE, Ordering::Release);
                return 0;
            };
            let waiters = if next.has_more { WAITERS } else { 0 };
            let is_handed_over = next.request == HAND_OVER;
            let owner = if is_handed_over { next.strand.as_u64() } else { FREE };
            self.word.store(owner | waiters, Ordering::Release);
            if is_handed_over { HANDED_OVER } else { 0 }
        });
    }

    fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard =
            MutexGuard { mutex: self, was_panicking: thread::panicking(), not_send: PhantomData };
        if self.is_poisoned() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    /// Returns whether a strand panicked while it held the lock.
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

/// Where all rivals are fibers of one worker, none lets go while another looks.
fn looks_worth() -> u32 {
    if worker::current().has_rivals() { LOOKS } else { 0 }
}

fn own_id() -> u64 {
    worker::current().current_header().id_bits()
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
        if !self.was_panicking && thread::panicking() {
            self.mutex.is_poisoned.store(true, Ordering::Relaxed);
        }
        self.mutex.unlock();
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => debug.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => debug.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => debug.field("data", &"<locked>"),
        };
        debug.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
