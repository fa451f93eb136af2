//! The crate as the shipped modules see it: they themselves, and stand-ins for what they rest on.

mod blocking;
pub(crate) mod cancel;
pub(crate) mod channel;
mod completion;
mod coro;
mod deque;
mod driver;
mod fiber;
mod future;
pub(crate) mod handshake;
pub(crate) mod models;
mod park;
mod parking_lot;
mod primitive;
mod spin_lock;
mod strand;
pub(crate) mod sync;
mod time;
pub(crate) mod worker;
