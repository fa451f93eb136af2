//! Twins of `std::os`: what is particular to Unix and to Linux, under std's paths.

#[doc(no_inline)]
pub use std::os::{fd, raw};

pub mod linux;
pub mod unix;
