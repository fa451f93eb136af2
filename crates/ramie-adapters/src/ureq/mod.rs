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

mod connector;
mod resolver;
mod transport;

use std::io;

use ramie::{
    cancel::{self, Cancelled},
    time::Instant,
};
use ureq::{
    Agent, Error,
    config::Config,
    unversioned::transport::{ConnectProxyConnector, Connector, NextTimeout},
};

pub use self::{connector::RamieConnector, resolver::RamieResolver, transport::RamieTransport};

/// Makes an agent whose calls park the fiber. It connects directly or by an HTTP proxy (`CONNECT`),
/// and speaks HTTPS with the feature `ureq-rustls`; without it, calls of `https` URLs connect, and
/// then fail with `ureq::Error::TlsRequired`. A SOCKS proxy is refused.
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
