//! The crate as the shipped modules see it: they themselves, and stand-ins for what they rest on.

pub(crate) mod channel;
pub(crate) mod core;
mod coro;
mod deque;
mod driver;
pub(crate) mod handshake;
pub(crate) mod models;
mod primitive;
pub(crate) mod sync;
