//! Files, folders, and the watcher of both.

#[path = "../common/mod.rs"]
mod common;

mod abandon;
mod as_std_files;
mod calls;
mod disk_full;
mod errors;
mod fifo;
mod random;
mod watcher;
mod watcher_roots;
mod watcher_trees;
