//! The workers of one runtime: how closures without a stack are shared, and how `run` ends.
//!
//! # Sharing
//! Each worker has a queue of fresh closures from which the others steal. A worker that finds
//! nothing looks at every queue of the team once and then sleeps, with its flag in `asleep` set.
//! Whoever adds a closure wakes at most one sleeper, and none while another is already searching:
//! the searcher that finds something wakes the next while closures are left in any queue.
//!
//! *The race to fear*: a closure is queued while its would-be thief falls asleep. The spawner
//! queues, then (SeqCst fence) reads `sleepers`; the thief announces itself there (SeqCst), then
//! reads the queues. One of the two sees the other.
//!
//! A worker that has more fibers than its share of the team's leaves closures to whoever spawned
//! them ([`is_ahead`]), but not for long: [`spread`](super::spread).
//!
//! # Ending
//! `main_done` is set when the closure given to `run` has returned. From then on, a worker with
//! nothing to do asks whether all strands have ended. Each worker counts those it spawned and
//! those that ended on it; both counts only grow. Reading all `finished` first and all `spawned`
//! afterwards, equal sums mean that at the moment between the two reads nobody was alive, and
//! where nobody is alive nobody can be spawned. If the sums differ by as many as there were
//! daemons at that moment, only these were alive, and their waits are ended (daemons.rs).
//!
//! *The race to fear*: two workers count their last strands at the same time, or one does while
//! the other sets `main_done`; neither sees what the other did, and both fall asleep for ever. Each
//! first writes, then (SeqCst fence) reads: one of the two sees both.

use std::{sync::Arc, time::Duration};

use crossbeam_deque::{Steal, Stealer};

use super::{Daemons, Shared};
use crate::core::{
    primitive::{AtomicBool, AtomicU64, AtomicUsize, OnceLock, Ordering, fence},
    strand::StrandHeader,
    worker::Pool,
};

/// A fiber that had not ended when the grace period was over.
#[derive(Debug, Clone)]
pub(crate) struct AbandonedFiber {
    pub(crate) label: String,
    /// As a sentence goes on: "waits for a Mutex", "is still running".
    pub(crate) state: String,
}

pub(crate) struct Team {
    stealers: Vec<Stealer<&'static StrandHeader>>,
    members: Vec<OnceLock<&'static Shared>>,
    asleep: Vec<AtomicBool>,
    /// How many of `asleep` are set.
    sleepers: AtomicUsize,
    searching: AtomicUsize,
    main_done: AtomicBool,
    finished: AtomicBool,
    abandoning: AtomicBool,
    grace: Option<Duration>,
    /// When the grace period ends, in ns on the system's clock; 0: it has not begun.
    grace_end_ns: AtomicU64,
    pub(super) daemons: Daemons,
    pub(crate) pool: Arc<Pool>,
}

impl Team {
    /// Makes the common part and one queue of fresh closures for each worker.
    pub(crate) fn new(
        workers: usize,
        grace: Option<Duration>,
        pool: Arc<Pool>,
    ) -> (Arc<Team>, Vec<FreshQueue>) {
        let queues: Vec<_> = (0..workers).map(|_| FreshQueue::new_fifo()).collect();
        let team = Team {
            stealers: queues.iter().map(FreshQueue::stealer).collect(),
            members: (0..workers).map(|_| OnceLock::new()).collect(),
            asleep: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            sleepers: AtomicUsize::new(0),
            searching: AtomicUsize::new(0),
            main_done: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            abandoning: AtomicBool::new(false),
            grace,
            grace_end_ns: AtomicU64::new(0),
            daemons: Daemons::default(),
            pool,
        };
        (Arc::new(team), queues)
    }

    pub(crate) fn join_member(&self, index: usize, shared: &'static Shared) {
        let _ = self.members[index].set(shared);
    }

    fn member(&self, index: usize) -> Option<&'static Shared> {
        self.members.get(index).and_then(OnceLock::get).copied()
    }

    fn wake_all(&self) {
        self.members.iter().filter_map(OnceLock::get).for_each(|shared| shared.wake());
    }

    /// Whether no grace period bounds the wait for the strands.
    pub(crate) fn waits_for_ever(&self) -> bool {
        self.grace.is_none()
    }

    /// The closure given to `run` has returned: from now on the runtime ends when it is empty.
    pub(crate) fn main_done(&self) {
        if let Some(grace) = self.grace {
            let grace = u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX);
            let end = ramie_driver::sys::monotonic_ns().saturating_add(grace).max(1);
            self.grace_end_ns.store(end, Ordering::Relaxed);
        }
        self.main_done.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    /// How much is left of the grace period, once it has begun.
    pub(super) fn grace_left(&self) -> Option<Duration> {
        match self.grace_end_ns.load(Ordering::Relaxed) {
            0 => None,
            end => {
                Some(Duration::from_nanos(end.saturating_sub(ramie_driver::sys::monotonic_ns())))
            }
        }
    }

    /// Whether the grace period is over: the runtime ends though strands are alive.
    pub(crate) fn is_grace_over(&self) -> bool {
        if self.grace_left() == Some(Duration::ZERO) {
            self.abandoning.store(true, Ordering::SeqCst);
        }
        self.is_abandoning()
    }

    /// Ends the runtime before it has begun.
    pub(crate) fn stop(&self) {
        self.finished.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    fn must_stop(&self) -> bool {
        self.finished.load(Ordering::SeqCst) || self.abandoning.load(Ordering::SeqCst)
    }

    /// Whether this worker's loop is over: all strands have ended, or are given up.
    pub(super) fn check_finished(&self) -> bool {
        if self.is_grace_over() || self.must_stop() {
            self.wake_all();
            return true;
        }
        // Behind the writes of `main_done` and of this worker's counts: the module's doc says why.
        fence(Ordering::SeqCst);
        if !self.main_done.load(Ordering::SeqCst) {
            return false;
        }
        let is_over = match self.census() {
            Census::Empty => true,
            Census::OnlyDaemons => {
                self.daemons.cancel_all();
                false
            }
            Census::Others => false,
        };
        if is_over {
            self.finished.store(true, Ordering::SeqCst);
            self.wake_all();
        }
        is_over
    }

    fn census(&self) -> Census {
        let sum = |read: fn(&Shared) -> u64| -> u64 {
            self.members.iter().filter_map(OnceLock::get).map(|shared| read(shared)).sum()
        };
        // Acquire, in this order: the module's doc says why.
        let finished = sum(|shared| shared.finished.load(Ordering::Acquire));
        let daemons = self.daemons.count() as u64;
        let spawned = sum(|shared| shared.spawned.load(Ordering::Acquire));
        match spawned - finished {
            0 => Census::Empty,
            left if left == daemons => Census::OnlyDaemons,
            _ => Census::Others,
        }
    }

    pub(super) fn is_abandoning(&self) -> bool {
        self.abandoning.load(Ordering::Relaxed)
    }

    /// How many closures of that worker anybody may start.
    pub(super) fn fresh(&self, index: usize) -> usize {
        self.stealers[index].len()
    }
}

/// Who was alive.
enum Census {
    Empty,
    OnlyDaemons,
    Others,
}

/// How many fibers more than another one a worker may have before it is ahead of that one.
pub(super) const MARGIN: usize = 8;

/// Whether a worker that has `own` fibers leaves new ones to one that has `other`.
#[inline]
pub(super) fn is_ahead(own: usize, other: usize) -> bool {
    own > other + other / 8 + MARGIN
}

/// So many closures stay together where it can be done: fibers that talk to one another are often
/// spawned one after the other.
pub(super) const GROUP: usize = 4;

/// As many closures as are stolen at a time.
const LARGEST_BATCH: usize = 256;

/// How many closures to steal of `fresh` ones: as many as make two workers even, but no more than
/// half, and an eighth if the thief has more fibers anyway.
fn batch(own: usize, theirs: usize, fresh: usize) -> usize {
    let most = fresh.div_ceil(2).min(LARGEST_BATCH);
    let even = (theirs.saturating_sub(own) / 2).max(fresh / 8);
    (even / GROUP * GROUP).max(GROUP).min(most)
}

/// What came of a look at every queue.
pub(super) enum Search {
    Found(&'static StrandHeader),
    /// There are closures, but this worker has its share; who has them, has so many fibers.
    Left(usize),
    Nothing,
}

pub(crate) type FreshQueue = crossbeam_deque::Worker<&'static StrandHeader>;

/// One worker's place in its team.
pub(crate) struct Seat {
    pub(crate) team: Arc<Team>,
    pub(crate) index: usize,
    queue: FreshQueue,
}

impl Seat {
    pub(crate) fn new(team: Arc<Team>, index: usize, queue: FreshQueue) -> Self {
        Seat { team, index, queue }
    }

    /// Whether there is anybody to share with.
    #[inline]
    pub(super) fn has_team_mates(&self) -> bool {
        self.team.stealers.len() > 1
    }

    /// Queues a closure that any worker of the team may start.
    pub(super) fn share(&self, header: &'static StrandHeader) {
        self.queue.push(header);
        fence(Ordering::SeqCst);
        self.wake_one();
    }

    pub(super) fn pop(&self) -> Option<&'static StrandHeader> {
        self.queue.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Wakes a sleeping worker to search, unless one searches already.
    fn wake_one(&self) {
        let team = &*self.team;
        let nobody_sleeps = team.sleepers.load(Ordering::SeqCst) == 0;
        // Below 0 where one has taken itself off before its waker, below, has counted it.
        let searching = team.searching.load(Ordering::SeqCst).cast_signed();
        if nobody_sleeps || searching > 0 {
            return;
        }
        // Whoever clears a flag owes the wake.
        let sleeper = team.asleep.iter().position(|asleep| asleep.swap(false, Ordering::SeqCst));
        let Some(index) = sleeper else { return };
        team.sleepers.fetch_sub(1, Ordering::SeqCst);
        team.searching.fetch_add(1, Ordering::SeqCst);
        if let Some(shared) = team.member(index) {
            shared.wake();
        }
    }

    /// Wakes the next searcher where closures are left: a batch that was just stolen may lie behind
    /// a fiber that never suspends, and one woken to search may have found other work first.
    pub(super) fn pass_search_on(&self) {
        let has_sleepers = self.team.sleepers.load(Ordering::SeqCst) > 0;
        if has_sleepers && !self.team.stealers.iter().all(Stealer::is_empty) {
            self.wake_one();
        }
    }

    /// Looks at every queue of the team once, beginning behind this worker's own, which is empty;
    /// the worker has `own` fibers. One that `has_enough` leaves the closures of those that it is
    /// ahead of, and wakes somebody else.
    pub(super) fn steal(&self, own: usize, has_enough: bool) -> Search {
        let workers = self.team.stealers.len();
        let mut outcome = Search::Nothing;
        for offset in 1..workers {
            match self.steal_from((self.index + offset) % workers, own, has_enough) {
                Search::Found(header) => {
                    self.pass_search_on();
                    return Search::Found(header);
                }
                Search::Left(live) => outcome = Search::Left(live),
                Search::Nothing => {}
            }
        }
        if matches!(outcome, Search::Left(_)) {
            self.pass_search_on();
        }
        outcome
    }

    fn steal_from(&self, index: usize, own: usize, has_enough: bool) -> Search {
        let victim = &self.team.stealers[index];
        loop {
            let fresh = victim.len();
            if fresh == 0 {
                return Search::Nothing;
            }
            let live = self.team.member(index).map_or(0, Shared::live);
            let theirs = live + fresh;
            if has_enough && is_ahead(own, theirs) {
                return Search::Left(live);
            }
            match victim.steal_batch_with_limit_and_pop(&self.queue, batch(own, theirs, fresh)) {
                Steal::Success(header) => return Search::Found(header),
                Steal::Empty => return Search::Nothing,
                Steal::Retry => {}
            }
        }
    }

    /// Announces that the worker falls asleep, then takes the last look before the kernel; tells
    /// whether it may.
    pub(super) fn announce_sleep(&self) -> bool {
        if self.has_team_mates() {
            // A swap, as every write of a flag: each follows the one before, whoever did that.
            self.team.asleep[self.index].swap(true, Ordering::SeqCst);
            self.team.sleepers.fetch_add(1, Ordering::SeqCst);
        }
        self.may_sleep()
    }

    pub(super) fn announce_running(&self) {
        if !self.has_team_mates() {
            return;
        }
        // A cleared flag says that somebody woke this worker to search.
        let counter = match self.team.asleep[self.index].swap(false, Ordering::SeqCst) {
            true => &self.team.sleepers,
            false => &self.team.searching,
        };
        counter.fetch_sub(1, Ordering::SeqCst);
    }

    fn may_sleep(&self) -> bool {
        !self.team.must_stop()
            && (!self.has_team_mates() || self.team.stealers.iter().all(Stealer::is_empty))
    }
}
