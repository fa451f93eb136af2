//! Looking again before a wait, where the other end of the channel runs on another worker.
//!
//! A wait that another worker ends is expensive: about ten cache lines cross over for the waiter,
//! its frame, its header and the inbox. And it leads to the next wait. While senders wait, a
//! receiver that takes a value lets one of them fill the gap, so the queue stays full, and that
//! sender has to wait again when it runs. The same holds for receivers and an empty queue.
//!
//! So a strand that would have to wait looks again first: it lets the other fibers of its worker
//! run or, where there are none, a moment go by, in which the other end may get through the queue.
//! Then values cross over by the queueful: 18 ns each with 64 places, where it took 50.
//!
//! Whether the ends are apart is a guess that no protocol relies on. It is made when a strand is
//! woken that is another worker's, and given up when a strand has looked again in vain; so where
//! all are on one worker nobody ever looks again. Nor does anybody where there is no queue, or room
//! for one value: nothing is gained there.

use super::{
    core::Core,
    state::{ChannelState, UNBOUNDED},
};
use crate::core::{
    primitive::{AtomicU32, Ordering},
    worker::Worker,
};

/// A look costs the lock of the channel; the second is for a machine half as fast.
const LOOKS: u32 = 2;
/// The time that the other end needs for a place, in ns; a shorter pause would be in vain. On one
/// machine 5 was too short, and 8 took 2 ns a value longer than 6.
const NS_A_PLACE: u32 = 8;
/// More places do not make the time longer: values cross over by so many then.
const MOST_PLACES: u32 = 64;

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

    /// A strand was woken that is another worker's.
    #[cold]
    pub(super) fn note(&self) {
        if self.0.load(Ordering::Relaxed) == LOCAL {
            self.0.store(REMOTE, Ordering::Relaxed);
        }
    }

    /// It was in vain to look again, which is done only where the ends seemed to be apart.
    fn give_up(&self) {
        self.0.store(LOCAL, Ordering::Relaxed);
    }
}

/// How long a strand lets the other end do its work before it looks again, in ns.
fn moment_ns(capacity: u32) -> u64 {
    u64::from(capacity.min(MOST_PLACES) * NS_A_PLACE)
}

impl<T> Core<T> {
    /// Pauses before a strand waits for a value or for room, and checks whether it has come;
    /// without the lock.
    #[cold]
    pub(super) fn look_again(
        &self,
        worker: &Worker,
        capacity: u32,
        is_there: impl Fn(&ChannelState<T>) -> bool,
    ) {
        for _ in 0..LOOKS {
            worker.give_way(moment_ns(capacity));
            if is_there(&self.lock()) {
                return;
            }
        }
        self.remote_hint.give_up();
    }
}
