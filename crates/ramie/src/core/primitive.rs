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

/// Executes the processor's pause instruction, `times` times.
pub(crate) fn pause(times: u32) {
    (0..times).for_each(|_| std::hint::spin_loop());
}
