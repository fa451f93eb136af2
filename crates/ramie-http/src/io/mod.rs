//! The bytes of a connection: its stream, what has arrived on it, and buffers.

mod duplex;
mod file_range;
mod input;
mod receiver;
mod send_queue;
mod socket;
pub(crate) mod spare;
mod stream;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "tls_absent.rs"]
mod tls;
mod wire;

pub(crate) use duplex::Duplex;
pub(crate) use file_range::FileRange;
pub(crate) use input::Input;
pub(crate) use receiver::Receiver;
pub(crate) use socket::Socket;
pub(crate) use stream::Stream;
pub(crate) use tls::TlsStream;
pub(crate) use wire::Wire;
