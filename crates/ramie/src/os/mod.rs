//! Twins of `std::os`: items particular to Unix and to Linux, under std's paths.

#[doc(no_inline)]
pub use std::os::{fd, raw};

pub mod linux;
pub mod unix;
