//! Waits for a lock that another strand holds.
//!
//! Each strand has a partner, the holder, and a lock that only these two take. A wait is a
//! hand-over in three parts: the strand asks its holder; the holder takes the lock, reports that,
//! and keeps the lock for the time of the wait; the strand waits for the lock.
//!
//! | request | set by | for |
//! |---|---|---|
//! | `NONE` | the holder, before it releases the lock | the wait in ns, or `END` |
//! | a wait | the strand | `NONE` |
//! | `END` | the strand's end of the pair, when it is dropped | - |
//!
//! The race to fear: the strand takes the lock before the holder has it. So the strand first waits
//! for `is_held`, which the holder sets while it holds the lock, and which the strand clears while
//! it holds the lock. Parks are repeated until the condition holds, because a permit may be an
//! older one.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    StrandKind, WorkloadError,
    gate::Gate,
    strands::{join_all, spawn_all},
};

const NONE: u64 = 0;
const END: u64 = u64::MAX;

struct Shared<W: StrandKind> {
    /// How often the holder has held it.
    lock: W::Lock,
    request: AtomicU64,
    is_held: AtomicBool,
    /// The strand that waits.
    client: OnceLock<W::Peer>,
}

/// The strand's end of the pair. Its drop ends the holder.
pub(super) struct Client<W: StrandKind> {
    shared: Arc<Shared<W>>,
    holder: W::Peer,
    waits: u64,
}

/// A client for each of `count` strands, and the holders, which end once the clients are dropped.
pub(super) type Pairs<W> = (Vec<Client<W>>, Vec<<W as StrandKind>::Handle<()>>);

pub(super) fn pairs<W: StrandKind>(count: usize) -> Result<Pairs<W>, WorkloadError> {
    let new = |_| {
        Arc::new(Shared::<W> {
            lock: W::lock(),
            request: AtomicU64::new(NONE),
            is_held: AtomicBool::new(false),
            client: OnceLock::new(),
        })
    };
    let all: Vec<_> = (0..count).map(new).collect();
    let end = || all.iter().for_each(|shared| shared.request.store(END, Ordering::Release));
    let gate = Gate::<W>::new(count);
    let spawned = spawn_all::<W, _, _>(count, |index| {
        let (mut ticket, shared) = (gate.ticket(), Arc::clone(&all[index]));
        move || {
            ticket.arrive();
            drop(ticket);
            hold(&shared);
        }
    });
    let holders = spawned.map_err(|failure| {
        end();
        failure.peers().for_each(W::unpark);
        failure.give_up()
    })?;
    if gate.wait() > 0 {
        // Some holders could not start, and the join says why.
        end();
        holders.iter().map(W::peer).for_each(W::unpark);
        join_all::<W, ()>(holders, |()| ())?;
        return Err(WorkloadError::wrong("mix went wrong: a holder of a lock did not start"));
    }
    let client = |(shared, holder)| Client { shared, holder: W::peer(holder).clone(), waits: 0 };
    let clients = all.into_iter().zip(&holders).map(client).collect();
    Ok((clients, holders))
}

impl<W: StrandKind> Client<W> {
    /// Waits for the lock while the holder keeps it for `time`.
    pub(super) fn wait(&mut self, time: Duration) -> io::Result<()> {
        let shared = &*self.shared;
        // The strand that waits has a name only once it runs.
        shared.client.get_or_init(W::current);
        self.waits += 1;
        // A wait of 0 ns would read as no request.
        self.ask((time.as_nanos() as u64).max(1));
        // Acquire: pairs with the release of the holder, which has the lock by then.
        while !shared.is_held.load(Ordering::Acquire) {
            W::park();
        }
        let holds = W::with(&shared.lock, |holds| {
            shared.is_held.store(false, Ordering::Relaxed);
            *holds
        });
        match holds == self.waits {
            true => Ok(()),
            false => Err(io::Error::other(format!("wait {} saw hold {holds}", self.waits))),
        }
    }

    fn ask(&self, request: u64) {
        // Release: the holder sees the strand's name.
        self.shared.request.store(request, Ordering::Release);
        W::unpark(&self.holder);
    }
}

impl<W: StrandKind> Drop for Client<W> {
    fn drop(&mut self) {
        self.ask(END);
    }
}

/// Serves the strand until it ends.
fn hold<W: StrandKind>(shared: &Shared<W>) {
    loop {
        match shared.request.load(Ordering::Acquire) {
            NONE => W::park(),
            END => return,
            ns => W::with(&shared.lock, |holds| keep(shared, holds, Duration::from_nanos(ns))),
        }
    }
}

/// Keeps the lock for a time.
fn keep<W: StrandKind>(shared: &Shared<W>, holds: &mut u64, time: Duration) {
    shared.is_held.store(true, Ordering::Release);
    if let Some(client) = shared.client.get() {
        W::unpark(client);
    }
    W::sleep(time);
    *holds += 1;
    // Before the lock is released, because the strand's next request may follow at once. An END
    // stays.
    let _ = shared.request.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |request| {
        (request != END).then_some(NONE)
    });
}
