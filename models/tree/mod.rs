//! The crate as the shipped modules see it: they themselves, and stand-ins for what they rest on.

pub(crate) mod channel;
mod completion;
pub(crate) mod models;
mod park;
mod parking_lot;
mod primitive;
mod strand;
pub(crate) mod sync;
mod time;
mod worker;
