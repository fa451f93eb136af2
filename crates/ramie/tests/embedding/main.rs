//! Ramie inside other programs: runtimes in the background, handles on any thread, workers that
//! another loop drives, and hooks.

#[path = "../common/mod.rs"]
mod common;

mod background;
mod ended;
mod ends;
mod guest;
mod guest_ends;
mod hooks;
mod own_end;
mod refused;
mod threads;
