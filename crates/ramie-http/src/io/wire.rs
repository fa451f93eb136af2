//! A connection as its fiber has it.

use std::sync::Arc;

use super::{Input, Receiver, Stream};

/// The stream of a connection, and what the fiber that serves it receives. One receiver for the
/// header of a proxy, the handshake, and HTTP, because each receiver starts a receive in the
/// kernel.
pub(crate) struct Wire<'a> {
    pub(crate) stream: &'a Arc<Stream>,
    pub(crate) receiver: Receiver<'a>,
    /// What has arrived and was not used yet.
    pub(crate) input: Input,
}

impl<'a> Wire<'a> {
    pub(crate) fn new(stream: &'a Arc<Stream>) -> Self {
        Wire { stream, receiver: Receiver::new(stream), input: Input::default() }
    }
}
