//! The atomics as a source of the driver names them.

pub(crate) use super::core::primitive::{AtomicU32, Ordering, fence};
