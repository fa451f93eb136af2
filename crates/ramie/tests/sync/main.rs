//! Locks, cells, and the channels of `sync`.

#[path = "../common/mod.rs"]
mod common;

mod broadcast;
mod mpsc;
mod mutex;
mod oneshot;
mod stress;
mod twins;
mod waits;
mod watch;
