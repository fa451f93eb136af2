//! Twins of `std::os::linux`; what cannot block is std's own.

pub use std::os::linux::fs;
#[allow(deprecated)]
pub use std::os::linux::raw;

pub mod net;
