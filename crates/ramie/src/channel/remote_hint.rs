//! A second attempt before a wait, for channels whose ends run on different workers.
//!
//! A wait that another worker ends is expensive: about ten cache lines move between processors, for
//! the waiter, its frame, its header and the inbox. Such a wait also causes the next one. While
//! senders wait, a receiver that takes a value lets one of them fill the gap, so the queue stays
//! full, and that sender has to wait again when it runs. The same holds for receivers and an empty
//! queue.
//!
//! So a strand that would have to wait first gives the other end time to work through the queue: it
//! lets the other fibers of its worker run, or pauses if there are none, and tries again. Then a
//! whole queue of values moves at a time: 18 ns for each value with 64 places, instead of 50.
//!
//! Whether the ends are on different workers is a guess on which no protocol relies. The guess is
//! made when a strand of another worker is woken, and given up when a second attempt was in vain.
//! So if all strands are on one worker, none makes a second attempt. Channels without a queue, or
//! with room for one value, never make one, because they would gain nothing.

use super::{
    core::Core,
    state::{ChannelState, UNBOUNDED},
};
use crate::core::{
    primitive::{AtomicU32, Ordering},
    worker::Worker,
};

/// Each look takes the lock of the channel. The second look is for machines that are half as fast.
const LOOKS: u32 = 2;
/// The time that the other end needs for a place, in ns; a shorter pause would be in vain. On one
/// machine 5 was too short, and 8 took 2 ns a value longer than 6.
const NS_A_PLACE: u32 = 8;
/// With more places the pause grows no longer, because values then move in groups of this size.
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

    /// Notes that a strand of another worker was woken.
    #[cold]
    pub(super) fn note(&self) {
        if self.0.load(Ordering::Relaxed) == LOCAL {
            self.0.store(REMOTE, Ordering::Relaxed);
        }
    }

    /// Notes that a second attempt was in vain.
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
