//! Reports the fibers that `run` still waits for, a second after its closure has returned.
//!
//! `run` returns when every fiber has ended, so one detached fiber that never ends keeps `run` from
//! returning. After [`Unended::PATIENCE`] a line of the log lists the fibers with their waits. The
//! line is written once, and not at all if a grace period ends the wait.
//!
//! # Protocol
//! Only a fiber's own worker may look at the fiber's wait. So each worker describes its own fibers
//! when the second is over: a worker that sleeps wakes up for this, a busy worker does it at its
//! next poll. The last worker to answer logs all answers. A worker that runs a fiber which never
//! suspends does not answer; after [`ANSWERS`] the other workers report that.
//!
//! Before the closure of `run` has returned, a worker does one load for this at each sleep and at
//! each poll.

use std::{
    fmt::Write,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ramie_driver::{logging, sys::monotonic_ns};

use super::{AbandonedFiber, Membership, Stacks, Worker, Workers};
use crate::core::primitive::{AtomicU64, Ordering};

/// How long the workers may take to answer.
const ANSWERS: Duration = Duration::from_millis(250);
/// The most fibers that are named.
const NAMED: usize = 10;

/// The answers of the workers of one runtime.
pub(crate) struct Lingering {
    /// When the workers have to answer, in ns on the system's clock; 0: not yet, or no longer.
    due_ns: AtomicU64,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    missing: Vec<usize>,
    fibers: Unended,
}

/// Fibers that have not ended, the first of them by name.
#[derive(Default)]
pub(crate) struct Unended {
    named: Vec<AbandonedFiber>,
    count: usize,
}

impl Unended {
    /// How long `run` waits in silence.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

    fn add(&mut self, fibers: impl Iterator<Item = AbandonedFiber>) {
        for fiber in fibers {
            self.count += 1;
            if self.named.len() < NAMED {
                self.named.push(fiber);
            }
        }
    }

    /// Logs the fibers, and the workers that have not answered.
    pub(crate) fn report(&self, silent_workers: &[usize]) {
        let mut text = format!(
            "run is still waiting {:?} after its closure returned (or the shutdown of its runtime \
             began); strands that have not ended: {}",
            Self::PATIENCE,
            self.count
        );
        // Writing to a string does not fail.
        for line in AbandonedFiber::lines(&self.named) {
            let _ = write!(text, "\n  {line}");
        }
        if self.count > self.named.len() {
            let _ = write!(text, "\n  and {} more", self.count - self.named.len());
        }
        for worker in silent_workers {
            let _ = write!(
                text,
                "\n  and the fibers of worker {worker}, which is running a fiber that does not \
                 suspend"
            );
        }
        text.push_str("\n  help: end them, or limit the wait with Builder::grace");
        if cfg!(debug_assertions) {
            logging::print(format_args!("ramie: {text}"));
        }
        logging::later(logging::Level::Warn, module_path!(), text);
    }
}

impl FromIterator<AbandonedFiber> for Unended {
    fn from_iter<I: IntoIterator<Item = AbandonedFiber>>(fibers: I) -> Self {
        let mut unended = Unended::default();
        unended.add(fibers.into_iter());
        unended
    }
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl Lingering {
    pub(super) fn new() -> Self {
        Lingering { due_ns: AtomicU64::new(0), answers: Mutex::default() }
    }

    /// Starts the second of silence: the closure of `run` has returned, and no grace period bounds
    /// the wait for the other fibers.
    pub(super) fn begin(&self, workers: usize) {
        self.answers().missing = (0..workers).collect();
        // Relaxed: the workers are woken after this, and lock before they read the rest.
        self.due_ns.store(monotonic_ns() + ns(Unended::PATIENCE), Ordering::Relaxed);
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a worker may sleep until it has to answer, or to report missing answers.
    pub(super) fn left(&self) -> Option<Duration> {
        let due = self.due_ns.load(Ordering::Relaxed);
        if due == 0 {
            return None;
        }
        let now = monotonic_ns();
        let until = if now < due { due } else { due + ns(ANSWERS) };
        Some(Duration::from_nanos(until.saturating_sub(now)))
    }

    /// Whether the second is over, and the log has not been written.
    fn is_due(&self) -> bool {
        let due = self.due_ns.load(Ordering::Relaxed);
        due != 0 && due <= monotonic_ns()
    }

    /// Takes one worker's answer; logs all of them if it is the last, or the time for them is over.
    fn answer(&self, worker: usize, fibers: impl Iterator<Item = AbandonedFiber>) {
        let mut answers = self.answers();
        let due = self.due_ns.load(Ordering::Relaxed);
        if due == 0 {
            return;
        }
        if let Some(at) = answers.missing.iter().position(|missing| *missing == worker) {
            answers.missing.swap_remove(at);
            answers.fibers.add(fibers);
        }
        if !answers.missing.is_empty() && monotonic_ns() < due + ns(ANSWERS) {
            return;
        }
        self.due_ns.store(0, Ordering::Relaxed);
        let Answers { mut missing, fibers } = mem::take(&mut *answers);
        drop(answers);
        missing.sort_unstable();
        if fibers.count > 0 || !missing.is_empty() {
            fibers.report(&missing);
        }
    }
}

/// Describes the fibers of a worker, if it is time for that. Called by the loop only.
#[inline]
pub(super) fn answer_if_due(worker: &Worker) {
    let Some(member) = &worker.membership else { return };
    if member.workers.lingering.is_due() {
        answer(member, &worker.stacks);
    }
}

#[cold]
#[inline(never)]
fn answer(member: &Membership, stacks: &Stacks) {
    let Workers { lingering, daemons, .. } = &*member.workers;
    lingering.answer(member.index, stacks.describe_live(daemons));
}
