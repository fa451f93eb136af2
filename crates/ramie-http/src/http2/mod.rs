//! HTTP/2, by hyper: requests in parallel over one connection, each on a fiber of its own.
//!
//! # Fibers
//! | fiber | does |
//! |---|---|
//! | that of the connection | polls hyper's state machine, which never waits |
//! | reader | receives bytes, and hands them to hyper |
//! | writer | sends the bytes that hyper hands out |
//! | one for each stream, of hyper | moves the body of a response into frames |
//! | one for each request | runs the handler, then writes the body of the response |
//! | timekeeper, as long as handlers run | cancels handlers whose time is up |
//!
//! All of them stay on the worker of the connection, and belong to a scope (`fibers.rs`): the
//! connection counts for the limits of the server until the last of them has ended. The transport
//! of hyper is a pair of channels (`transport.rs`), so it is the same for TCP, Unix sockets and
//! TLS, and a client that takes no bytes does not keep the server from reading.
//!
//! # The life of a connection
//! A connection without requests is idle; the server's overseer ends it as one of HTTP/1.1, by
//! shutting its read side down. A request lasts until its handler has ended and the client has
//! taken the whole response (`shared.rs`). When the server stops, the connection sends GOAWAY once
//! it sees the stop: at the next begin or end of a request. Requests that run are answered.
//!
//! # The life of a request
//! If the client resets a stream, or closes the connection, hyper drops the future of the response,
//! or the body. Either drop cancels the scope in which the handler runs (`exchange.rs`). The
//! timekeeper does so, too, when the time of the request is up (`handler_time.rs`).

mod body;
mod exchange;
mod fibers;
mod handler_time;
mod heads;
mod life;
mod shared;
mod transport;
mod tunnel;

use std::{
    future::{Future, poll_fn},
    io, mem,
    net::Shutdown,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{server::conn::http2::Builder, service::service_fn};
use ramie::{fiber, future::block_on};

pub(crate) use self::handler_time::set_request_time;
use self::{
    exchange::Exchange, fibers::ScopedFibers, life::Life, shared::Shared, transport::Transport,
};
use crate::{
    connection::{Client, Presence, Service},
    io::{Stream, Wire},
    limits::Limits,
};

/// What a client of HTTP/2 sends first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";
/// The most bytes of a response's body that hyper keeps until the client takes them.
const SEND_BUFFER: usize = 64 << 10;

/// Serves until either side closes the connection.
///
/// # Errors
/// Those of the stream, and of a client that breaks the protocol.
pub(crate) fn serve(
    wire: &mut Wire<'_>,
    service: &Arc<Service>,
    presence: &impl Presence,
    client: &Client,
) -> io::Result<()> {
    let Wire { stream, receiver, input } = wire;
    let limits = &service.limits;
    // The overseer knows one write of a connection at a time, and not which fiber waits in it.
    stream.socket().set_write_timeout(Some(limits.write_timeout))?;
    let shared = Shared::new(service, client, presence);
    let (transport, reader, writer) = Transport::new(mem::take(input), shared.end_of_input());
    fiber::scope(|fibers| {
        fibers.spawn_local(|| reader.run(receiver));
        fibers.spawn_local(|| writer.run(stream));
        // The writer ends when it has sent everything.
        let _end = EndFibers { stream, shared: &shared };
        let driven = block_on(drive(&shared, ScopedFibers(fibers), transport, presence));
        // Other protocols on its streams may wait for anything.
        shared.until_end.cancel_because("the connection has ended");
        driven.map_err(io::Error::other)
    })
}

/// Ends the fiber that reads a stream, and the timekeeper, also if hyper has panicked.
struct EndFibers<'a> {
    stream: &'a Stream,
    shared: &'a Shared,
}

impl Drop for EndFibers<'_> {
    fn drop(&mut self) {
        let _ = self.stream.socket().shutdown(Shutdown::Read);
        self.shared.handler_times.end();
    }
}

fn builder<'scope, 'env>(
    fibers: ScopedFibers<'scope, 'env>,
    limits: &Limits,
) -> Builder<ScopedFibers<'scope, 'env>> {
    let mut builder = Builder::new(fibers);
    let head = u32::try_from(limits.head_bytes).unwrap_or(u32::MAX);
    builder
        .max_header_list_size(head)
        .max_concurrent_streams(limits.concurrent_streams)
        .max_send_buf_size(SEND_BUFFER)
        .enable_connect_protocol();
    builder
}

/// Drives hyper's connection, and ends it when the server stops.
async fn drive(
    shared: &Rc<Shared>,
    fibers: ScopedFibers<'_, '_>,
    transport: Transport,
    presence: &impl Presence,
) -> Result<(), hyper::Error> {
    let answer = service_fn(|request| Exchange::begin(shared, fibers, request));
    let mut connection = pin!(builder(fibers, shared.limits()).serve_connection(transport, answer));
    let mut life = Life::new(presence, shared);
    life.update();
    poll_fn(|context: &mut Context<'_>| {
        shared.wake_with(context.waker());
        loop {
            if let Poll::Ready(served) = connection.as_mut().poll(context) {
                return Poll::Ready(served);
            }
            // The poll may have begun or ended requests.
            if !life.update() {
                return Poll::Pending;
            }
            connection.as_mut().graceful_shutdown();
        }
    })
    .await
}
