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
//!
//! All of them stay on the worker of the connection. The transport of hyper is a pair of channels
//! (`transport.rs`), so it is the same for TCP, Unix sockets and TLS, and a client that takes no
//! bytes does not keep the server from reading.
//!
//! # The life of a connection
//! A connection without requests is idle; the server's overseer ends it as one of HTTP/1.1, by
//! shutting its read side down. When the server stops, the connection sends GOAWAY once it sees the
//! stop: at the next begin or end of a request. Requests that run are answered.
//!
//! # The life of a request
//! If the client resets a stream, hyper drops the future of the response, or the body. Either drop
//! cancels the scope in which the handler runs (`exchange.rs`).

mod body;
mod exchange;
mod transport;

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    io,
    net::Shutdown,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use hyper::{server::conn::http2::Builder, service::service_fn};
use ramie::{fiber, future::block_on};
use ramie_futures::LocalFibers;

use self::{exchange::Exchange, transport::Transport};
use crate::{
    connection::{Client, Phase, Presence, Service},
    io::{Input, Stream},
    limits::Limits,
};

/// What a client of HTTP/2 sends first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";
/// The most bytes of a response's body that hyper keeps until the client takes them.
const SEND_BUFFER: usize = 64 << 10;

/// What the fibers of a connection share.
pub(super) struct Shared {
    pub(super) service: Arc<Service>,
    pub(super) client: Client,
    /// How many handlers run, those of streams that were reset included.
    running: Cell<usize>,
    /// No more input will arrive.
    has_ended: Rc<Cell<bool>>,
    /// Wakes the fiber of the connection when a handler has ended.
    waker: RefCell<Waker>,
}

impl Shared {
    pub(super) fn limits(&self) -> &Limits {
        &self.service.limits
    }

    /// A handler begins. None: too many run already, because the client has reset their streams
    /// faster than they noticed it.
    pub(super) fn begin(self: &Rc<Self>) -> Option<Running> {
        let most = (self.limits().concurrent_streams as usize).saturating_mul(2);
        if self.running.get() >= most {
            return None;
        }
        self.running.set(self.running.get() + 1);
        Some(Running(Rc::clone(self)))
    }
}

/// Counts a handler as long as it runs.
pub(super) struct Running(Rc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
        let waker = self.0.waker.replace(Waker::noop().clone());
        waker.wake();
    }
}

/// Serves until either side closes the connection; `begin` has arrived already.
///
/// # Errors
/// Those of the stream, and of a client that breaks the protocol.
pub(crate) fn serve(
    stream: &Arc<Stream>,
    service: &Arc<Service>,
    presence: &impl Presence,
    client: &Client,
    begin: Input,
) -> io::Result<()> {
    let limits = &service.limits;
    // The overseer knows one write of a connection at a time, and not which fiber waits in it.
    stream.set_write_timeout(Some(limits.write_timeout))?;
    let shared = Rc::new(Shared {
        service: Arc::clone(service),
        client: client.clone(),
        running: Cell::new(0),
        has_ended: Rc::default(),
        waker: RefCell::new(Waker::noop().clone()),
    });
    let (transport, reader, writer) = Transport::new(begin, &shared.has_ended);
    fiber::scope(|fibers| {
        fibers.spawn_local(|| reader.run(stream));
        fibers.spawn_local(|| writer.run(stream));
        // The writer ends when it has sent everything.
        let _end = EndReader(stream);
        block_on(drive(&shared, transport, presence)).map_err(io::Error::other)
    })
}

/// Ends the fiber that reads a stream, also if hyper has panicked.
struct EndReader<'a>(&'a Stream);

impl Drop for EndReader<'_> {
    fn drop(&mut self) {
        let _ = self.0.transport().shutdown(Shutdown::Read);
    }
}

fn builder(limits: &Limits) -> Builder<LocalFibers> {
    let mut builder = Builder::new(LocalFibers);
    let head = u32::try_from(limits.head_bytes).unwrap_or(u32::MAX);
    builder
        .max_header_list_size(head)
        .max_concurrent_streams(limits.concurrent_streams)
        .max_send_buf_size(SEND_BUFFER);
    builder
}

/// Drives hyper's connection, and ends it when the server stops.
async fn drive(
    shared: &Rc<Shared>,
    transport: Transport,
    presence: &impl Presence,
) -> Result<(), hyper::Error> {
    let answer = service_fn(|request| Exchange::begin(shared, request));
    let mut connection = pin!(builder(shared.limits()).serve_connection(transport, answer));
    let mut life = Life { presence, shared, is_idle: false, has_said_goodbye: false };
    life.update();
    poll_fn(|context: &mut Context<'_>| {
        shared.waker.replace(context.waker().clone());
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

/// What the connection tells its server.
struct Life<'a, P> {
    presence: &'a P,
    shared: &'a Shared,
    is_idle: bool,
    has_said_goodbye: bool,
}

impl<P: Presence> Life<'_, P> {
    /// Returns whether the connection is to send GOAWAY now.
    fn update(&mut self) -> bool {
        let is_idle = self.shared.running.get() == 0;
        let was_idle = std::mem::replace(&mut self.is_idle, is_idle);
        let may_stay = match (was_idle, is_idle) {
            (false, true) => self.presence.enter_idle(),
            (true, false) => {
                // A request has begun.
                self.presence.enter(Phase::Head);
                self.presence.enter(Phase::Other);
                !self.presence.is_stopping()
            }
            (true, true) => true,
            (false, false) => !self.presence.is_stopping(),
        };
        let is_over = !may_stay || self.shared.has_ended.get();
        is_over && !std::mem::replace(&mut self.has_said_goodbye, true)
    }
}
