//! The atomics of the protocols in this crate, behind one door, so that a model checker can take
//! their place (`models/`).

pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};
