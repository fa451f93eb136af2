//! The counts of a pool.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// The state of a pool and its counts so far; made by [`Pool::stats`].
///
/// The figures are read one after another while the pool is in use, so they need not fit together
/// to the last request.
///
/// [`Pool::stats`]: crate::Pool::stats
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolStats {
    /// The largest number of connections.
    pub max_size: usize,
    /// The connections that are open or being opened.
    pub open: usize,
    /// The open connections that are not in use.
    pub idle: usize,
    /// The strands that wait for a connection.
    pub waiting: usize,
    /// The requests that got a connection.
    pub lent: u64,
    /// The requests that had to wait until others returned a connection, however they ended.
    pub waits: u64,
    /// The sum of the times of these waits.
    pub wait_time: Duration,
    /// The longest of these waits.
    pub wait_time_max: Duration,
    /// The requests whose timeout passed.
    pub timeouts: u64,
    /// The requests that were cancelled.
    pub cancelled: u64,
    /// The connections that were opened.
    pub connects: u64,
    /// The attempts to open a connection that failed or panicked. So are those of the keeper that
    /// took longer than [`connection_timeout`](crate::PoolBuilder::connection_timeout).
    pub failed_connects: u64,
    /// The attempts to open a connection that were given up because the timeout of the request
    /// passed or the strand was cancelled. The server may be healthy; but if it does not answer at
    /// all, its requests end here.
    pub cancelled_connects: u64,
    /// The connections that were closed, for whichever reason. Those that none of the counts below
    /// includes were closed with the pool, or because a method of the manager panicked.
    pub closed: u64,
    /// The connections that were closed because the strand that used them was cancelled, or because
    /// several strands had used them.
    pub discarded_cancelled: u64,
    /// The connections that were closed because the strand that used them panicked.
    pub discarded_panicked: u64,
    /// The connections that were closed because they were marked or found broken, or because the
    /// closure of [`Pool::with`](crate::Pool::with) failed.
    pub discarded_broken: u64,
    /// The idle connections that were closed because their test failed.
    pub discarded_invalid: u64,
    /// The connections that were closed because of their age, or of their time without use.
    pub discarded_expired: u64,
}

/// The reason why a connection is not used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Discard {
    Cancelled,
    Panicked,
    Broken,
    Invalid,
    Expired,
}

const DISCARDS: usize = Discard::Expired as usize + 1;

/// The counts of a pool. They publish nothing, so all of them are relaxed.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) open: AtomicUsize,
    pub(crate) waiting: AtomicUsize,
    pub(crate) lent: AtomicU64,
    waits: AtomicU64,
    wait_ns: AtomicU64,
    wait_ns_max: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    connects: AtomicU64,
    failed_connects: AtomicU64,
    cancelled_connects: AtomicU64,
    closed: AtomicU64,
    discarded: [AtomicU64; DISCARDS],
}

impl Counts {
    pub(crate) fn add_wait(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.waits.fetch_add(1, Relaxed);
        self.wait_ns.fetch_add(ns, Relaxed);
        self.wait_ns_max.fetch_max(ns, Relaxed);
    }

    pub(crate) fn add_discard(&self, reason: Discard) {
        self.discarded[reason as usize].fetch_add(1, Relaxed);
    }

    /// Reads all counts. The caller adds those that are not kept here.
    pub(crate) fn read(&self) -> PoolStats {
        let discarded = |reason: Discard| self.discarded[reason as usize].load(Relaxed);
        PoolStats {
            open: self.open.load(Relaxed),
            waiting: self.waiting.load(Relaxed),
            lent: self.lent.load(Relaxed),
            waits: self.waits.load(Relaxed),
            wait_time: Duration::from_nanos(self.wait_ns.load(Relaxed)),
            wait_time_max: Duration::from_nanos(self.wait_ns_max.load(Relaxed)),
            timeouts: self.timeouts.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            connects: self.connects.load(Relaxed),
            failed_connects: self.failed_connects.load(Relaxed),
            cancelled_connects: self.cancelled_connects.load(Relaxed),
            closed: self.closed.load(Relaxed),
            discarded_cancelled: discarded(Discard::Cancelled),
            discarded_panicked: discarded(Discard::Panicked),
            discarded_broken: discarded(Discard::Broken),
            discarded_invalid: discarded(Discard::Invalid),
            discarded_expired: discarded(Discard::Expired),
            ..PoolStats::default()
        }
    }
}

/// One of the open connections, from before it is opened until after it was closed.
pub(crate) struct CountedOpen {
    counts: Arc<Counts>,
    attempt: Attempt,
}

/// The outcome of an attempt to open a connection.
enum Attempt {
    /// Also until there is an outcome, because the manager may panic.
    Failed,
    Cancelled,
    Connected,
}

impl CountedOpen {
    pub(crate) fn new(counts: &Arc<Counts>) -> Self {
        counts.open.fetch_add(1, Relaxed);
        CountedOpen { counts: Arc::clone(counts), attempt: Attempt::Failed }
    }

    /// The connection was opened.
    pub(crate) fn connected(mut self) -> Self {
        self.attempt = Attempt::Connected;
        self.counts.connects.fetch_add(1, Relaxed);
        self
    }

    /// The attempt was given up, for a reason that is none of the server's.
    pub(crate) fn cancelled(mut self) {
        self.attempt = Attempt::Cancelled;
    }
}

impl Drop for CountedOpen {
    fn drop(&mut self) {
        let outcome = match self.attempt {
            Attempt::Failed => &self.counts.failed_connects,
            Attempt::Cancelled => &self.counts.cancelled_connects,
            Attempt::Connected => &self.counts.closed,
        };
        outcome.fetch_add(1, Relaxed);
        self.counts.open.fetch_sub(1, Relaxed);
    }
}
