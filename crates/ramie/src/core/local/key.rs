//! The key of a fiber-local value, declared by `fiber_local!`.
#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    error,
    fmt,
    marker::PhantomData,
    mem,
    ptr::NonNull,
    // Not the model checker's: a `static` needs atomics with a const constructor, and this one is
    // in no protocol.
    sync::atomic::{AtomicUsize, Ordering},
};

use super::table::{Entry, Header, InUse, Stored, free_unless_used};
use crate::core::worker::{self, NoSwitch, Worker};

/// Gives access to the value that each strand has of its own; twin of [`std::thread::LocalKey`].
/// Declared by [`fiber_local!`](crate::fiber_local).
///
/// INVARIANT: once a key has an index, no other key has it, so the value of a table at that index
/// was made for this key, and is a `Stored<T>`.
pub struct LocalKey<T: 'static> {
    /// The index of the key's value in the tables; 0, where tables hold no value, until the key is
    /// first used.
    index: AtomicUsize,
    init: fn() -> T,
    /// Invariant in `T`: a key of one type cannot be taken for one of another.
    exact: PhantomData<fn(T) -> T>,
}

static NEXT_INDEX: AtomicUsize = AtomicUsize::new(1);

/// The value is gone, because the strand is ending and the value's destructor has run or runs; twin
/// of [`std::thread::AccessError`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AccessError {
    not_public: (),
}

impl AccessError {
    const GONE: AccessError = AccessError { not_public: () };
}

impl fmt::Debug for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessError").finish()
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the strand is ending and its fiber-local value was destroyed already")
    }
}

impl error::Error for AccessError {}

#[cold]
#[track_caller]
fn panic_gone(error: AccessError) -> ! {
    panic!("cannot access a fiber-local value during or after its destruction: {error}")
}

impl<T: 'static> LocalKey<T> {
    /// The expansion of `fiber_local!`.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(init: fn() -> T) -> Self {
        LocalKey { index: AtomicUsize::new(0), init, exact: PhantomData }
    }

    /// Runs `f` with this strand's value, which is initialized first if it is not yet.
    ///
    /// `f` may wait. If it does so on a coroutine that is never resumed, the value is leaked.
    ///
    /// # Panics
    /// When the value has been destroyed, which happens only in other destructors at the end of the
    /// strand; when the initializer waits.
    #[inline]
    #[track_caller]
    pub fn with<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        match self.header() {
            // SAFETY: `header` gives values of this key.
            Ok(header) => f(unsafe { InUse::<T>::new(header) }.value()),
            Err(error) => panic_gone(error),
        }
    }

    /// Runs `f` with this strand's value, which is initialized first if it is not yet.
    ///
    /// # Errors
    /// The value has been destroyed, which happens only in other destructors at the end of the
    /// strand.
    ///
    /// # Panics
    /// When the initializer waits.
    #[inline]
    pub fn try_with<F, R>(&'static self, f: F) -> Result<R, AccessError>
    where
        F: FnOnce(&T) -> R,
    {
        // SAFETY: `header` gives values of this key.
        let value = unsafe { InUse::<T>::new(self.header()?) };
        Ok(f(value.value()))
    }

    /// Returns the value of this strand, and initializes it if it is not yet.
    #[inline(always)]
    fn header(&'static self) -> Result<NonNull<Header>, AccessError> {
        let worker = worker::current();
        // Relaxed: it is a number and publishes nothing; 0 is the index of no value.
        let index = self.index.load(Ordering::Relaxed);
        match worker.running_stack().locals.get(index) {
            Entry::Value(header) => Ok(header),
            Entry::Empty => Ok(self.initialize(&worker)),
            Entry::Gone => Err(AccessError::GONE),
        }
    }

    #[cold]
    #[inline(never)]
    fn initialize(&'static self, worker: &Worker) -> NonNull<Header> {
        let value = {
            let _no_switch = NoSwitch::new(worker);
            (self.init)()
        };
        self.store(worker, value)
    }

    fn store(&'static self, worker: &Worker, value: T) -> NonNull<Header> {
        let value = Stored::make(value);
        let locals = &worker.running_stack().locals;
        let old = locals.put(self.assigned_index(), value, mem::needs_drop::<T>());
        // SAFETY: just made, for this key. Marked as in use, because the strand may end while `old`
        // is dropped.
        let _in_use = unsafe { InUse::<T>::new(value) };
        // Not empty if the initializer has used this very key: as in std the outer value stays.
        // SAFETY: it was in the table, and `put` has taken it out.
        unsafe { free_unless_used(old) };
        value
    }

    fn assigned_index(&'static self) -> usize {
        if self.index.load(Ordering::Relaxed) == 0 {
            let fresh = NEXT_INDEX.fetch_add(1, Ordering::Relaxed);
            // If another thread was first, `fresh` stays unused.
            let _ = self.index.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.index.load(Ordering::Relaxed)
    }

    /// Passes `value` to `replace` if this strand has a value already; otherwise stores it as the
    /// first one.
    fn set_or(&'static self, value: T, replace: impl FnOnce(&T, T)) -> Result<(), AccessError> {
        let worker = worker::current();
        match worker.running_stack().locals.get(self.index.load(Ordering::Relaxed)) {
            Entry::Gone => return Err(AccessError::GONE),
            Entry::Empty => {
                self.store(&worker, value);
            }
            // SAFETY: the invariant of the key.
            Entry::Value(header) => replace(unsafe { InUse::<T>::new(header) }.value(), value),
        }
        Ok(())
    }
}

impl<T: 'static> LocalKey<Cell<T>> {
    /// Sets this strand's value. The initializer does not run.
    ///
    /// # Panics
    /// As [`LocalKey::with`].
    #[track_caller]
    pub fn set(&'static self, value: T) {
        let done = self.set_or(Cell::new(value), |cell, value| cell.set(value.into_inner()));
        done.unwrap_or_else(|error| panic_gone(error));
    }

    /// Returns a copy of this strand's value.
    ///
    /// # Panics
    /// As [`LocalKey::with`].
    #[inline]
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Takes this strand's value and leaves the default one.
    ///
    /// # Panics
    /// As [`LocalKey::with`].
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Sets this strand's value and returns the old one.
    ///
    /// # Panics
    /// As [`LocalKey::with`].
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> LocalKey<RefCell<T>> {
    /// Runs `f` with this strand's value, borrowed.
    ///
    /// # Panics
    /// When the value is mutably borrowed; and as [`LocalKey::with`].
    #[track_caller]
    pub fn with_borrow<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Runs `f` with this strand's value, mutably borrowed.
    ///
    /// # Panics
    /// When the value is borrowed; and as [`LocalKey::with`].
    #[track_caller]
    pub fn with_borrow_mut<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&mut T) -> R,
    {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }

    /// Sets this strand's value. The initializer does not run.
    ///
    /// # Panics
    /// When the value is borrowed; and as [`LocalKey::with`].
    #[track_caller]
    pub fn set(&'static self, value: T) {
        let done = self.set_or(RefCell::new(value), |cell, value| {
            drop(cell.replace(value.into_inner()));
        });
        done.unwrap_or_else(|error| panic_gone(error));
    }

    /// Takes this strand's value and leaves the default one.
    ///
    /// # Panics
    /// When the value is borrowed; and as [`LocalKey::with`].
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }

    /// Sets this strand's value and returns the old one.
    ///
    /// # Panics
    /// When the value is borrowed; and as [`LocalKey::with`].
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}
