//! Accepts connections.
//!
//! A server that is short of descriptors neither ends nor spins: it waits a little longer after
//! each failure. A server that has as many connections as it may have answers 503 with
//! `Retry-After` (`refuse.rs`).

use std::{
    io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    thread,
    time::Duration,
};

use ramie::{
    fiber::{self, Builder, Place},
    net::TcpListener,
    os::unix::net::UnixListener,
};
use rustix::{fd::AsFd, io::Errno};

use super::{
    Admit, OnTrouble, Trouble,
    connections::{Connections, OpenConnection},
    entrance::{self, Entrance},
    needed::{self, Spawned},
    refuse::Refused,
};
use crate::{
    connection::{self, Client, Service},
    io::{Socket, Wire},
};

/// The shortest and the longest pause after an accept that has failed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// What the accepting fibers share.
pub(super) struct Acceptor<'a> {
    pub(super) connections: &'a Arc<Connections>,
    pub(super) service: Arc<Service>,
    pub(super) entrance: &'a Entrance,
    pub(super) admission: Option<&'a Admit>,
    pub(super) refused: Refused,
    pub(super) is_shared: bool,
    pub(super) on_trouble: &'a OnTrouble,
}

/// A listener of any kind.
pub(super) trait Listen: Sync {
    fn accept_one(&self) -> io::Result<Socket>;
    /// Lets clients that connect from now on be refused.
    fn close(&self);
}

impl Listen for &TcpListener {
    fn accept_one(&self) -> io::Result<Socket> {
        let (stream, _) = self.accept()?;
        // Responses are written whole, so delaying them for more data gains nothing. If the option
        // cannot be set, the connection is about to fail anyway.
        let _ = stream.set_nodelay(true);
        Ok(Socket::Tcp(stream))
    }

    fn close(&self) {
        shut_down(self);
    }
}

impl Listen for &UnixListener {
    fn accept_one(&self) -> io::Result<Socket> {
        self.accept().map(|(stream, _)| Socket::Unix(stream))
    }

    fn close(&self) {
        shut_down(self);
    }
}

fn shut_down(listener: impl AsFd) {
    // A socket that has failed already needs no shutdown.
    let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
}

impl Acceptor<'_> {
    /// Accepts on each worker until the server stops: from its own listeners, or from one that
    /// several workers share if there are fewer listeners than workers.
    pub(super) fn accept_on_each_worker(&self, listeners: &[TcpListener]) -> io::Result<()> {
        let workers = fiber::workers();
        fiber::scope(|fibers| {
            let accept = |worker: usize| {
                let place = Place::Worker(worker);
                let own = listeners.iter().skip(worker % listeners.len()).step_by(workers);
                let accept =
                    needed::closure(self.connections, move || self.accept_from(own, place));
                Builder::new().on(place).spawn_scoped(fibers, accept)
            };
            join_all((0..workers).map(accept).collect())
        })
    }

    /// Accepts from each of these listeners, on a fiber for each, until the server stops.
    pub(super) fn accept_from<'l>(
        &self,
        listeners: impl IntoIterator<Item = &'l TcpListener>,
        place: Place,
    ) -> io::Result<()> {
        let mut listeners = listeners.into_iter();
        let Some(first) = listeners.next() else { return Ok(()) };
        fiber::scope(|fibers| {
            let accept = |listener| {
                let accept =
                    needed::closure(self.connections, move || self.accept_all(&listener, place));
                Builder::new().spawn_scoped_local(fibers, accept)
            };
            let others = listeners.map(accept).collect();
            let accepted = self.accept_all(&first, place);
            join_all(others).and(accepted)
        })
    }

    /// Accepts until the server stops. When it returns or panics, the server stops, so that the
    /// other fibers that accept end, too.
    pub(super) fn accept_all(&self, listener: &impl Listen, place: Place) -> io::Result<()> {
        let _end = EndAccepting { acceptor: self, listener };
        self.connections.keep_accepting(|| self.accept_until_stop(listener, place))
    }

    fn accept_until_stop(&self, listener: &impl Listen, place: Place) -> io::Result<()> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            match listener.accept_one() {
                Ok(socket) => {
                    pause = SHORTEST_PAUSE;
                    self.serve(socket, place);
                }
                Err(_) if self.connections.is_stopping() => return Ok(()),
                Err(error) if ramie::cancel::is_cancelled(&error) => return Ok(()),
                Err(error) => match AcceptFailure::of(&error) {
                    AcceptFailure::OneConnection => {}
                    AcceptFailure::Shortage => {
                        (self.on_trouble)(&Trouble::CannotAccept(&error));
                        fiber::sleep(pause);
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                    AcceptFailure::Listener => return Err(error),
                },
            }
        }
    }

    fn serve(&self, socket: Socket, place: Place) {
        let limits = &self.service.limits;
        let peer = socket.peer_addr();
        let is_of_proxy = self.entrance.is_of_proxy(peer);
        let stream = match self.entrance.wrap(socket) {
            Ok(stream) => Arc::new(stream),
            Err(error) => return log::warn!("a connection cannot speak TLS: {error}"),
        };
        // The connections of a proxy count for the clients in its headers.
        let counted = peer.filter(|_| !is_of_proxy);
        let added = self.connections.add(stream, counted, limits);
        let connection = match added {
            Ok(connection) => connection,
            Err((stream, full)) => {
                if log::log_enabled!(log::Level::Debug) {
                    let client = Client { peer, ..Client::unknown() };
                    log::debug!("a connection of {client} is refused: {full}");
                }
                return self.refused.refuse(stream, place);
            }
        };
        if let Some(admits) = self.admission
            && !admits(self.connections.count())
        {
            return;
        }
        let on_trouble = Arc::clone(self.on_trouble);
        let mut admitted = Admitted { connection: Some(connection), on_trouble };
        let service = Arc::clone(&self.service);
        // If the spawn fails, the closure is dropped, which closes the connection.
        let spawn = || {
            Builder::new().on(place).spawn(move || {
                if let Some(connection) = admitted.connection.take() {
                    serve(&connection, peer, is_of_proxy, &service);
                }
            })
        };
        let _ = catch_unwind(AssertUnwindSafe(spawn));
    }
}

/// Waits until all of these fibers have ended. A panic is resumed, even if another fiber has an
/// error.
fn join_all(fibers: Vec<Spawned<'_, io::Result<()>>>) -> io::Result<()> {
    let mut joined = Vec::with_capacity(fibers.len());
    // All are joined before one is looked at, because the scope panics for each fiber that has no
    // value and was not joined.
    for fiber in fibers {
        joined.push(needed::join(fiber));
    }
    let joined: thread::Result<Vec<_>> = joined.into_iter().collect();
    let joined = joined.unwrap_or_else(|panic| resume_unwind(panic));
    joined.into_iter().try_for_each(Result::flatten)
}

/// Ends the server when one fiber accepts no more.
struct EndAccepting<'a, L: Listen> {
    acceptor: &'a Acceptor<'a>,
    listener: &'a L,
}

impl<L: Listen> Drop for EndAccepting<'_, L> {
    fn drop(&mut self) {
        // The server stops first. Otherwise another fiber that accepts from this listener would
        // take the shutdown for a failure.
        self.acceptor.connections.stop();
        if !self.acceptor.is_shared {
            self.listener.close();
        }
    }
}

/// A connection before its fiber runs. If there is no stack for the fiber, the runtime drops the
/// closure with this.
struct Admitted {
    connection: Option<OpenConnection>,
    on_trouble: OnTrouble,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if self.connection.is_some() {
            (self.on_trouble)(&Trouble::NoFiber);
        }
    }
}

/// Not inlined, for the reason of `connection::converse`.
#[inline(never)]
fn serve(
    connection: &OpenConnection,
    peer: Option<SocketAddr>,
    is_of_proxy: bool,
    service: &Arc<Service>,
) {
    let mut wire = Wire::new(connection.stream());
    let mut client = Client { peer, connection: connection.key(), ..Client::unknown() };
    let served = entrance::enter(connection, &mut wire, &mut client, is_of_proxy, &service.limits)
        .and_then(|()| connection::serve(&mut wire, service, connection.presence(), &client));
    if let Err(error) = served {
        log_failure(&error);
    }
}

#[cold]
#[inline(never)]
fn log_failure(error: &io::Error) {
    log::debug!("a connection has failed: {error}");
}

/// The object that an error of accept(2) concerns.
enum AcceptFailure {
    /// The connection, which the client has closed already.
    OneConnection,
    /// The process or the system, which is short of descriptors or buffers.
    Shortage,
    /// The listening socket.
    Listener,
}

impl AcceptFailure {
    fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                AcceptFailure::Shortage
            }
            Some(Errno::BADF | Errno::INVAL | Errno::NOTSOCK) => AcceptFailure::Listener,
            _ => AcceptFailure::OneConnection,
        }
    }
}
