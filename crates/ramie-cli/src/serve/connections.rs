//! The open connections of a server, and how a stop closes them.
//!
//! | state of a connection | left when | for |
//! |---|---|---|
//! | idle (has received no part of a request) | bytes arrive | busy |
//! | busy (part of a request has arrived, or it is answered) | the last answer is written | idle, or closed |
//! | closed | | |
//!
//! A stop sets the flag, cancels the accept calls, shuts the listeners down unless other processes
//! share them, and shuts down the read side of each idle connection, whose read then returns "end
//! of stream". A busy connection sees the flag after its answer. A new connection has one second
//! for its first request, because the request may be on its way.
//!
//! The race to fear: a connection becomes idle while the server stops. The connection first stores
//! `is_idle`, then loads the flag; `stop` first sets the flag, then loads `is_idle`. All four
//! accesses are SeqCst, so at least one side sees the other's store. If a request arrives just
//! before the read side is shut down, the kernel still returns it, so it is answered.
//!
//! `shutdown` never uses a bare descriptor number: the code that shuts a read side down holds the
//! stream, so the descriptor cannot have been closed and reused for something else.

use std::{
    collections::HashMap,
    io,
    net::Shutdown,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use ramie::{
    cancel::{self, CancelHandle},
    net::{TcpListener, TcpStream},
};

pub(super) struct Connections {
    listeners: Vec<TcpListener>,
    /// Set if other processes accept from the listener, too.
    is_shared: bool,
    is_stopping: AtomicBool,
    accepting: Mutex<Vec<CancelHandle>>,
    /// Held for a few instructions and never across a park, so std's lock is safe on fibers.
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next_key: u64,
    present: HashMap<u64, Arc<Shared>>,
}

struct Shared {
    stream: TcpStream,
    is_idle: AtomicBool,
    /// Set until the first request begins.
    is_new: AtomicBool,
}

/// One connection. Dropping it closes the connection.
pub(super) struct Connection {
    connections: Arc<Connections>,
    key: u64,
    shared: Arc<Shared>,
}

impl Connections {
    pub(super) fn new(listeners: Vec<TcpListener>, is_shared: bool) -> Self {
        Connections {
            listeners,
            is_shared,
            is_stopping: AtomicBool::new(false),
            accepting: Mutex::default(),
            table: Mutex::default(),
        }
    }

    /// Runs `f`, whose accept calls fail once the server stops.
    pub(super) fn keep_accepting<T>(&self, f: impl FnOnce() -> T) -> T {
        cancel::scope(|scope| {
            lock(&self.accepting).push(scope.handle());
            // `stop` sets the flag before it reads the handles, so one of the two cancels.
            if self.is_stopping() {
                scope.cancel();
            }
            f()
        })
    }

    /// Waits for the next connection of listener number `listener`. A single listener serves every
    /// number.
    pub(super) fn accept(self: &Arc<Self>, listener: usize) -> io::Result<Connection> {
        let (stream, _) = self.listeners[listener % self.listeners.len()].accept()?;
        // Answers are written whole, so delaying them for more data gains nothing. If the option
        // cannot be set, the connection is about to fail anyway.
        let _ = stream.set_nodelay(true);
        let shared = Arc::new(Shared {
            stream,
            is_idle: AtomicBool::new(false),
            is_new: AtomicBool::new(true),
        });
        let mut table = self.table();
        let key = table.next_key;
        table.next_key += 1;
        table.present.insert(key, Arc::clone(&shared));
        drop(table);
        Ok(Connection { connections: Arc::clone(self), key, shared })
    }

    pub(super) fn count(&self) -> usize {
        self.table().present.len()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Stops accepting and closes idle connections. May be called on any thread.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        for accepting in lock(&self.accepting).iter() {
            accepting.cancel();
        }
        for listener in self.listeners.iter().filter(|_| !self.is_shared) {
            // A socket that has failed already needs no shutdown.
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
        self.dismiss(|shared| !shared.is_new.load(Ordering::SeqCst));
    }

    /// Closes the connections that are idle, new ones included.
    pub(super) fn dismiss_all(&self) {
        self.dismiss(|_| true);
    }

    fn dismiss(&self, is_to_leave: impl Fn(&Shared) -> bool) {
        let present: Vec<_> = self.table().present.values().cloned().collect();
        for shared in present {
            if shared.is_idle.load(Ordering::SeqCst) && is_to_leave(&shared) {
                let _ = shared.stream.shutdown(Shutdown::Read);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    pub(super) fn stream(&self) -> &TcpStream {
        &self.shared.stream
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.connections.is_stopping()
    }

    /// Marks the connection idle. Returns false if the server stops, so the caller closes it.
    pub(super) fn set_idle(&self) -> bool {
        self.shared.is_idle.store(true, Ordering::SeqCst);
        !self.connections.is_stopping() || self.shared.is_new.load(Ordering::Relaxed)
    }

    /// Marks the connection busy: a request has begun.
    pub(super) fn set_busy(&self) {
        self.shared.is_idle.store(false, Ordering::Relaxed);
        self.shared.is_new.store(false, Ordering::Relaxed);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let shared = self.connections.table().present.remove(&self.key);
        // The stream closes here, after the lock is released, unless `stop` holds it just now.
        drop(shared);
    }
}
