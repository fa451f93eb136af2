//! ureq over streams of Ramie.
//!
//! ```
//! use ramie::net::TcpListener;
//! # use std::io::{Read, Write};
//!
//! ramie::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let url = format!("http://{}/", listener.local_addr()?);
//!     ramie::fiber::spawn(move || {
//!         let (mut stream, _) = listener.accept().unwrap();
//!         let _ = stream.read(&mut [0; 1000]);
//!         stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").unwrap();
//!     });
//!
//!     let agent = ramie_adapters::ureq::agent(ureq::Agent::config_builder().build());
//!     let hello = agent.get(&url).call()?.body_mut().read_to_string()?;
//!     assert_eq!(hello, "hello");
//!     Ok::<(), ureq::Error>(())
//! })?;
//! # Ok::<(), ureq::Error>(())
//! ```
//!
//! # Deadlines and cancellation
//! ureq's timeouts work, and each call of an agent is also a cancel point. If a limit of Ramie
//! expires before ureq's own timeout, or the strand is cancelled, the call fails with
//! `ureq::Error::Io`, in which [`Cancelled::of`] finds the reason. ureq never uses the connection
//! of a failed call again.
//!
//! ureq promises no stability for the traits that this module implements, so it works with one
//! minor version of ureq, as `Cargo.toml` has it.

use std::{
    fmt, io,
    io::{Read, Write},
    net::Shutdown,
    sync::{Arc, Weak},
    time::Duration,
};

use ramie::{
    cancel::{self, Cancelled},
    net::{TcpStream, ToSocketAddrs},
    time::Instant,
};
use ureq::{
    Agent, Error,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{
            Buffers, ConnectProxyConnector, ConnectionDetails, Connector, Either, LazyBuffers,
            NextTimeout, ShutdownHandle, Transport,
        },
    },
};

/// Makes an agent whose calls park the fiber. It connects directly or by an HTTP proxy (`CONNECT`),
/// and speaks HTTPS with the feature `ureq-rustls`.
///
/// # Blocking
/// Never. The calls of the agent park the fiber, or block a thread outside one.
#[must_use]
pub fn agent(config: Config) -> Agent {
    let connector = ().chain(ConnectProxyConnector::default()).chain(RamieConnector);
    #[cfg(feature = "ureq-rustls")]
    let connector = connector.chain(ureq::unversioned::transport::RustlsConnector::default());
    Agent::with_parts(config, connector, RamieResolver)
}

/// Opens streams of Ramie, unless a connector before it in the chain has opened a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct RamieConnector;

/// Looks names up without blocking the worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct RamieResolver;

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

/// Calls `f` within the time that ureq gives it.
fn within<T>(timeout: NextTimeout, f: impl FnOnce() -> io::Result<T>) -> Result<T, Error> {
    let Some(limit) = timeout.not_zero() else { return Ok(f()?) };
    let ends_at = Instant::now().checked_add(*limit);
    // If a limit of the program is tighter, its expiry is no timeout of ureq.
    let outer = cancel::current_deadline();
    let is_tighter = ends_at.is_some_and(|own| outer.is_none_or(|outer| own < outer));
    cancel::try_with_timeout(*limit, f).map_err(|error| {
        let has_expired = Cancelled::of(&error).is_some_and(Cancelled::is_deadline);
        if has_expired && is_tighter { Error::Timeout(timeout.reason) } else { error.into() }
    })
}

impl Resolver for RamieResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let name = uri.scheme().zip(uri.authority());
        let name = name.and_then(|(scheme, at)| DefaultResolver::host_and_port(scheme, at));
        let name = name.ok_or_else(|| Error::BadUri(uri.to_string()))?;
        let found = within(timeout, || name.as_str().to_socket_addrs())?;
        let mut addresses = self.empty();
        // There is room for 16.
        let wanted = config.ip_family();
        wanted.keep_wanted(found).take(16).for_each(|address| addresses.push(address));
        if addresses.is_empty() { Err(Error::HostNotFound) } else { Ok(addresses) }
    }
}

/// Connects to the first address that answers. An address gets half of the time that is left, and
/// the last one all of it, so that one that never answers leaves time for the others.
fn connect(details: &ConnectionDetails) -> Result<TcpStream, Error> {
    let mut timeout = details.timeout;
    let ends_at = timeout.not_zero().and_then(|limit| Instant::now().checked_add(*limit));
    let mut result = Err(Error::HostNotFound);
    for (index, address) in details.addrs.iter().enumerate() {
        if let Some(ends_at) = ends_at {
            let left = ends_at.saturating_duration_since(Instant::now());
            let is_last = index + 1 == details.addrs.len();
            let share = if is_last { left } else { left / 2 };
            timeout.after = share.max(Duration::from_millis(1)).into();
        }
        result = within(timeout, || TcpStream::connect(address));
        let is_over = cancel::check_cancelled().is_err()
            || ends_at.is_some_and(|ends_at| ends_at <= Instant::now());
        if result.is_ok() || is_over {
            break;
        }
    }
    result
}

impl<In: Transport> Connector<In> for RamieConnector {
    type Out = Either<In, RamieTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if let Some(transport) = chained {
            return Ok(Some(Either::A(transport)));
        }
        let (stream, config) = (connect(details)?, details.config);
        stream.set_nodelay(config.no_delay())?;
        let stream = Arc::new(Shared(stream));
        let handle: Weak<Shared> = Arc::downgrade(&stream);
        (details.register_shutdown)(handle)?;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Either::B(RamieTransport { stream, buffers })))
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
        // Bytes that nobody asked for, or the end of the stream, make a connection useless.
        let stream = &self.stream.0;
        let is_silent = stream.set_nonblocking(true).is_ok()
            && matches!((&*stream).read(&mut [0]), Err(error)
                if error.kind() == io::ErrorKind::WouldBlock);
        is_silent && stream.set_nonblocking(false).is_ok()
    }
}

impl fmt::Debug for RamieTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RamieTransport").field(&self.stream.0).finish()
    }
}
