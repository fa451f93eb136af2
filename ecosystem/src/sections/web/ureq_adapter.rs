//! ureq's transport over a stream of Ramie.

use std::io::{Read, Write};

use ramie::{
    cancel,
    net::{TcpStream, ToSocketAddrs},
};
use ureq::{
    Error,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport},
    },
};

/// Opens Ramie's streams: `Agent::with_parts(config, RamieConnector, RamieResolver)`.
#[derive(Debug)]
pub(super) struct RamieConnector;

/// Looks names up without blocking the worker.
#[derive(Debug)]
pub(super) struct RamieResolver;

/// A connection.
pub(super) struct RamieTransport {
    stream: TcpStream,
    buffers: LazyBuffers,
}

impl std::fmt::Debug for RamieTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RamieTransport").field(&self.stream).finish()
    }
}

/// Calls `f` within the time that ureq gives it.
fn within<T>(timeout: NextTimeout, f: impl FnOnce() -> std::io::Result<T>) -> Result<T, Error> {
    let Some(limit) = timeout.not_zero() else { return Ok(f()?) };
    cancel::try_with_timeout(*limit, f).map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    })
}

impl Resolver for RamieResolver {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let name = uri.scheme().zip(uri.authority());
        let name = name.and_then(|(scheme, at)| DefaultResolver::host_and_port(scheme, at));
        let name = name.ok_or(Error::HostNotFound)?;
        let mut addresses = self.empty();
        let found = within(timeout, || name.as_str().to_socket_addrs())?;
        // There is room for 16.
        found.take(16).for_each(|address| addresses.push(address));
        Ok(addresses)
    }
}

impl Connector for RamieConnector {
    type Out = RamieTransport;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _: Option<()>,
    ) -> Result<Option<RamieTransport>, Error> {
        let stream = within(details.timeout, || TcpStream::connect(&*details.addrs))?;
        stream.set_nodelay(details.config.no_delay())?;
        let (input, output) =
            (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(RamieTransport { stream, buffers: LazyBuffers::new(input, output) }))
    }
}

impl Transport for RamieTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let output = &self.buffers.output()[..amount];
        within(timeout, || self.stream.write_all(output))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let input = self.buffers.input_append_buf();
        let count = within(timeout, || self.stream.read(input))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        // Bytes that nobody asked for, or the end of the stream, make a connection useless.
        let is_silent = self.stream.set_nonblocking(true).is_ok()
            && matches!(self.stream.read(&mut [0]), Err(error)
                if error.kind() == std::io::ErrorKind::WouldBlock);
        is_silent && self.stream.set_nonblocking(false).is_ok()
    }
}
