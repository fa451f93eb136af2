//! Twins of `std::os::linux`; what cannot block is std's own.

pub use std::os::linux::fs;

pub mod net;
