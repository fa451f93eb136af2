//! The crate as the shipped modules see it: these modules, and stand-ins for those that they use.

pub(crate) mod channel;
pub(crate) mod core;
mod coro;
mod deque;
mod driver;
pub(crate) mod handshake;
pub(crate) mod models;
mod primitive;
pub(crate) mod sync;
