//! What the fiber of a connection works on.

use std::sync::Arc;

use super::{Input, Receiver, Stream};

/// The stream of a connection, its receiver, and the input. The header of a proxy, the handshake
/// and HTTP share one receiver, because each receiver starts a receive in the kernel.
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
