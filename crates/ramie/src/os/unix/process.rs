//! Twins of `std::os::unix::process`.

#[doc(no_inline)]
pub use std::os::unix::process::{ExitStatusExt, parent_id};

pub use crate::process::unix::CommandExt;
