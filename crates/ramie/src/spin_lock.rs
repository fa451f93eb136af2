//! A lock for some ten instructions: never held across a suspension or a call into user code.
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
    panic::RefUnwindSafe,
};

use crate::primitive::{AtomicBool, Ordering, spin_loop};

pub(crate) struct SpinLock<T> {
    is_locked: AtomicBool,
    /// INVARIANT: touched only by the holder of the lock.
    value: UnsafeCell<T>,
}

// SAFETY: the value is touched by one thread at a time.
unsafe impl<T: Send> Sync for SpinLock<T> {}

// What is under the lock is whole whenever the lock is free: no user code runs under it.
impl<T> RefUnwindSafe for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub(crate) fn new(value: T) -> Self {
        SpinLock { is_locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        // Acquire: pairs with the release in `SpinGuard::drop`.
        let free =
            self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            self.lock_contended();
        }
        SpinGuard { lock: self }
    }

    #[cold]
    fn lock_contended(&self) {
        let mut spins = 0_u32;
        while self.is_locked.load(Ordering::Relaxed)
            || self
                .is_locked
                .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            spins += 1;
            // The holder may have lost its CPU.
            if spins.is_multiple_of(64) { std::thread::yield_now() } else { spin_loop() }
        }
    }
}

pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held (invariant of `value`).
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held (invariant of `value`), and this guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.is_locked.store(false, Ordering::Release);
    }
}
