//! The atomics of the protocols in this crate, in one module, so that a model checker can replace
//! them (`models/`).

pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};
