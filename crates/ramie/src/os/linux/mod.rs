//! Twins of `std::os::linux`; items that cannot block are std's own.

#[doc(no_inline)]
pub use std::os::linux::fs;
#[allow(deprecated)]
pub use std::os::linux::raw;

pub mod net;
