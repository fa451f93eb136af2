//! A protocol whose answers name their requests, and its server in this process.
//!
//! A request is a number and a delay in µs. The server answers with the number, after the delay and
//! in the order of the requests. So a connection that is used again although an answer is
//! outstanding gives the next request the wrong number.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use ramie::{
    fiber,
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::Event,
};
use ramie_pool::{ManageConnection, Pool, PoolBuilder};

pub(crate) struct Connection {
    stream: UnixStream,
    pub(crate) number: usize,
    /// An answer is outstanding.
    pub(crate) is_busy: bool,
    server: Arc<Server>,
    /// The other end, if the server does not answer.
    _peer: Option<UnixStream>,
}

impl Connection {
    /// Sends a request and returns the answer, which may be that of an earlier request.
    pub(crate) fn exchange(&mut self, request: u64, delay: Duration) -> io::Result<u64> {
        let mut frame = [0; 16];
        frame[..8].copy_from_slice(&request.to_le_bytes());
        let delay = u64::try_from(delay.as_micros()).unwrap();
        frame[8..].copy_from_slice(&delay.to_le_bytes());
        self.is_busy = true;
        self.stream.write_all(&frame)?;
        let mut answer = [0; 8];
        self.stream.read_exact(&mut answer)?;
        self.is_busy = false;
        Ok(u64::from_le_bytes(answer))
    }

    /// A request that is answered at once.
    #[track_caller]
    pub(crate) fn check(&mut self, request: u64) {
        assert_eq!(self.exchange(request, Duration::ZERO).unwrap(), request, "a wrong answer");
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server.open.fetch_sub(1, SeqCst);
        self.server.dropped.set();
    }
}

/// Whether a connection is broken.
type Judge = fn(&Connection) -> bool;

/// The server, as tests see and change it.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) opened: AtomicUsize,
    pub(crate) open: AtomicUsize,
    pub(crate) most_open: AtomicUsize,
    pub(crate) tests: AtomicUsize,
    /// It refuses connections.
    pub(crate) is_down: AtomicBool,
    /// It has forgotten the connections, so tests of them fail.
    pub(crate) has_restarted: AtomicBool,
    /// Is set when a connection has been dropped.
    pub(crate) dropped: Event,
    /// Is asked whether a connection is broken.
    pub(crate) judge: Mutex<Option<Judge>>,
}

/// Whether the server answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    Always,
    /// No read is in flight, which would hold a clock that jumps.
    Never,
}

pub(crate) struct Manager(Arc<Server>, Answers);

impl ManageConnection for Manager {
    type Connection = Connection;
    type Error = io::Error;

    fn connect(&self) -> io::Result<Connection> {
        let server = &self.0;
        if server.is_down.load(SeqCst) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (stream, theirs) = UnixStream::pair()?;
        let mut peer = Some(theirs);
        if self.1 == Answers::Always {
            let theirs = peer.take().unwrap();
            // A daemon, because a test that leaks connections would wait for it.
            fiber::spawn(move || fiber::as_daemon(|_| serve(theirs)));
        }
        let number = server.opened.fetch_add(1, SeqCst);
        let open = server.open.fetch_add(1, SeqCst) + 1;
        server.most_open.fetch_max(open, SeqCst);
        Ok(Connection { stream, number, is_busy: false, server: Arc::clone(server), _peer: peer })
    }

    fn is_valid(&self, connection: &mut Connection) -> io::Result<()> {
        self.0.tests.fetch_add(1, SeqCst);
        if self.0.has_restarted.load(SeqCst) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        connection.exchange(0, Duration::ZERO)?;
        Ok(())
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        self.0.judge.lock().unwrap().is_some_and(|judge| judge(connection))
    }
}

fn serve(mut stream: UnixStream) {
    let mut frame = [0; 16];
    while stream.read_exact(&mut frame).is_ok() {
        let delay = u64::from_le_bytes(frame[8..].try_into().unwrap());
        if delay > 0 {
            fiber::sleep(Duration::from_micros(delay));
        }
        if stream.write_all(&frame[..8]).is_err() {
            return;
        }
    }
}

type Set = PoolBuilder<Manager>;

fn make(set: impl FnOnce(Set) -> Set, answers: Answers) -> (Pool<Manager>, Arc<Server>) {
    let server = Arc::<Server>::default();
    (set(Pool::builder()).build(Manager(Arc::clone(&server), answers)), server)
}

/// Makes a pool and its server.
pub(crate) fn pool(set: impl FnOnce(Set) -> Set) -> (Pool<Manager>, Arc<Server>) {
    make(set, Answers::Always)
}

/// Makes a pool whose connections cannot be used, for tests on a clock that jumps.
pub(crate) fn silent_pool(set: impl FnOnce(Set) -> Set) -> (Pool<Manager>, Arc<Server>) {
    make(set, Answers::Never)
}

/// Lets the other fibers of this worker run until they wait.
pub(crate) fn let_others_run() {
    for _ in 0..20 {
        fiber::yield_now();
    }
}
