//! Twins of `std::os::unix`; what cannot block is std's own.

pub use std::os::unix::{ffi, io};

pub mod fs;
pub mod net;
pub mod process;
