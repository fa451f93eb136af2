//! The protocol by which a worker wakes its sidecar when the submission queue has new entries.
//!
//! The worker posts: it counts the entries that it has put into the queue. The sidecar submits the
//! queue whenever the count has changed. When the count has not changed for a while, the sidecar
//! sleeps, and the next post must wake it.
//!
//! | state | meaning | changed by |
//! |---|---|---|
//! | `WATCHING` | the sidecar will look at the count again | the sidecar, to `ASLEEP`; the worker, to `ENDING` |
//! | `ASLEEP` | the sidecar sleeps, or looks a last time before it does | the worker that posts, to `WATCHING`, after which it must wake the sidecar; the sidecar, to `WATCHING`, if its last look found something; the worker, to `ENDING` |
//! | `ENDING` | the ring is being dropped | nobody |
//!
//! *The race to fear* is a post between the sidecar's last look and its sleep. The worker first
//! counts and then reads the state; the sidecar first writes `ASLEEP` and then looks at the count;
//! on each side a sequentially consistent fence separates the two steps. So at least one of them
//! sees the write of the other: the worker sees `ASLEEP`, and wakes the sidecar; or the sidecar
//! sees the new count, and does not sleep.

use crate::primitive::{AtomicU32, Ordering, fence};

const WATCHING: u32 = 0;
const ASLEEP: u32 = 1;
const ENDING: u32 = 2;

/// The state that a worker and its sidecar share.
#[derive(Debug)]
pub(crate) struct Handshake {
    posted: AtomicU32,
    state: AtomicU32,
}

impl Handshake {
    pub(crate) fn new() -> Self {
        Handshake { posted: AtomicU32::new(0), state: AtomicU32::new(WATCHING) }
    }

    /// Called by the worker: announces a new entry in the queue. Returns whether the caller must
    /// wake the sidecar.
    pub(crate) fn post(&self) -> bool {
        let posted = self.posted.load(Ordering::Relaxed);
        // Release: a thread that sees the count sees the entry in the queue.
        self.posted.store(posted.wrapping_add(1), Ordering::Release);
        fence(Ordering::SeqCst);
        self.state.load(Ordering::Relaxed) == ASLEEP && self.change(ASLEEP, WATCHING)
    }

    /// Called by the worker: announces that the ring is being dropped. The caller must wake the
    /// sidecar.
    pub(crate) fn end(&self) {
        self.state.swap(ENDING, Ordering::AcqRel);
    }

    /// Called by the sidecar: returns the count of posted entries.
    pub(crate) fn posted(&self) -> u32 {
        self.posted.load(Ordering::Acquire)
    }

    /// Called by the sidecar: returns whether it must end.
    pub(crate) fn is_ending(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDING
    }

    /// Called by the sidecar: sleeps by `sleep`, which may return early, until it is woken. Does
    /// not sleep if more than `seen` entries have been posted.
    pub(crate) fn fall_asleep(&self, seen: u32, mut sleep: impl FnMut()) {
        if !self.change(WATCHING, ASLEEP) {
            return;
        }
        fence(Ordering::SeqCst);
        if self.posted() != seen {
            // Fails if the worker has changed the state already; its wake then has no effect.
            self.change(ASLEEP, WATCHING);
            return;
        }
        while self.state.load(Ordering::Acquire) == ASLEEP {
            sleep();
        }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
