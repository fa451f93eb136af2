//! The bytes of a connection: its stream, what has arrived on it, and buffers.

mod file_range;
mod input;
mod receiver;
mod send_queue;
pub(crate) mod spare;
mod stream;

pub(crate) use file_range::FileRange;
pub(crate) use input::Input;
pub(crate) use receiver::Receiver;
pub(crate) use stream::Stream;
