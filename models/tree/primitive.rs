//! The atomics under the names that a source of the driver uses.

pub(crate) use super::core::primitive::{AtomicU32, Ordering, fence};
