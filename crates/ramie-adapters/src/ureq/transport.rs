//! Moving bytes.

use std::{
    fmt,
    io::{Read, Write},
    net::Shutdown,
    sync::{Arc, Weak},
};

use ramie::net::TcpStream;
use rustix::{io::Errno, net::RecvFlags};
use ureq::{
    Error,
    config::Config,
    unversioned::transport::{Buffers, LazyBuffers, NextTimeout, ShutdownHandle, Transport},
};

use super::within;

/// A connection of ureq over a stream of Ramie.
pub struct RamieTransport {
    stream: Arc<Shared>,
    buffers: LazyBuffers,
}

/// A stream that `Agent::shutdown` can end from another strand.
struct Shared(TcpStream);

impl ShutdownHandle for Shared {
    fn shutdown(&self) {
        // An error means that the stream has ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl RamieTransport {
    pub(super) fn new(stream: TcpStream, config: &Config) -> Self {
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        RamieTransport { stream: Arc::new(Shared(stream)), buffers }
    }

    pub(super) fn shutdown_handle(&self) -> Weak<dyn ShutdownHandle> {
        let stream: Weak<Shared> = Arc::downgrade(&self.stream);
        stream
    }
}

impl Transport for RamieTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let output = &self.buffers.output()[..amount];
        within(timeout.for_write(), || (&self.stream.0).write_all(output))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let input = self.buffers.input_append_buf();
        let count = within(timeout.for_read(), || (&self.stream.0).read(input))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        // No receive of Ramie, because ureq holds a lock of std around this call, and on a ring
        // even a nonblocking receive suspends the fiber. Bytes that nobody asked for, or the end of
        // the stream, make a connection useless.
        let probe = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.stream.0, &mut [0], probe) == Err(Errno::WOULDBLOCK)
    }
}

impl fmt::Debug for RamieTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RamieTransport").field(&self.stream.0).finish()
    }
}
