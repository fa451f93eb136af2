//! A lock for some ten instructions: never held across a suspension or a call into user code.
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
    panic::RefUnwindSafe,
};

use crate::core::primitive::{AtomicBool, Ordering, pause};

/// A wait for another thread that is about to finish. Each round is longer, so that the other
/// thread is not disturbed; after some rounds the waiting thread yields its CPU, in case the other
/// thread has lost its own.
///
/// Two threads that take a lock by turns pass its cache line to and fro for each step. If one waits
/// longer, the other makes several steps meanwhile: 20 ns per value of a channel instead of 54.
pub(crate) struct SpinWait {
    round: u32,
}

/// Rounds before this one pause, each twice as long as the one before; later rounds yield to other
/// threads.
const PAUSES: u32 = 7;
/// The first wait has 16 pauses. With one pause, two workers that send and receive through one
/// channel take 28 ns per value instead of 15, and 23 instead of 13 if it is unbounded.
const FIRST: u32 = 4;

impl SpinWait {
    pub(crate) fn new() -> Self {
        SpinWait { round: FIRST }
    }

    pub(crate) fn pause(&mut self) {
        if !self.spin() {
            std::thread::yield_now();
        }
    }

    /// A round that keeps the CPU. Returns false at once if all of these are over.
    pub(crate) fn spin(&mut self) -> bool {
        let is_left = self.round < PAUSES;
        if is_left {
            pause(1 << self.round);
            self.round += 1;
        }
        is_left
    }
}

/// The lock without a value, for types that lay out the guarded data themselves.
pub(crate) struct RawSpinLock {
    is_locked: AtomicBool,
}

impl RawSpinLock {
    pub(crate) const fn new() -> Self {
        RawSpinLock { is_locked: AtomicBool::new(false) }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) {
        // Acquire: pairs with the release in `unlock`.
        let free =
            self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            self.lock_contended();
        }
    }

    #[cold]
    fn lock_contended(&self) {
        let mut back_off = SpinWait::new();
        while self.is_locked.load(Ordering::Relaxed)
            || self
                .is_locked
                .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            back_off.pause();
        }
    }

    /// Only the holder of the lock may call this.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        self.is_locked.store(false, Ordering::Release);
    }
}

pub(crate) struct SpinLock<T> {
    lock: RawSpinLock,
    /// INVARIANT: touched only by the holder of the lock.
    value: UnsafeCell<T>,
}

// SAFETY: the value is touched by one thread at a time.
unsafe impl<T: Send> Sync for SpinLock<T> {}

// The value is consistent whenever the lock is free, because no user code runs under the lock.
impl<T> RefUnwindSafe for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub(crate) fn new(value: T) -> Self {
        SpinLock { lock: RawSpinLock::new(), value: UnsafeCell::new(value) }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        self.lock.lock();
        SpinGuard { of: self }
    }
}

pub(crate) struct SpinGuard<'a, T> {
    of: &'a SpinLock<T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held (invariant of `value`).
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held (invariant of `value`), and this guard is borrowed mutably.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.of.lock.unlock();
    }
}
