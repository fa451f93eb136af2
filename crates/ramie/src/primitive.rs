//! The atomics of every protocol in this crate, behind one door.
//!
//! Protocol modules import their atomics from here and never from `std`, so that a build with
//! `--cfg loom` can hand them to a model checker without a change to the protocols themselves.

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
