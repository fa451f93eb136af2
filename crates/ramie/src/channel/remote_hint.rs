//! A second attempt before a wait, for channels whose ends run on different workers.
//!
//! A wait that another worker ends is expensive, because about ten cache lines move between CPUs,
//! for the waiter, its frame, its header and the inbox. Such a wait also causes the next one: while
//! senders wait, a receiver that takes a value lets one of them fill the free place, so the queue
//! stays full, and that sender has to wait again when it runs. The same applies to receivers and an
//! empty queue.
//!
//! So a strand that would have to wait first gives the other end time to work through the queue: it
//! lets the other fibers of its worker run, or pauses if there are none, and tries again. Then a
//! whole queue of values moves at a time: with 64 places a value takes 18 ns instead of 50.
//!
//! Whether the ends are on different workers is a guess, and no protocol relies on it. The guess is
//! made when a strand of another worker is woken, and given up when a second attempt fails. So if
//! all strands are on one worker, none makes a second attempt. Channels without a queue, or with
//! room for one value, never make one, because they would gain nothing.

use super::{
    core::Core,
    state::{ChannelState, UNBOUNDED},
};
use crate::core::{
    primitive::{AtomicU32, Ordering},
    worker::Worker,
};

/// The number of pauses, each followed by an attempt, which takes the channel's lock. The second
/// one is for machines that are half as fast.
const LOOKS: u32 = 2;
/// The time in ns that the other end needs for one place of the queue. After a shorter pause the
/// attempt fails. On one machine 5 was too short, and with 8 a value took 2 ns longer than with 6.
const NS_PER_PLACE: u32 = 8;
/// More places than this do not make the pause longer, because values then move in groups of this
/// size.
const MAX_PLACES: u32 = 64;

/// Whether the ends seem to be on different workers: `LOCAL`, `REMOTE`, or it does not matter.
pub(super) struct RemoteHint(AtomicU32);

const LOCAL: u32 = 0;
const REMOTE: u32 = 1;
const NO_MATTER: u32 = 2;

impl RemoteHint {
    pub(super) fn new(capacity: usize) -> Self {
        let has_queue = capacity > 1 && capacity < UNBOUNDED as usize;
        RemoteHint(AtomicU32::new(if has_queue { LOCAL } else { NO_MATTER }))
    }

    #[inline(always)]
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) == REMOTE
    }

    /// Records that a strand of another worker was woken.
    #[cold]
    pub(super) fn note(&self) {
        if self.0.load(Ordering::Relaxed) == LOCAL {
            self.0.store(REMOTE, Ordering::Relaxed);
        }
    }

    /// Records that a second attempt failed.
    fn give_up(&self) {
        self.0.store(LOCAL, Ordering::Relaxed);
    }
}

/// The length in ns of one pause.
fn pause_ns(capacity: u32) -> u64 {
    u64::from(capacity.min(MAX_PLACES) * NS_PER_PLACE)
}

impl<T> Core<T> {
    /// Pauses before a strand waits for a value or for room, and checks whether there is one now.
    /// Called without the lock.
    #[cold]
    pub(super) fn look_again(
        &self,
        worker: &Worker,
        capacity: u32,
        is_there: impl Fn(&ChannelState<T>) -> bool,
    ) {
        for _ in 0..LOOKS {
            worker.give_way(pause_ns(capacity));
            if is_there(&self.lock()) {
                return;
            }
        }
        self.remote_hint.give_up();
    }
}
