//! Channels and `select!`.

#[path = "../common/mod.rs"]
mod common;

mod given_up;
mod operations;
mod remote;
mod select;
