//! The open connections of a server, and how a stop closes them.
//!
//! | state of a connection | left when | for |
//! |---|---|---|
//! | idle (waits for a request, or parses the head of one) | the handler begins, or part of a head is missing | busy |
//! | busy (waits for the rest of a head, or answers) | the response is written | idle, or closed |
//! | closed | | |
//!
//! A stop sets the flag, cancels the accept calls, shuts the listeners down unless other processes
//! share them, and shuts down the read side of each idle connection, whose read then returns "end
//! of stream". A busy connection sees the flag when it answers. A WebSocket that reads is woken by
//! a scope, and says goodbye. A new connection is spared until
//! [`Connections::dismiss_all`], because its first request may be on its way.
//!
//! *The race to fear*: a connection becomes idle while the server stops. The connection first
//! stores its phase, then loads the flag; `stop` first sets the flag, then loads the phase. If all
//! four accesses were SeqCst, at least one side would see the other's store, but each request would
//! execute a locked instruction. They are Relaxed, so both sides may miss the other's store, and
//! the connection then waits for a request. Its store was issued before the flag was set, and cores
//! hold stores back for less than a microsecond. So the overseer dismisses the idle connections
//! once more, when it has seen the flag for a whole tick.
//!
//! If a request arrives just before the read side is shut down, the kernel still returns it, so it
//! is answered.
//!
//! `shutdown` never uses a bare descriptor number: the code that shuts a read side down holds the
//! stream, so the descriptor cannot have been closed and reused for something else.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence},
    },
    time::Duration,
};

use ramie::{cancel::CancelHandle, sync::Event};

use super::overseer::PhaseWord;
use crate::{
    connection::{Phase, Presence, Verdict},
    io::Stream,
    limits::Limits,
};

/// All open connections.
pub(super) struct Connections {
    is_stopping: AtomicBool,
    /// No connection is added any more.
    is_complete: AtomicBool,
    accepting: Mutex<Vec<CancelHandle>>,
    /// Cancelled when the server begins to stop.
    until_stop: CancelHandle,
    /// Held for some instructions and never across a wait, so std's lock is safe on fibers.
    table: Mutex<Table>,
    /// Set once no connection is left, and none can be added.
    all_gone: Event,
    /// How many ticks of the overseer have passed.
    now: AtomicU32,
    /// The length of a tick, once the server runs.
    tick: OnceLock<Duration>,
}

struct Table {
    /// No server of the process has had it, and it is not 0.
    next_key: u64,
    present: HashMap<u64, Arc<Member>>,
    /// How many connections each network has.
    by_network: HashMap<IpAddr, usize>,
}

/// The part of a connection that others reach. It fits into one line of the cache, because each
/// request changes the phase, and the lines of most connections are not in the cache then.
#[repr(align(64))]
pub(super) struct Member {
    connections: Arc<Connections>,
    stream: Arc<Stream>,
    /// The network that the connection counts for.
    network: OnceLock<IpAddr>,
    /// What the connection does, and since which tick.
    phase: AtomicU64,
    verdict: AtomicU8,
    /// Set until the first request begins.
    is_new: AtomicBool,
    /// The server has shut the read side down.
    is_reading_ended: AtomicBool,
    /// Cancels everything that the connection waits for.
    cancel: CancelHandle,
}

const _: () = assert!(size_of::<Member>() == 64);

/// One connection. Dropping it closes the connection.
pub(super) struct OpenConnection {
    key: u64,
    member: Arc<Member>,
}

/// Why a connection is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Server,
    Network,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Full::Server => "as many are open as `Limits::connections` allows",
            Full::Network => {
                "as many of its address are open as `Limits::connections_per_address` allows"
            }
        })
    }
}

impl Connections {
    pub(super) fn new() -> Self {
        Connections {
            is_stopping: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
            accepting: Mutex::default(),
            until_stop: ramie::cancel::scope(|scope| scope.handle()),
            table: Mutex::new(Table::new()),
            all_gone: Event::new(),
            now: AtomicU32::new(0),
            tick: OnceLock::new(),
        }
    }

    /// Runs `f`, whose accept calls fail once the server stops.
    pub(super) fn keep_accepting<T>(&self, f: impl FnOnce() -> T) -> T {
        ramie::cancel::scope(|scope| {
            lock(&self.accepting).push(scope.handle());
            // `stop` sets the flag before it reads the handles, so one of the two cancels.
            if self.is_stopping() {
                scope.cancel();
            }
            f()
        })
    }

    /// Adds a connection, which counts for the network of `peer`, or gives it back with the reason
    /// why there is no place for it.
    pub(super) fn add(
        self: &Arc<Self>,
        stream: Arc<Stream>,
        peer: Option<SocketAddr>,
        limits: &Limits,
    ) -> Result<OpenConnection, (Arc<Stream>, Full)> {
        let network = peer.map(|peer| network_of(peer.ip()));
        let mut table = self.table();
        if table.present.len() >= limits.connections {
            return Err((stream, Full::Server));
        }
        if let Some(network) = network
            && !table.count_for(network, limits.connections_per_address)
        {
            return Err((stream, Full::Network));
        }
        let member = Arc::new(Member {
            connections: Arc::clone(self),
            stream,
            network: network.map_or_else(OnceLock::new, OnceLock::from),
            phase: AtomicU64::new(PhaseWord::new(Phase::Other, 0).to_bits()),
            verdict: AtomicU8::new(Verdict::None as u8),
            is_new: AtomicBool::new(true),
            is_reading_ended: AtomicBool::new(false),
            // Handlers enter this scope one after another.
            cancel: ramie::cancel::scope(|scope| scope.handle()),
        });
        let key = table.next_key;
        table.next_key += 1;
        table.present.insert(key, Arc::clone(&member));
        drop(table);
        Ok(OpenConnection { key, member })
    }

    pub(super) fn count(&self) -> usize {
        self.table().present.len()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Stops accepting and closes idle connections. It may miss those that become idle just now, so
    /// the overseer calls [`dismiss_idle`](Self::dismiss_idle) later. May be called on any thread.
    pub(super) fn stop(&self) {
        if self.is_stopping.swap(true, Ordering::Relaxed) {
            return;
        }
        for accepting in lock(&self.accepting).iter() {
            accepting.cancel();
        }
        self.until_stop.cancel_because("the server stops");
        self.dismiss_idle();
    }

    /// Closes idle connections, except new ones.
    pub(super) fn dismiss_idle(&self) {
        self.dismiss(|member| !member.is_new.load(Ordering::Relaxed));
    }

    /// Called when all accepting fibers have ended: from now on, `all_gone` can be set. Before, an
    /// accept call that the stop came too late for could still add a connection.
    pub(super) fn complete(&self) {
        self.is_complete.store(true, Ordering::SeqCst);
        if self.table().present.is_empty() {
            self.all_gone.set();
        }
    }

    /// Closes the connections that are idle, new ones included.
    pub(super) fn dismiss_all(&self) {
        self.dismiss(|_| true);
    }

    /// Cancels what all connections wait for, and closes their streams.
    pub(super) fn cut_all(&self) -> usize {
        let members = self.members();
        for member in &members {
            member.cancel(Verdict::Gone, "the server stops");
            let _ = member.stream.shutdown(Shutdown::Both);
        }
        members.len()
    }

    /// Set once no connection is left, and none can be added.
    pub(super) fn all_gone(&self) -> &Event {
        &self.all_gone
    }

    fn dismiss(&self, is_to_leave: impl Fn(&Member) -> bool) {
        for member in self.members() {
            let may_leave = matches!(member.phase_word().phase(), Phase::Handshake | Phase::Idle);
            if may_leave && is_to_leave(&member) {
                member.end_reading();
            }
        }
    }

    fn members(&self) -> Vec<Arc<Member>> {
        self.table().present.values().cloned().collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address of IPv4, or the /64 network of IPv6, of which one client usually has all.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
    }
}

impl Table {
    fn new() -> Self {
        static NEXT_SERVER: AtomicU64 = AtomicU64::new(1);
        let server = NEXT_SERVER.fetch_add(1, Ordering::Relaxed);
        Table { next_key: server << 40, present: HashMap::new(), by_network: HashMap::new() }
    }

    /// Counts a connection for a network. Returns false if the network has too many.
    fn count_for(&mut self, network: IpAddr, most: usize) -> bool {
        let count = self.by_network.entry(network).or_default();
        let has_room = *count < most;
        *count += usize::from(has_room);
        has_room
    }
}

impl OpenConnection {
    /// Counts the connection of a proxy for its client. Returns false if the client has too many.
    pub(super) fn count_for(&self, client: IpAddr, most: usize) -> bool {
        let network = network_of(client);
        let is_counted = self.member.connections.table().count_for(network, most);
        if is_counted {
            let _ = self.member.network.set(network);
        }
        is_counted
    }

    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.member.stream
    }

    /// The number of this connection, which no other of the process has.
    pub(super) fn key(&self) -> u64 {
        self.key
    }

    /// What the connection tells the server. The part itself, because each reference in between
    /// would be looked up for each request.
    pub(super) fn presence(&self) -> &impl Presence {
        &*self.member
    }
}

impl Presence for Member {
    #[inline]
    fn enter(&self, phase: Phase) {
        let word = self.connections.phase_word(phase);
        self.phase.store(word.to_bits(), Ordering::Relaxed);
        if phase == Phase::Head {
            self.is_new.store(false, Ordering::Relaxed);
        }
    }

    #[inline]
    fn enter_idle(&self) -> bool {
        self.enter(Phase::Idle);
        // The compiler must not load the flag first, because the thread may pause in between.
        compiler_fence(Ordering::SeqCst);
        !self.connections.is_stopping() || self.is_new.load(Ordering::Relaxed)
    }

    fn is_stopping(&self) -> bool {
        self.connections.is_stopping()
    }

    fn verdict(&self) -> Verdict {
        Verdict::from_u8(self.verdict.load(Ordering::Acquire))
    }

    fn scope(&self) -> &CancelHandle {
        &self.cancel
    }

    fn until_stop(&self) -> &CancelHandle {
        &self.connections.until_stop
    }
}

impl Member {
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn phase_word(&self) -> PhaseWord {
        PhaseWord::from_bits(self.phase.load(Ordering::Relaxed))
    }

    /// Decides why the connection ends; the first verdict counts.
    pub(super) fn judge(&self, verdict: Verdict) {
        let none = Verdict::None as u8;
        let order = Ordering::Relaxed;
        let _ = self.verdict.compare_exchange(none, verdict as u8, Ordering::AcqRel, order);
    }

    /// Shuts the read side down, so that a wait for a request ends.
    pub(super) fn end_reading(&self) {
        self.is_reading_ended.store(true, Ordering::Relaxed);
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Whether the server has shut the read side down. If poll(2) reports that side as ended, a
    /// call of this afterwards tells whether the server has ended it, or the client.
    pub(super) fn is_reading_ended(&self) -> bool {
        self.is_reading_ended.load(Ordering::Relaxed)
    }

    /// Cancels what the connection waits for.
    pub(super) fn cancel(&self, verdict: Verdict, why: &'static str) {
        self.judge(verdict);
        self.cancel.cancel_because(why);
    }
}

impl Connections {
    /// The word of a phase that begins now.
    fn phase_word(&self, phase: Phase) -> PhaseWord {
        PhaseWord::new(phase, self.now.load(Ordering::Relaxed))
    }

    /// A tick has passed; returns the number of the next one.
    pub(super) fn advance(&self) -> u32 {
        self.now.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Calls `f` with each connection, under the lock.
    pub(super) fn for_each(&self, f: impl FnMut(&Arc<Member>)) {
        self.table().present.values().for_each(f);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let connections = &self.member.connections;
        let mut table = connections.table();
        let member = table.present.remove(&self.key);
        if let Some(network) = self.member.network.get()
            && let Some(count) = table.by_network.get_mut(network)
        {
            *count -= 1;
            if *count == 0 {
                table.by_network.remove(network);
            }
        }
        let is_last = table.present.is_empty();
        drop(table);
        // The stream closes here, after the lock is released, unless `stop` holds it just now.
        drop(member);
        if is_last && connections.is_complete.load(Ordering::SeqCst) {
            connections.all_gone.set();
        }
    }
}

pub(super) mod request_time;
#[cfg(test)]
pub(super) mod tests;
