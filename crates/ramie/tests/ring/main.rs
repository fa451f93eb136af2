//! The ring's own calls, and memory and descriptors that are registered with a ring.

#[path = "../common/mod.rs"]
mod common;

mod bundle;
mod file;
mod fixed_files;
mod leftover;
mod leftover_readiness;
mod leftover_shared;
mod registered;
mod waits;
