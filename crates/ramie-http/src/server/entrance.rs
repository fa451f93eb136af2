//! What a connection does before its first request.

use std::io;
#[cfg(feature = "tls")]
use std::panic::resume_unwind;

#[cfg(feature = "tls")]
use ramie::fiber::{self, Builder};

use crate::{
    connection::{Client, Presence},
    io::{Input, Stream},
};

/// What a server asks of new connections.
#[derive(Default)]
pub(super) struct Entrance {
    #[cfg(feature = "tls")]
    pub(super) tls: Option<crate::tls::Tls>,
}

impl Entrance {
    /// Makes the stream that speaks the protocols of the server over a new connection.
    pub(super) fn wrap(&self, transport: Stream) -> io::Result<Stream> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let stream = crate::io::TlsStream::new(transport, tls.current())?;
            return Ok(Stream::Tls(Box::new(stream)));
        }
        Ok(transport)
    }
}

/// Waits for what comes before HTTP, and returns the client with the bytes behind it.
pub(super) fn enter(stream: &Stream, presence: &impl Presence) -> io::Result<(Client, Input)> {
    let client = Client {
        peer: stream.peer_addr(),
        #[cfg(feature = "tls")]
        tls: shake_hands(stream, presence, Input::default())?,
    };
    #[cfg(not(feature = "tls"))]
    let _ = presence;
    Ok((client, Input::default()))
}

#[cfg(feature = "tls")]
fn shake_hands(
    stream: &Stream,
    presence: &impl Presence,
    begin: Input,
) -> io::Result<Option<crate::tls::TlsInfo>> {
    let Stream::Tls(tls) = stream else { return Ok(None) };
    presence.enter(crate::connection::Phase::Handshake);
    // The handshake needs more stack than all that follows, and the memory of a stack stays with its
    // fiber. So it runs on another fiber, whose stack then serves other handshakes.
    let shaken = fiber::scope(|fibers| {
        let shaken = Builder::new().spawn_scoped_local(fibers, || tls.shake_hands(begin))?;
        shaken.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    if let Err(error) = shaken {
        // The client may still send, and would lose the alert.
        presence.enter(crate::connection::Phase::Other);
        crate::connection::linger(stream.transport(), std::time::Duration::from_secs(1));
        return Err(error);
    }
    Ok(Some(tls.with_session(crate::tls::TlsInfo::of)))
}
