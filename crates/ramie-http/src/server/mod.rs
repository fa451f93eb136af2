//! Accepts connections, and serves each on a fiber.

mod accept;
mod connections;
mod entrance;
mod needed;
mod overseer;
mod proxy_header;
mod refuse;
mod systemd;

use std::{
    fmt, io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::Duration,
};

use ramie::{
    cancel::CancelHandle,
    fiber::{self, Builder, Place},
    net::{TcpListener, ToSocketAddrs},
    os::unix::net::UnixListener,
};

pub(crate) use self::connections::request_time::set as set_request_time;
use self::{
    accept::Acceptor,
    connections::{Connections, request_time},
    entrance::Entrance,
    overseer::Ticks,
    refuse::Refused,
    systemd::Passed,
};
use crate::{connection::Service, limits::Limits, network::Network, router::Router};

/// How long a new connection may take to begin its first request once the server stops.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// An HTTP server.
///
/// # Examples
/// ```no_run
/// use ramie_http::{Router, Server, get};
///
/// #[ramie::main]
/// fn main() -> std::io::Result<()> {
///     let router = Router::new().route("/", get(|| "Hello, world!\n"));
///     Server::bind("127.0.0.1:8080")?.serve(router)
/// }
/// ```
///
/// A server that stops on SIGTERM and on Ctrl-C. Requests that run get [`grace`](Self::grace):
/// ```no_run
/// use ramie::{signal::{Signal, Signals}, structured::race};
/// use ramie_http::{Router, Server, get};
///
/// #[ramie::main]
/// fn main() -> std::io::Result<()> {
///     let router = Router::new().route("/", get(|| "Hello, world!\n"));
///     let server = Server::bind("127.0.0.1:8080")?;
///     let signals = Signals::new([Signal::TERM, Signal::INT])?;
///     // The signal ends the race, and so cancels `serve`, which then stops the server in order.
///     // If the server fails, the race cancels the wait for the signal.
///     let ended = race(|racers| {
///         racers.spawn(|| signals.wait().map(drop));
///         racers.spawn(|| server.serve(router));
///     });
///     ended.expect("two strands")
/// }
/// ```
pub struct Server {
    listeners: Listeners,
    limits: Limits,
    place: Option<Place>,
    grace: Duration,
    admission: Option<Admit>,
    entrance: Entrance,
    is_shared: bool,
    tolerates_half_close: bool,
    on_trouble: OnTrouble,
    connections: Arc<Connections>,
}

/// Decides whether one more connection is served, by the number of open ones.
type Admit = Arc<dyn Fn(usize) -> bool + Send + Sync>;

/// What a server reports while it goes on.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trouble<'a> {
    /// It is short of descriptors or memory, so new connections wait in the listener's queue.
    CannotAccept(&'a io::Error),
    /// There is no stack for the fiber of a connection, which was closed: memory is used up or,
    /// before Linux 6.13, `vm.max_map_count` (the runtime logs which).
    NoFiber,
    /// So many connections were still busy when the grace period ended, so they were closed.
    StillBusy(usize),
}

impl fmt::Display for Trouble<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::CannotAccept(error) => {
                write!(f, "cannot accept more connections for now ({error}), so new ones wait")
            }
            Trouble::NoFiber => {
                f.write_str("there is no stack for the fiber of a connection, so it was closed")
            }
            Trouble::StillBusy(count) => {
                write!(f, "connections that were busy at the end of the grace were closed: {count}")
            }
        }
    }
}

type OnTrouble = Arc<dyn Fn(&Trouble<'_>) + Send + Sync>;

enum Listeners {
    Tcp(Vec<TcpListener>),
    Unix(UnixListener),
}

impl Server {
    fn new(listeners: Listeners) -> Self {
        Server {
            listeners,
            limits: Limits::default(),
            place: None,
            grace: Duration::from_secs(10),
            admission: None,
            entrance: Entrance::default(),
            is_shared: false,
            tolerates_half_close: false,
            on_trouble: Arc::new(|trouble| log::warn!("{trouble}")),
            connections: Arc::new(Connections::new()),
        }
    }

    /// Listens on an address, with one listener for each worker: the kernel distributes the
    /// connections, and each stays on the worker that has accepted it.
    ///
    /// # Errors
    /// As [`TcpListener::bind_per_worker`]: as std's, they do not name the address.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        TcpListener::bind_per_worker(address).map(Server::on_each)
    }

    /// Serves the connections of one listener; all workers accept from it.
    pub fn on(listener: TcpListener) -> Self {
        Server::on_each(vec![listener])
    }

    /// Serves the connections of any number of listeners. If there are more listeners than workers,
    /// a worker accepts from several. If there are fewer, several workers accept from the same one.
    ///
    /// # Panics
    /// If there is no listener.
    #[track_caller]
    pub fn on_each(listeners: Vec<TcpListener>) -> Self {
        assert!(!listeners.is_empty(), "a server needs a listener");
        Server::new(Listeners::Tcp(listeners))
    }

    /// Serves the connections of a Unix socket.
    pub fn on_unix(listener: UnixListener) -> Self {
        Server::new(Listeners::Unix(listener))
    }

    /// Serves the connections of the sockets that systemd has opened for this service: all of them,
    /// or those with a name (`FileDescriptorName=`). All must be of TCP, or one Unix socket. Each
    /// is passed once, so a second call finds only those that are left.
    ///
    /// # Errors
    /// - [`io::ErrorKind::NotFound`]: systemd has passed no such socket to this process.
    /// - [`io::ErrorKind::InvalidInput`]: they are of several kinds, or do not listen.
    ///
    /// # Examples
    /// ```no_run
    /// use ramie_http::Server;
    ///
    /// // Under systemd its socket, otherwise one of its own.
    /// let server = match Server::from_systemd(None) {
    ///     Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
    ///         Server::bind("127.0.0.1:8080")
    ///     }
    ///     server => server,
    /// };
    /// # let _ = server;
    /// ```
    pub fn from_systemd(name: Option<&str>) -> io::Result<Self> {
        let mut listeners = Vec::new();
        let mut unix = Vec::new();
        for socket in systemd::take(name)? {
            match socket {
                Passed::Tcp(socket) => listeners.push(TcpListener::from(socket)),
                Passed::Unix(socket) => unix.push(UnixListener::from(socket)),
            }
        }
        match (listeners.is_empty(), unix.pop()) {
            (false, None) => Ok(Server::on_each(listeners)),
            (true, Some(listener)) if unix.is_empty() => Ok(Server::on_unix(listener)),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the sockets of systemd are of several kinds: give them names, and each a server",
            )),
        }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the worker on which the fiber of a connection starts. By default, a fiber on each
    /// worker accepts, and a connection stays on the worker that has accepted it. With this
    /// setting, the worker that calls [`serve`](Self::serve) accepts all connections.
    #[must_use]
    pub fn place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// How long requests may take once the server stops; 10 s by default. Then everything that
    /// they wait for is cancelled, and their connections are closed; [`serve`](Self::serve) says
    /// what becomes of handlers that wait for something else.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Asks `admits`, with the number of open connections, before each new connection is served;
    /// if it returns false, the connection is closed.
    #[must_use]
    pub fn admit_if(mut self, admits: impl Fn(usize) -> bool + Send + Sync + 'static) -> Self {
        self.admission = Some(Arc::new(admits));
        self
    }

    /// Speaks TLS on all connections. With the feature `http2`, clients choose between HTTP/2 and
    /// HTTP/1.1 (ALPN).
    ///
    /// # Examples
    /// A second server, on port 80, sends clients here:
    /// ```no_run
    /// use std::io;
    /// use ramie::structured::race;
    /// use ramie_http::{Redirect, Router, Server, Tls, TlsConfig, Uri, get};
    ///
    /// #[ramie::main]
    /// fn main() -> io::Result<()> {
    ///     let tls = Tls::new(TlsConfig::from_files("chain.pem", "key.pem")?)?;
    ///     let https = Server::bind("0.0.0.0:443")?.tls(&tls);
    ///     let http = Server::bind("0.0.0.0:80")?;
    ///     let router = Router::new().route("/", get(|| "Hello, world!\n"));
    ///     let redirects = Router::new().fallback(|uri: Uri| {
    ///         let path = uri.path_and_query().map_or("/", |path| path.as_str());
    ///         Redirect::permanent(format!("https://example.org{path}"))
    ///     });
    ///     // If one server fails, the race stops the other.
    ///     let ended = race(|racers| {
    ///         racers.spawn(|| https.serve(router));
    ///         racers.spawn(|| http.serve(redirects));
    ///     });
    ///     ended.expect("two strands")
    /// }
    /// ```
    /// Ports below 1024 need the capability `CAP_NET_BIND_SERVICE`, or listeners of systemd
    /// ([`from_systemd`](Self::from_systemd)).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: &crate::Tls) -> Self {
        self.entrance.tls = Some(tls.clone());
        self
    }

    /// Expects a header of the PROXY protocol, version 1 or 2, in front of each connection from
    /// these networks, and takes the address of the client from it. The further fields of version 2
    /// are [`ProxyFields`](crate::ProxyFields). Connections from elsewhere
    /// begin without one, and count as those of clients. The connections of Unix sockets count as
    /// those of a proxy.
    ///
    /// A connection of a proxy that does not begin with a header is closed, as is one whose header
    /// takes longer than `Limits::handshake_timeout`, and one whose client has more connections
    /// than `Limits::connections_per_address` (without a 503).
    ///
    /// # Examples
    /// ```
    /// use ramie_http::{Network, Server};
    ///
    /// fn behind_proxies(server: Server) -> Result<Server, ramie_http::NetworkError> {
    ///     Ok(server.proxy_protocol(["10.0.0.0/8".parse()?, "::1".parse()?]))
    /// }
    /// ```
    #[must_use]
    pub fn proxy_protocol(mut self, proxies: impl IntoIterator<Item = Network>) -> Self {
        self.entrance.proxies = Some(proxies.into_iter().collect());
        self
    }

    /// Other processes accept from the same listeners, so a stop of this server leaves them open.
    #[must_use]
    pub fn shares_listeners(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Calls `f` when something goes wrong that does not end the server, instead of writing it to
    /// the log.
    #[must_use]
    pub fn on_trouble(mut self, f: impl Fn(&Trouble<'_>) + Send + Sync + 'static) -> Self {
        self.on_trouble = Arc::new(f);
        self
    }

    /// Lets a client shut its write side down behind its request and still get the response. By
    /// default, a client that does so counts as gone, because a closed connection looks the same:
    /// its handler is cancelled.
    #[must_use]
    pub fn tolerates_half_close(mut self) -> Self {
        self.tolerates_half_close = true;
        self
    }

    /// The IP address and the port that the server listens on.
    ///
    /// # Errors
    /// As [`TcpListener::local_addr`]. [`io::ErrorKind::Unsupported`] if the server listens on a
    /// Unix socket, because the address of a Unix socket is not a [`SocketAddr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.listeners {
            Listeners::Tcp(listeners) => listeners[0].local_addr(),
            Listeners::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// A handle that stops the server.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { connections: Arc::clone(&self.connections) }
    }

    /// Accepts and serves connections until the server is stopped and all connections are closed,
    /// at most until a second after the period of [`grace`](Self::grace).
    ///
    /// A handler that is at no cancel point by then, such as one that waits for a mutex, runs on,
    /// and [`ramie::run`] waits for it. [`grace`](ramie::Builder::grace) of the runtime limits this
    /// wait.
    ///
    /// # Blocking
    /// Parks the fiber until then.
    ///
    /// # Cancellation
    /// A cancel point: the server then stops.
    ///
    /// # Errors
    /// If a listener fails for good. [`OutOfMemory`](io::ErrorKind::OutOfMemory) if there is no
    /// memory for the fibers that accept, or for the one that ends what takes longer than the
    /// limits. Being short of descriptors or memory later is no such failure: the server then
    /// waits, and tries again.
    ///
    /// # Panics
    /// If a closure of [`admit_if`](Self::admit_if) or [`on_trouble`](Self::on_trouble) panics. The
    /// server then stops first.
    pub fn serve(self, router: Router) -> io::Result<()> {
        let ticks = Ticks::of_limits(&self.limits);
        request_time::register(&self.connections, ticks.length());
        let service = Arc::new(Service { router, limits: self.limits });
        let end = &ramie::cancel::scope(|overseeing| overseeing.handle());
        let (connections, half_close) = (&self.connections, self.tolerates_half_close);
        fiber::scope(|fibers| {
            // A cancellation of the caller stops the server; its connections still need limits
            // until they have ended.
            let oversee = needed::closure(connections, move || {
                let oversee = || overseer::oversee(connections, ticks, half_close);
                ramie::cancel::shield(|| end.run(oversee));
            });
            let overseer = Builder::new().spawn_scoped(fibers, oversee);
            // Also cancelled by a panic, because the scope waits for the overseer.
            let end = EndOverseeing(end);
            // The connections that are open when accepting panics get the same grace as others.
            let accepted = catch_unwind(AssertUnwindSafe(|| self.accept_all(&service)));
            self.connections.stop();
            self.connections.complete();
            self.wait_for_connections();
            drop(end);
            let overseen = needed::join(overseer);
            accepted.unwrap_or_else(|panic| resume_unwind(panic))?;
            overseen.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    fn accept_all(&self, service: &Arc<Service>) -> io::Result<()> {
        let acceptor = Acceptor {
            connections: &self.connections,
            service: Arc::clone(service),
            entrance: &self.entrance,
            admission: self.admission.as_ref(),
            refused: Refused::default(),
            is_shared: self.is_shared,
            on_trouble: &self.on_trouble,
        };
        match (&self.listeners, self.place) {
            (Listeners::Unix(listener), place) => {
                acceptor.accept_all(&listener, place.unwrap_or_default())
            }
            (Listeners::Tcp(listeners), Some(place)) => acceptor.accept_from(listeners, place),
            (Listeners::Tcp(listeners), None) => acceptor.accept_on_each_worker(listeners),
        }
    }

    /// Waits until all connections are closed, and closes them when their time is up.
    fn wait_for_connections(&self) {
        let gone = self.connections.all_gone();
        let wait = |time| matches!(ramie::cancel::shield(|| gone.wait_timeout(time)), Ok(true));
        if wait(FIRST_REQUEST_GRACE.min(self.grace)) {
            return;
        }
        self.connections.dismiss_all();
        if wait(self.grace.saturating_sub(FIRST_REQUEST_GRACE)) {
            return;
        }
        let count = self.connections.cut_all();
        if count > 0 {
            (self.on_trouble)(&Trouble::StillBusy(count));
        }
        wait(FIRST_REQUEST_GRACE);
    }
}

/// Ends the overseer of a server.
struct EndOverseeing<'a>(&'a CancelHandle);

impl Drop for EndOverseeing<'_> {
    fn drop(&mut self) {
        self.0.cancel_because("the server has ended");
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.local_addr().ok();
        f.debug_struct("Server").field("address", &address).finish_non_exhaustive()
    }
}

/// Stops a server; from any thread.
#[derive(Clone)]
pub struct ServerHandle {
    connections: Arc<Connections>,
}

impl ServerHandle {
    /// Lets the server accept no more connections, close those that are idle, and close the others
    /// behind their next response. A connection that is new gets a second for its first request. A
    /// WebSocket is closed with 1001 when its handler reads. Then [`Server::serve`] returns.
    ///
    /// # Blocking
    /// Never.
    pub fn stop(&self) {
        self.connections.stop();
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.connections.count()
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle").field("connections", &self.connections()).finish()
    }
}
