//! Dumps and figures for other processes: one thread of the process answers requests on a socket.
//!
//! It is a plain thread, because it has to answer while all workers hang. The first runtime that
//! asks for it starts it, all runtimes share it, and it ends with the last of them.
//!
//! # Protocol on the socket
//! The client sends one line: `dump text`, `dump json`, each of them also followed by `backtraces`,
//! and then by `name TEXT`, `summary text`, `summary json`, `strand text ID`, `strand json ID`, or
//! `metrics`. The process answers `ok LENGTH`, a line break and that many bytes, or `error TEXT`
//! and a line break, and closes the connection. So a client notices an answer that was cut off. The
//! request `trace SECONDS` is answered by `ok trace`, a line break and a trace
//! ([`trace`](super::trace)), by a thread of its own, so that others need not wait for it.
//!
//! # Limits
//! One client is served at a time; others wait in the socket's queue. A client that sends no
//! request within [`REQUEST_TIME`], or takes nothing of its answer within [`PAUSE`], or not all of
//! it within [`ANSWER_TIME`], is disconnected. A trace must be taken within its time and
//! [`GRACE`] on top, so a client that reads slowly cannot keep others from a trace.
//!
//! [`REQUEST_TIME`]: super::exchange::REQUEST_TIME
//! [`PAUSE`]: super::exchange::PAUSE
//! [`ANSWER_TIME`]: super::exchange::ANSWER_TIME
//!
//! # The end
//!
//! | the server is | changed by |
//! |---|---|
//! | serving | the last runtime: it removes the file, sets `is_over`, shuts down the listener and the connection, and joins the thread |
//! | over | the thread, which returns |
//!
//! *The race to fear* is an end that misses the connection which the thread has just accepted. The
//! thread puts the connection into `client`, under the lock, before it looks at `is_over`; the end
//! sets `is_over` before it looks into `client`. So one of them sees the other.

use std::{
    io,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use ramie_driver::{
    logging, say,
    sys::{self, RuntimeThread, Shutdown},
};

use super::{
    Dump, DumpOptions, Summary, collect,
    exchange::{receive, send, send_until},
    per_process::{PartUse, PerProcess},
    socket::DumpSocket,
    summarize,
    trace::{GRACE, MOST_SECONDS, TraceClients},
};
use crate::{core::strand, metrics, unwind};

const UNKNOWN_REQUEST: &[u8] =
    b"error unknown request; expected dump text, dump json (each may be \
    followed by backtraces, and then by name TEXT), summary text, summary json, strand text ID, \
    strand json ID, metrics or trace SECONDS (1 to 600)\n";
const _: () = assert!(MOST_SECONDS == 600 && GRACE.as_secs() == 10);
const NO_STRAND: &[u8] = b"error there is no such strand; it may have ended\n";
const NO_BACKTRACES: &[u8] =
    b"error this program makes no backtraces; build it for x86-64 with the \
    feature `backtrace` of the crate ramie\n";
/// How long a dump waits for workers that run a fiber without suspending.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// How long the thread waits if the process is out of descriptors.
const RETRY: Duration = Duration::from_millis(100);
/// The thread's stack.
pub(super) const STACK: usize = 256 * 1024;

static SERVER: PerProcess<DumpServer> = PerProcess::new();

/// Lets other processes ask this one for dumps until the value is dropped. If the socket cannot be
/// opened, a warning goes to stderr and to the log.
pub(crate) fn serve() -> Option<PartUse<DumpServer>> {
    let served = SERVER.begin(DumpServer::start);
    served.map_err(|error| warn(&format!("no `ramie dump` of this process: {error}"))).ok()
}

/// Warns of something that a program goes on without.
pub(super) fn warn(line: &str) {
    logging::print_unless_full(format_args!("ramie: {line}"));
    say!(Warn, "{line}");
}

/// Returns the path of the socket on which this process answers requests for dumps; `None` if no
/// runtime that runs now has asked for it.
///
/// The file has the name `PID.sock`. It lies in `$XDG_RUNTIME_DIR/ramie`, or in
/// `/run/user/UID/ramie`, or in `/tmp/ramie-UID`: in the first of them whose parent directory
/// exists and belongs to the user.
///
/// # Examples
/// ```
/// let runtime = ramie::Runtime::builder().workers(1).inspect(true).build()?;
/// let path = runtime.run(|| ramie::inspect::socket_path());
/// assert!(path.is_some_and(|path| path.ends_with(format!("{}.sock", std::process::id()))));
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn socket_path() -> Option<PathBuf> {
    let path_of = |server: &DumpServer| Some(server.socket.as_ref()?.path().to_owned());
    SERVER.with(path_of).flatten()
}

/// The socket and the thread that serves it; both end when this is dropped.
pub(crate) struct DumpServer {
    /// `None`: the file is removed.
    socket: Option<DumpSocket>,
    state: Arc<ServerState>,
    thread: Option<JoinHandle<()>>,
}

struct ServerState {
    listener: OwnedFd,
    /// The connection that is being served.
    client: Mutex<Option<Arc<OwnedFd>>>,
    traces: TraceClients,
    is_over: AtomicBool,
}

impl DumpServer {
    fn start() -> io::Result<DumpServer> {
        let (socket, listener) = DumpSocket::open()?;
        let state = Arc::new(ServerState {
            listener,
            client: Mutex::default(),
            traces: TraceClients::default(),
            is_over: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&state);
        let builder = thread::Builder::new().name("ramie-inspect".to_owned()).stack_size(STACK);
        let thread = builder.spawn(move || theirs.run()).map_err(|error| {
            let text = format!("no thread for it ({error}); raise `ulimit -u` or `ulimit -v`");
            io::Error::new(error.kind(), text)
        })?;
        Ok(DumpServer { socket: Some(socket), state, thread: Some(thread) })
    }
}

impl Drop for DumpServer {
    fn drop(&mut self) {
        drop(self.socket.take());
        self.state.is_over.store(true, Ordering::SeqCst);
        // Both end calls of the thread that wait.
        let _ = sys::shutdown(&self.state.listener, Shutdown::Both);
        if let Some(client) = &*self.state.client() {
            let _ = sys::shutdown(client, Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.state.traces.end();
    }
}

impl ServerState {
    fn client(&self) -> MutexGuard<'_, Option<Arc<OwnedFd>>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn run(&self) {
        let _mark = RuntimeThread::enter();
        sys::block_signals();
        while !self.is_over() {
            // The kernel reserves the descriptor before it waits. So a process that has used up its
            // descriptors since then can still be dumped.
            match sys::accept(&self.listener) {
                Ok((client, _)) => self.attend(client),
                // The client has gone, or the process is out of descriptors or memory.
                Err(_) if !self.is_over() => thread::park_timeout(RETRY),
                Err(_) => {}
            }
        }
    }

    /// Serves one client.
    fn attend(&self, client: OwnedFd) {
        let client = Arc::new(client);
        *self.client() = Some(Arc::clone(&client));
        if !self.is_over() {
            // A client that has gone needs no answer.
            let _ = self.answer(&client);
        }
        *self.client() = None;
    }

    fn answer(&self, client: &Arc<OwnedFd>) -> io::Result<()> {
        let peer = sys::peer_credentials(client)?;
        if ![0, sys::effective_user_id()].contains(&peer.user) {
            return send(client, b"error this process belongs to another user\n");
        }
        let request = receive(client)?;
        if let Some(time) = trace_time(&request) {
            let begun = self.traces.begin(client, time, send_until);
            return begun.or_else(|why| send(client, format!("error {why}\n").as_bytes()));
        }
        let text = match &request[..] {
            [b'd', b'u', b'm', b'p', b' ', rest @ ..] => match DumpRequest::parse(rest) {
                None => return send(client, UNKNOWN_REQUEST),
                Some(dump) if dump.has_backtraces && !unwind::IS_AVAILABLE => {
                    return send(client, NO_BACKTRACES);
                }
                Some(dump) => dump.answer(|| self.is_over()),
            },
            b"summary text" => self.summary().to_string(),
            b"summary json" => self.summary().to_json() + "\n",
            [b's', b't', b'r', b'a', b'n', b'd', b' ', rest @ ..] => match self.strand(rest) {
                Some(text) => text,
                None => return send(client, NO_STRAND),
            },
            b"metrics" => metrics::snapshot().prometheus().to_string(),
            _ => return send(client, UNKNOWN_REQUEST),
        };
        if self.is_over() {
            return Ok(());
        }
        send(client, format!("ok {}\n", text.len()).as_bytes())?;
        send(client, text.as_bytes())
    }

    fn summary(&self) -> Summary {
        summarize::summary(|| self.is_over())
    }

    /// The dump of one strand, by the rest of the request: `text ID` or `json ID`.
    fn strand(&self, rest: &[u8]) -> Option<String> {
        let (form, id) = std::str::from_utf8(rest).ok()?.split_once(' ')?;
        let options =
            DumpOptions::new().limit(SILENCE).backtraces(true).only(strand::find_by_text(id)?);
        let dump = collect::dump(&options, || self.is_over());
        match form {
            _ if dump.strands.is_empty() => None,
            "text" => Some(dump.to_string()),
            "json" => Some(json_of(dump)),
            _ => None,
        }
    }
}

/// A request for a dump.
struct DumpRequest<'a> {
    is_json: bool,
    has_backtraces: bool,
    name: Option<&'a str>,
}

impl<'a> DumpRequest<'a> {
    /// Parses what follows `dump `: `text` or `json`, then perhaps `backtraces`, then perhaps `name
    /// TEXT`, whose text may contain spaces.
    fn parse(rest: &'a [u8]) -> Option<Self> {
        let rest = std::str::from_utf8(rest).ok()?;
        let (form, rest) = rest.split_at_checked(4)?;
        let is_json = ["text", "json"].iter().position(|known| *known == form)? == 1;
        let without_backtraces = rest.strip_prefix(" backtraces");
        let has_backtraces = without_backtraces.is_some();
        let name = match without_backtraces.unwrap_or(rest) {
            "" => None,
            rest => Some(rest.strip_prefix(" name ")?),
        };
        Some(DumpRequest { is_json, has_backtraces, name })
    }

    fn answer(&self, is_unwanted: impl Fn() -> bool) -> String {
        let options = DumpOptions::new().limit(SILENCE).backtraces(self.has_backtraces);
        let options = match self.name {
            Some(name) => options.name(name),
            None => options,
        };
        let dump = collect::dump(&options, is_unwanted);
        if self.is_json { json_of(dump) } else { dump.to_string() }
    }
}

fn json_of(mut dump: Dump) -> String {
    dump.name_descriptors();
    dump.to_json() + "\n"
}

/// The time of a request for a trace.
fn trace_time(request: &[u8]) -> Option<Duration> {
    let seconds = request.strip_prefix(b"trace ")?;
    let is_number = seconds.iter().all(u8::is_ascii_digit) && !seconds.starts_with(b"0");
    let seconds = std::str::from_utf8(seconds).ok().filter(|_| is_number)?.parse().ok()?;
    (1..=MOST_SECONDS).contains(&seconds).then(|| Duration::from_secs(seconds))
}
