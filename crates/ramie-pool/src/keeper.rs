//! The keeper: closes idle connections that have expired, and opens missing ones.

use std::{
    error::Error,
    fmt, io,
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
/// The least time between two failures that are logged without a success between them.
const LOG_PAUSE: Duration = Duration::from_secs(10 * 60);

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
    logged_at: Option<Instant>,
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

    /// Logs the first failure. Logs later ones rarely, because an outage may be long.
    fn log_failure(&mut self, error: &dyn Error) {
        let now = Instant::now();
        if self.logged_at.is_some_and(|at| now.saturating_duration_since(at) < LOG_PAUSE) {
            return;
        }
        self.logged_at = Some(now);
        let (failed, chain) = (self.failed, Chain(error));
        log::warn!(
            "cannot open an idle connection for the pool ({failed} failed in a row), so fewer than \
             min_idle may be ready; the pool keeps trying: {chain}"
        );
    }

    fn note_success(&mut self) {
        let Attempts { failed, logged_at, .. } = std::mem::take(self);
        if logged_at.is_some() {
            log::warn!("opened an idle connection for the pool again, after {failed} failures");
        }
    }
}

/// An error with its sources, without those whose text the error before them repeats.
struct Chain<'a>(&'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let sources = std::iter::successors(self.0.source(), |error| (*error).source());
        for text in sources.map(ToString::to_string) {
            if !last.contains(&text) {
                write!(f, ": {text}")?;
            }
            last = text;
        }
        Ok(())
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
        && let Some(opened) = open_one(shared)
    {
        match opened {
            Ok(()) => attempts.note_success(),
            Err(_) if check_cancelled().is_err() => return,
            Err(error) => {
                attempts.note_failure();
                // Without a place, because the function of the program may wait.
                match &shared.on_connect_error {
                    Some(f) => f(&error),
                    None => attempts.log_failure(&error),
                }
                // Though the function may have taken longer than the pause, because the keeper has
                // more to do.
                return;
            }
        }
    }
}

/// Opens a connection if one is missing and a place is free.
fn open_one<M: ManageConnection>(shared: &Arc<Shared<M>>) -> Option<Result<(), M::Error>> {
    let _place = shared.try_place().ok()?;
    let counted = count_missing(shared)?;
    let timeout = shared.options.connection_timeout;
    Some(match cancel::try_with_timeout(timeout, || shared.manager.connect()) {
        Ok(connection) => {
            shared.give_back(Open::new(connection, counted));
            Ok(())
        }
        Err(error) => {
            if check_cancelled().is_err() {
                counted.cancelled();
            }
            Err(error)
        }
    })
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
