//! The ring's own calls, and the memory and the descriptors that are registered with it.

#[path = "../common/mod.rs"]
mod common;

mod bundle;
mod file;
mod fixed_files;
mod leftover;
mod registered;
mod waits;
