//! How strands run and wait.
//!
//! This layer knows no descriptor, no file, no socket and no twin of std, and names no module above
//! it. The ops of a strand ([`crate::op`]) are built on it, and the modules that users see on both.

pub mod cancel;
pub(crate) mod figures;
pub(crate) mod loans;
pub(crate) mod local;
pub(crate) mod panic;
pub(crate) mod primitive;
pub(crate) mod spin_lock;
pub(crate) mod strand;
pub(crate) mod time;
pub(crate) mod trace;
pub(crate) mod wait;
pub(crate) mod worker;
