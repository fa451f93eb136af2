//! The atomics and cells of the protocols in this crate, behind one door.
//!
//! Protocol modules import them from here and never from `std`: in `models/`, where a model checker
//! runs these very modules, another file with the same names stands in the place of this one.

pub(crate) use std::{
    cell::{Cell, UnsafeCell},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

/// Lets a processor core do something else for a moment, so many times.
pub(crate) fn pause(times: u32) {
    (0..times).for_each(|_| std::hint::spin_loop());
}
