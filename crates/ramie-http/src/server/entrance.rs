//! What a connection does before its first request: it receives the header of a proxy, and makes
//! the handshake of TLS.

#[cfg(feature = "tls")]
use std::panic::resume_unwind;
use std::{io, net::SocketAddr};

#[cfg(feature = "tls")]
use ramie::fiber::{self, Builder};

use super::{
    connections::OpenConnection,
    proxy_header::{self, ProxyHeader},
};
use crate::{
    connection::{Client, Phase, Presence},
    io::{Socket, Stream, Wire},
    limits::Limits,
    network::Network,
};

/// How long a client may send behind a handshake that has failed.
#[cfg(feature = "tls")]
const LINGER: std::time::Duration = std::time::Duration::from_secs(1);
/// The size of the stacks for handshakes, of which only a few pages are used. Another size than
/// that of most fibers, because stacks are pooled by size.
#[cfg(feature = "tls")]
const HANDSHAKE_STACK: usize = 512 << 10;

/// What a server asks of new connections.
#[derive(Default)]
pub(super) struct Entrance {
    #[cfg(feature = "tls")]
    pub(super) tls: Option<crate::tls::Tls>,
    /// Those that speak the PROXY protocol.
    pub(super) proxies: Option<Vec<Network>>,
}

impl Entrance {
    /// Makes the stream that speaks the protocols of the server over a new connection.
    pub(super) fn wrap(&self, socket: Socket) -> io::Result<Stream> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let stream = crate::io::TlsStream::new(socket, tls.current())?;
            return Ok(Stream::tls(stream));
        }
        Ok(Stream::plain(socket))
    }

    /// Whether a proxy is at the other end.
    pub(super) fn is_of_proxy(&self, peer: Option<SocketAddr>) -> bool {
        let Some(proxies) = &self.proxies else { return false };
        peer.is_none_or(|peer| proxies.iter().any(|proxy| proxy.contains(peer.ip())))
    }
}

/// Waits for the header of a proxy and the handshake of TLS, as the server asks for them, and
/// describes the client by them.
#[inline(never)]
pub(super) fn enter(
    connection: &OpenConnection,
    wire: &mut Wire<'_>,
    client: &mut Client,
    is_of_proxy: bool,
    limits: &Limits,
) -> io::Result<()> {
    if is_of_proxy {
        connection.presence().enter(Phase::Handshake);
        let header = receive_header(wire)?;
        client.proxy_fields = header.fields;
        if let Some(peer) = header.client {
            client.peer = Some(peer);
            if !connection.count_for(peer.ip(), limits.connections_per_address) {
                return Err(io::Error::other("the client has too many connections"));
            }
        }
    }
    #[cfg(feature = "tls")]
    if let Some(tls) = wire.stream.as_tls() {
        client.tls = Some(shake_hands(tls, wire, connection.presence())?);
    }
    Ok(())
}

/// Receives the header of a proxy.
fn receive_header(wire: &mut Wire<'_>) -> io::Result<ProxyHeader> {
    let Wire { receiver, input, .. } = wire;
    loop {
        let parsed = proxy_header::parse(input.unused());
        let parsed = parsed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if let Some(header) = parsed {
            input.consume(header.length);
            return Ok(header);
        }
        // The runtime's buffer is for others while this waits.
        input.copy();
        if !receiver.receive_as_they_are(input)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(feature = "tls")]
fn shake_hands(
    tls: &crate::io::TlsStream,
    wire: &mut Wire<'_>,
    presence: &impl Presence,
) -> io::Result<crate::tls::TlsInfo> {
    presence.enter(Phase::Handshake);
    let Wire { receiver, input, .. } = wire;
    let begin = std::mem::take(input);
    // The handshake needs more stack than all that follows, and the memory of a stack stays with
    // its fiber. So it runs on another fiber, whose stack then serves other handshakes, and no
    // connections, because it is of another size.
    let shaken = fiber::scope(|fibers| {
        let builder = Builder::new().stack_size(HANDSHAKE_STACK);
        let shaken = builder.spawn_scoped_local(fibers, || tls.shake_hands(receiver, begin))?;
        shaken.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    if let Err(error) = shaken {
        // The client may still send, and would lose the alert.
        presence.enter(Phase::Other);
        crate::connection::linger(tls.socket(), receiver, LINGER);
        return Err(error);
    }
    Ok(tls.with_session(crate::tls::TlsInfo::of))
}
