//! The closure of a strand and, later, its result: both lie in the slot if they fit in 32 bytes,
//! in a box if they do not. The result takes the closure's place.
//!
//! | phase | payload holds | left by |
//! |---|---|---|
//! | installed | the closure | [`JobTable::run`] (moves it out) or [`JobTable::discard`] (drops it) |
//! | running | nothing | the end of the closure, which stores the outcome |
//! | ended | the outcome | [`take_outcome`] or [`JobTable::drop_outcome`] |
#![allow(unsafe_code)]

use std::{any::Any, mem, ptr, thread};

use super::slot::{INLINE_WORDS, Slot};
use crate::panic;

/// What a strand ended with: its value, or the payload of its panic.
pub(crate) type JobOutcome<T> = thread::Result<T>;

/// The operations on a payload whose types only the spawner and the joiner know.
pub(crate) struct JobTable {
    /// Runs the installed closure and stores its outcome. Tells whether it panicked.
    run: unsafe fn(&Slot) -> bool,
    /// Drops the installed closure and stores an outcome that says why it never ran.
    discard: unsafe fn(&Slot, Box<dyn Any + Send>),
    /// Stores an outcome for a closure that began and will never end.
    store_error: unsafe fn(&Slot, Box<dyn Any + Send>),
    /// Drops the stored outcome. Tells whether it was a panic.
    drop_outcome: unsafe fn(&Slot) -> bool,
}

struct Table<F, T>(std::marker::PhantomData<(F, T)>);

impl<F: FnOnce() -> T, T> Table<F, T> {
    const TABLE: JobTable = JobTable {
        run: run::<F, T>,
        discard: discard::<F, T>,
        store_error: store::<T>,
        drop_outcome: drop_outcome::<T>,
    };
}

const fn is_inline<V>() -> bool {
    size_of::<V>() <= INLINE_WORDS * 8 && align_of::<V>() <= 8
}

/// Writes `value` into the payload.
///
/// # Safety
/// The caller owns the payload (see the phases) and it holds nothing.
#[inline]
unsafe fn write<V>(slot: &Slot, value: V) {
    let payload = slot.payload.as_ptr();
    if is_inline::<V>() {
        // SAFETY: `is_inline` checked size and alignment; the caller owns the payload.
        unsafe { payload.cast::<V>().write(value) }
    } else {
        // SAFETY: a pointer fits into the payload, which the caller owns.
        unsafe { payload.cast::<*mut V>().write(Box::into_raw(Box::new(value))) }
    }
}

/// Moves a value out of the payload.
///
/// # Safety
/// The caller owns the payload and it holds a `V`, put there by [`write`].
#[inline]
unsafe fn read<V>(slot: &Slot) -> V {
    let payload = slot.payload.as_ptr();
    if is_inline::<V>() {
        // SAFETY: the caller's promise: a `V` was written here by `write`, which chose the same.
        return unsafe { payload.cast::<V>().read() };
    }
    // SAFETY: as above; `write` put a pointer from `Box::into_raw` here.
    let boxed = unsafe { payload.cast::<*mut V>().read() };
    // SAFETY: the pointer came from `Box::into_raw` and is read out once.
    *unsafe { Box::from_raw(boxed) }
}

unsafe fn run<F: FnOnce() -> T, T>(slot: &Slot) -> bool {
    // SAFETY: `Slot::run_job` is called once, in the phase "installed".
    let closure = unsafe { read::<F>(slot) };
    let outcome = panic::catch(closure);
    let panicked = outcome.is_err();
    // SAFETY: phase "running": the payload was emptied above.
    unsafe { write(slot, outcome) };
    panicked
}

unsafe fn discard<F, T>(slot: &Slot, why: Box<dyn Any + Send>) {
    // SAFETY: the caller is in the phase "installed" and leaves it with this.
    let closure = unsafe { read::<F>(slot) };
    // A panic in a destructor of a closure that never ran has no one to go to.
    drop_quietly(closure);
    // SAFETY: the payload was emptied above.
    unsafe { store::<T>(slot, why) };
}

unsafe fn store<T>(slot: &Slot, why: Box<dyn Any + Send>) {
    let outcome: JobOutcome<T> = Err(why);
    // SAFETY: the callers are in the phase "running": the payload is empty.
    unsafe { write(slot, outcome) };
}

unsafe fn drop_outcome<T>(slot: &Slot) -> bool {
    // SAFETY: the caller is in the phase "ended" and leaves it with this.
    let outcome = unsafe { read::<JobOutcome<T>>(slot) };
    let panicked = outcome.is_err();
    drop_quietly(outcome);
    panicked
}

fn drop_quietly<V>(value: V) {
    if let Err(payload) = panic::catch(|| drop(value)) {
        // The payload of a destructor's panic may panic when dropped in its turn.
        mem::forget(payload);
    }
}

/// Puts `closure` into a fresh slot.
///
/// # Safety
/// The slot is fresh from its free list, and all that `closure` and its result borrow outlives the
/// strand's end and the taking or dropping of its outcome.
#[inline]
pub(crate) unsafe fn install<F: FnOnce() -> T, T>(slot: &Slot, closure: F) {
    // SAFETY: a fresh slot's payload is empty and belongs to the spawner.
    unsafe { write(slot, closure) };
    slot.table.set(Some(&Table::<F, T>::TABLE));
}

/// Moves the outcome out of an ended strand's slot.
///
/// # Safety
/// The caller saw that the slot's `join` is done, holds the only handle, and `T` is the type
/// of the installed closure's value.
#[inline]
pub(crate) unsafe fn take_outcome<T>(slot: &Slot) -> JobOutcome<T> {
    // SAFETY: after the end the payload holds the outcome and belongs to the handle.
    unsafe { read::<JobOutcome<T>>(slot) }
}

impl Slot {
    fn table(&self) -> &'static JobTable {
        self.table.get().expect("a strand's slot has a job from its spawn on")
    }

    /// Whether the strand has, or had, a closure of its own.
    pub(crate) fn is_spawned(&self) -> bool {
        self.table.get().is_some()
    }

    /// Runs the closure; tells whether it panicked.
    ///
    /// # Safety
    /// The slot is in the phase "installed" and the caller is the one who starts it.
    #[inline]
    pub(crate) unsafe fn run_job(&self) -> bool {
        // SAFETY: the caller's promise is the table entry's.
        unsafe { (self.table().run)(self) }
    }

    /// Ends a strand that never started.
    ///
    /// # Safety
    /// The slot is in the phase "installed" and the caller owns its start.
    pub(crate) unsafe fn discard_job(&self, why: Box<dyn Any + Send>) {
        // SAFETY: the caller's promise is the table entry's.
        unsafe { (self.table().discard)(self, why) }
    }

    /// Stores an error as the outcome of a strand that will never end.
    ///
    /// # Safety
    /// The slot is in the phase "running" and its stack never runs again.
    pub(crate) unsafe fn store_error(&self, why: Box<dyn Any + Send>) {
        // SAFETY: the caller's promise is the table entry's.
        unsafe { (self.table().store_error)(self, why) }
    }

    /// Drops the outcome; tells whether it was a panic.
    ///
    /// # Safety
    /// The slot is in the phase "ended" and belongs to the caller.
    pub(crate) unsafe fn drop_outcome(&self) -> bool {
        // SAFETY: the caller's promise is the table entry's.
        unsafe { (self.table().drop_outcome)(self) }
    }

    /// Drops the name and other extras, if any.
    ///
    /// # Safety
    /// The strand has ended and the slot belongs to the caller.
    pub(super) unsafe fn drop_extra(&self) {
        let extra = self.extra.replace(ptr::null());
        if !extra.is_null() {
            // SAFETY: `extra` came from `Arc::into_raw` at the spawn and is given up once.
            drop(unsafe { std::sync::Arc::from_raw(extra) });
        }
    }
}
