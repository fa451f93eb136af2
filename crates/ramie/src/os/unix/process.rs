//! Twins of `std::os::unix::process`.

pub use std::os::unix::process::{ExitStatusExt, parent_id};

pub use crate::process::unix::CommandExt;
