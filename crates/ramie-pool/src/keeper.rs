//! The keeper: closes idle connections that have expired, and opens missing ones.

use std::{
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use ramie::{
    cancel::{self, check_cancelled},
    fiber::{self, JoinHandle},
    time::Instant,
};

use crate::{
    ManageConnection,
    idle::{Keeper, Open, earlier},
    shared::Shared,
    stats::{CountedOpen, Discard},
};

/// The pause after the first failure to open a connection, and how often it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const DOUBLINGS: u32 = 5;
/// The least time between two looks. What is due at a look is left to the strands that have all the
/// places, or are about to get them; they need the worker, and take the expired connections.
const LEAST_PAUSE: Duration = Duration::from_millis(10);

/// Starts the keeper. The caller has noted that it is awake.
pub(crate) fn spawn<M: ManageConnection>(pool: &Arc<Shared<M>>) -> io::Result<JoinHandle<()>> {
    let pool = Arc::downgrade(pool);
    let builder = fiber::Builder::new().name("pool keeper".to_owned());
    builder.spawn(move || fiber::as_daemon(|_| keep(&pool)))
}

/// Notes that the keeper has ended, also by a panic of the manager.
struct Ending<'a, M: ManageConnection>(&'a Weak<Shared<M>>);

impl<M: ManageConnection> Drop for Ending<'_, M> {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.idle().keeper = Keeper::Absent;
        }
    }
}

fn keep<M: ManageConnection>(pool: &Weak<Shared<M>>) {
    let ending = Ending(pool);
    let mut attempts = Attempts::default();
    while let Some(shared) = pool.upgrade() {
        close_expired(&shared);
        open_missing(&shared, &mut attempts);
        // The pool must not live because its keeper waits.
        let Some(until) = decide(&shared, &attempts) else {
            return std::mem::forget(ending);
        };
        drop(shared);
        let pause = until.saturating_duration_since(Instant::now());
        fiber::park_timeout(pause.max(LEAST_PAUSE));
        // The runtime has ended; the next one that needs a keeper makes another.
        if check_cancelled().is_err() {
            return;
        }
        if let Some(shared) = pool.upgrade() {
            shared.idle().keeper = Keeper::Awake;
        }
    }
}

/// The attempts to open connections that have failed since the last one that succeeded.
#[derive(Default)]
struct Attempts {
    failed: u32,
    again_at: Option<Instant>,
}

impl Attempts {
    fn note_failure(&mut self) {
        let pause = FIRST_PAUSE * 2_u32.pow(self.failed.min(DOUBLINGS));
        self.failed = self.failed.saturating_add(1);
        self.again_at = Instant::now().checked_add(pause);
    }

    fn pauses(&self) -> bool {
        self.again_at.is_some_and(|at| at > Instant::now())
    }
}

fn close_expired<M: ManageConnection>(shared: &Arc<Shared<M>>) {
    // With a place, because a connection that is being closed is not idle any more. If no place is
    // free, the strands that have them or wait for them take the idle connections.
    while let Ok(_place) = shared.try_place() {
        let expired = shared.idle().take_expired(&shared.options, Instant::now());
        let Some(expired) = expired else { return };
        shared.counts.add_discard(Discard::Expired);
        drop(expired);
    }
}

fn open_missing<M: ManageConnection>(shared: &Arc<Shared<M>>, attempts: &mut Attempts) {
    // If this is the last reference, the pool ends when the keeper drops it.
    while Arc::strong_count(shared) > 1
        && !attempts.pauses()
        && let Ok(_place) = shared.try_place()
        && let Some(counted) = count_missing(shared)
    {
        let timeout = shared.options.connection_timeout;
        match cancel::try_with_timeout(timeout, || shared.manager.connect()) {
            Ok(connection) => {
                *attempts = Attempts::default();
                shared.give_back(Open::new(connection, counted));
            }
            Err(_) if check_cancelled().is_err() => return,
            Err(_) => attempts.note_failure(),
        }
    }
}

/// Counts one more connection if one is missing, under the lock of the list.
fn count_missing<M: ManageConnection>(shared: &Shared<M>) -> Option<CountedOpen> {
    let idle = shared.idle();
    let may_open = !idle.is_closed && shared.is_missing(&idle);
    may_open.then(|| CountedOpen::new(&shared.counts))
}

/// Decides until when the keeper waits; `None`: it has nothing to do, and ends.
fn decide<M: ManageConnection>(shared: &Shared<M>, attempts: &Attempts) -> Option<Instant> {
    let mut idle = shared.idle();
    let is_missing = shared.is_missing(&idle);
    let pauses = is_missing && attempts.pauses();
    // A connection that was closed since the keeper has looked called nobody.
    let again_at = if pauses { attempts.again_at } else { is_missing.then(Instant::now) };
    let due = earlier(idle.due(&shared.options), again_at).filter(|_| !idle.is_closed);
    idle.keeper = match due {
        Some(until) => Keeper::Waits { strand: fiber::current(), until, pauses },
        None => Keeper::Absent,
    };
    due
}
