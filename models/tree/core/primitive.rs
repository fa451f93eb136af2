//! The model checker's atomics and cells, under the names by which protocols import them.

use std::{cell::RefCell, mem, ptr};

pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
use loom::thread::{self, Thread};

/// An `AtomicBool` that knows the threads that spin on it.
///
/// Two threads that spin for a third could take turns forever. So a spinning thread sleeps until
/// the next store of `false`, which is all it can wait for.
pub(crate) struct AtomicBool {
    bool: loom::sync::atomic::AtomicBool,
    /// The value that was stored last.
    newest: std::cell::Cell<bool>,
    spinners: RefCell<Vec<Thread>>,
}

// SAFETY: all threads of a model are coroutines on one thread.
unsafe impl Send for AtomicBool {}
// SAFETY: as above.
unsafe impl Sync for AtomicBool {}

// These belong to the OS thread that runs the model. No other thread of the model runs between the
// end of an operation and the begin of the next.
thread_local! {
    /// The atomic that was last found to be `true`.
    static FOUND_TRUE: RefCell<*const AtomicBool> = const { RefCell::new(ptr::null()) };
}

loom::thread_local! {
    /// How many spin locks the thread holds. Only spin locks change an `AtomicBool` by
    /// compare-and-swap.
    static HELD: std::cell::Cell<usize> = std::cell::Cell::new(0);
}

/// Whether the thread holds a spin lock.
pub(crate) fn holds_spin_lock() -> bool {
    HELD.with(|held| held.get() > 0)
}

impl AtomicBool {
    #[track_caller]
    pub(crate) fn new(value: bool) -> Self {
        let bool = loom::sync::atomic::AtomicBool::new(value);
        AtomicBool { bool, newest: std::cell::Cell::new(value), spinners: RefCell::default() }
    }

    fn note(&self, found: bool) {
        if found {
            FOUND_TRUE.replace(self);
        }
    }

    #[track_caller]
    pub(crate) fn load(&self, ordering: Ordering) -> bool {
        let found = self.bool.load(ordering);
        self.note(found);
        found
    }

    #[track_caller]
    pub(crate) fn store(&self, value: bool, ordering: Ordering) {
        if !value {
            HELD.with(|held| held.set(held.get().saturating_sub(1)));
        }
        self.bool.store(value, ordering);
        self.newest.set(value);
        if !value {
            mem::take(&mut *self.spinners.borrow_mut()).iter().for_each(Thread::unpark);
        }
    }

    #[track_caller]
    pub(crate) fn swap(&self, value: bool, ordering: Ordering) -> bool {
        let old = self.bool.swap(value, ordering);
        self.newest.set(value);
        old
    }

    #[track_caller]
    pub(crate) fn compare_exchange(
        &self,
        old: bool,
        new: bool,
        success: Ordering,
        failure: Ordering,
    ) -> Result<bool, bool> {
        let result = self.bool.compare_exchange(old, new, success, failure);
        if result.is_ok() {
            self.newest.set(new);
            HELD.with(|held| held.set(held.get() + 1));
        }
        self.note(result == Err(true));
        result
    }

    #[track_caller]
    pub(crate) fn compare_exchange_weak(
        &self,
        old: bool,
        new: bool,
        success: Ordering,
        failure: Ordering,
    ) -> Result<bool, bool> {
        self.compare_exchange(old, new, success, failure)
    }
}

/// Waits for a change of the atomic that the thread has just found to be `true`.
pub(crate) fn pause(_: u32) {
    // SAFETY: the thread has just used it.
    let bool = unsafe { &*FOUND_TRUE.replace(ptr::null()) };
    if bool.newest.get() {
        bool.spinners.borrow_mut().push(thread::current());
        thread::park();
    } else {
        // The thread has read an old value; later loads do not return it again.
        thread::yield_now();
    }
}

/// A `std::cell::UnsafeCell` each of whose uses counts as a write.
pub(crate) struct UnsafeCell<T>(loom::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    #[track_caller]
    pub(crate) fn new(value: T) -> Self {
        UnsafeCell(loom::cell::UnsafeCell::new(value))
    }

    /// The access is checked here. If it lasts longer, the checker catches another strand's access
    /// meanwhile nevertheless, because it compares the order of events and not their times.
    #[track_caller]
    pub(crate) fn get(&self) -> *mut T {
        self.0.with_mut(|place| place)
    }
}

/// A `std::cell::Cell` whose reads and writes are checked.
pub(crate) struct Cell<T>(loom::cell::UnsafeCell<T>);

impl<T> Cell<T> {
    #[track_caller]
    pub(crate) fn new(value: T) -> Self {
        Cell(loom::cell::UnsafeCell::new(value))
    }

    #[track_caller]
    pub(crate) fn replace(&self, value: T) -> T {
        // SAFETY: the checker has just verified that no other thread uses the cell.
        self.0.with_mut(|place| unsafe { std::mem::replace(&mut *place, value) })
    }

    #[track_caller]
    pub(crate) fn set(&self, value: T) {
        drop(self.replace(value));
    }

    #[track_caller]
    pub(crate) fn get(&self) -> T
    where
        T: Copy,
    {
        // SAFETY: the checker has just verified that no other thread writes the cell.
        self.0.with(|place| unsafe { *place })
    }

    #[track_caller]
    pub(crate) fn take(&self) -> T
    where
        T: Default,
    {
        self.replace(T::default())
    }
}

/// The shipped type lets dumps read the pointer at any time; no model has a dump.
pub(crate) type PointerCell<T> = Cell<*const T>;

/// A `std::sync::OnceLock` that is set once, and never while another thread sets it.
pub(crate) struct OnceLock<T>(AtomicPtr<T>);

impl<T> OnceLock<T> {
    #[track_caller]
    pub(crate) fn new() -> Self {
        OnceLock(AtomicPtr::new(ptr::null_mut()))
    }

    #[track_caller]
    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        self.0.store(Box::into_raw(Box::new(value)), Ordering::Release);
        Ok(())
    }

    #[track_caller]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: null, or set above and never freed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}
