//! Opening streams.

use std::{io, time::Duration};

use ramie::{cancel::check_cancelled, net::TcpStream, time::Instant};
use ureq::{
    Error, ProxyProtocol,
    unversioned::transport::{ConnectionDetails, Connector, Either, Transport},
};

use super::{RamieTransport, within};

/// Opens streams of Ramie, unless a connector before it in the chain has opened a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct RamieConnector;

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
        refuse_socks(details)?;
        let (stream, config) = (connect(details)?, details.config);
        stream.set_nodelay(config.no_delay())?;
        let transport = RamieTransport::new(stream, config);
        (details.register_shutdown)(transport.shutdown_handle())?;
        Ok(Some(Either::B(transport)))
    }
}

/// Refuses a SOCKS proxy, because ureq's connector for it blocks the thread, and a direct
/// connection would bypass the proxy.
fn refuse_socks(details: &ConnectionDetails) -> Result<(), Error> {
    use ProxyProtocol::{Socks4, Socks4A, Socks5};
    match details.config.proxy() {
        Some(proxy)
            if matches!(proxy.protocol(), Socks4 | Socks4A | Socks5)
                && !proxy.is_no_proxy(details.uri) =>
        {
            let why = "SOCKS proxies are not supported; use an HTTP proxy, or none";
            Err(Error::Io(io::Error::new(io::ErrorKind::Unsupported, why)))
        }
        _ => Ok(()),
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
        let is_over =
            check_cancelled().is_err() || ends_at.is_some_and(|ends_at| ends_at <= Instant::now());
        if result.is_ok() || is_over {
            break;
        }
    }
    result
}
