//! The primitives that are checked.

pub(crate) mod oneshot;
