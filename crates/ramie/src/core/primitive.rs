//! The atomics and cells of the protocols in this crate.
//!
//! Protocol modules import them from here and never from `std`, because in `models/`, where a model
//! checker runs these very modules, another file with the same names replaces this one.

pub(crate) use std::{
    cell::{Cell, UnsafeCell},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

/// A pointer that one thread at a time writes, as the protocol around it ensures, and that dumps
/// and watchdogs read meanwhile. It costs as much as a `Cell`. Models replace it by a `Cell` whose
/// uses are checked.
pub(crate) struct PointerCell<T>(AtomicPtr<T>);

impl<T> PointerCell<T> {
    #[inline(always)]
    pub(crate) fn get(&self) -> *const T {
        // Relaxed: the protocol orders all uses but those by dumps and watchdogs, which expect old
        // values.
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, pointer: *const T) {
        self.0.store(pointer.cast_mut(), Ordering::Relaxed);
    }
}

/// Executes the processor's pause instruction, `times` times.
pub(crate) fn pause(times: u32) {
    (0..times).for_each(|_| std::hint::spin_loop());
}
