//! The bytes of a connection: its stream, what has arrived on it, and buffers.

mod input;
mod receiver;
pub(crate) mod spare;
mod stream;

pub(crate) use input::Input;
pub(crate) use receiver::Receiver;
pub(crate) use stream::Stream;
