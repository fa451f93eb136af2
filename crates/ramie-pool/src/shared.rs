//! The part of a pool that its handles and guards share.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use ramie::{
    sync::{Semaphore, TryAcquireError},
    time::Instant,
};

use crate::{
    ManageConnection, PoolStats,
    builder::{OnConnectError, Options},
    idle::{Call, Idle, IdleList, Keeper, Open},
    keeper,
    stats::{CountedOpen, Counts, Discard},
};

pub(crate) struct Shared<M: ManageConnection> {
    pub(crate) manager: M,
    pub(crate) options: Options,
    /// `None`: the failures of the keeper are logged.
    pub(crate) on_connect_error: Option<OnConnectError<M::Error>>,
    pub(crate) counts: Arc<Counts>,
    /// A permit for each place.
    pub(crate) places: Semaphore,
    /// Held for some instructions and never across a wait, so the lock of std does.
    idle: Mutex<IdleList<M::Connection>>,
}

/// The right to have one connection that is not idle.
pub(crate) struct Place<M: ManageConnection> {
    pub(crate) shared: Arc<Shared<M>>,
}

impl<M: ManageConnection> Drop for Place<M> {
    fn drop(&mut self) {
        self.shared.places.add_permits(1);
    }
}

/// The outcome of a look at the idle connections with a place.
pub(crate) enum Taken<C> {
    Idle(Idle<C>),
    /// There is none: one may be opened.
    MayOpen(CountedOpen),
    /// The pool has been closed since the strand got its place.
    Closed,
}

/// One more strand that waits, until dropped.
pub(crate) struct CountedWaiter<'a>(&'a AtomicUsize);

impl<'a> CountedWaiter<'a> {
    pub(crate) fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Relaxed);
        CountedWaiter(waiting)
    }
}

impl Drop for CountedWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl<M: ManageConnection> Shared<M> {
    pub(crate) fn new(
        manager: M,
        options: Options,
        on_connect_error: Option<OnConnectError<M::Error>>,
    ) -> Arc<Self> {
        Arc::new(Shared {
            manager,
            options,
            on_connect_error,
            counts: Arc::default(),
            places: Semaphore::new(options.max_size),
            idle: Mutex::new(IdleList::new()),
        })
    }

    pub(crate) fn idle(&self) -> MutexGuard<'_, IdleList<M::Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the owner of a permit that was taken.
    pub(crate) fn place(self: &Arc<Self>) -> Place<M> {
        Place { shared: Arc::clone(self) }
    }

    /// Takes a place if one is free and no strand waits.
    pub(crate) fn try_place(self: &Arc<Self>) -> Result<Place<M>, TryAcquireError> {
        self.places.try_acquire()?.forget();
        Ok(self.place())
    }

    /// Whether the keeper should open connections.
    pub(crate) fn is_missing(&self, idle: &IdleList<M::Connection>) -> bool {
        idle.list.len() < self.options.min_idle
            && self.counts.open.load(Relaxed) < self.options.max_size
    }

    /// Takes the connection that was returned last. The caller has a place.
    pub(crate) fn take_idle(self: &Arc<Self>) -> Taken<M::Connection> {
        let mut idle = self.idle();
        if idle.is_closed {
            return Taken::Closed;
        }
        let taken = match idle.list.pop_back() {
            Some(taken) => Taken::Idle(taken),
            None => Taken::MayOpen(CountedOpen::new(&self.counts)),
        };
        let is_missing = self.is_missing(&idle);
        let call = idle.call_keeper(None, is_missing);
        drop(idle);
        self.make(call);
        taken
    }

    /// Makes a connection idle that may be used again. The caller has its place.
    pub(crate) fn give_back(self: &Arc<Self>, open: Open<M::Connection>) {
        let now = Instant::now();
        if open.is_too_old(&self.options, now) {
            return self.discard(open, Discard::Expired);
        }
        let mut idle = self.idle();
        if idle.is_closed {
            drop(idle);
            return drop(open);
        }
        let due = idle.push(open, &self.options, now);
        let call = idle.call_keeper(due, false);
        drop(idle);
        self.make(call);
    }

    /// Closes a connection. The caller has its place.
    pub(crate) fn discard(self: &Arc<Self>, open: Open<M::Connection>, reason: Discard) {
        self.counts.add_discard(reason);
        drop(open);
        let mut idle = self.idle();
        let is_missing = self.is_missing(&idle);
        let call = idle.call_keeper(None, is_missing);
        drop(idle);
        self.make(call);
    }

    pub(crate) fn make(self: &Arc<Self>, call: Call) {
        match call {
            Call::Nothing => {}
            Call::Unpark(strand) => strand.unpark(),
            Call::Spawn => match keeper::spawn(self) {
                Ok(handle) => self.idle().note_keeper(handle),
                // Without a keeper, expired connections are closed when they would be lent.
                Err(_) => self.idle().keeper = Keeper::Absent,
            },
        }
    }

    pub(crate) fn close(&self) {
        let mut idle = self.idle();
        idle.is_closed = true;
        let closed = std::mem::take(&mut idle.list);
        let keeper = match &idle.keeper {
            Keeper::Waits { strand, .. } => Some(strand.clone()),
            Keeper::Absent | Keeper::Awake => None,
        };
        drop(idle);
        self.places.close();
        keeper.inspect(|strand| strand.unpark());
        drop(closed);
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let idle = self.idle().list.len();
        PoolStats { max_size: self.options.max_size, idle, ..self.counts.read() }
    }
}

impl<M: ManageConnection> Drop for Shared<M> {
    /// Ends the keeper, which has a weak reference only.
    fn drop(&mut self) {
        self.close();
    }
}
