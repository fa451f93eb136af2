//! The report of a deadlock.

use std::{collections::HashMap, fmt, time::Duration};

use ramie_driver::visible;

use super::{graph::Need, holders};
use crate::{
    core::{
        strand::FiberId,
        wait::park::Subject,
        worker::{self, Question, StrandFacts, Surveyed, WaitFacts, WorkerAnswer, WorkerFacts},
    },
    sync::raw_rwlock,
    unwind::{self, Backtrace},
};

/// The most strands that a report names.
const NAMED: usize = 20;
/// How long a report waits for the calls of its strands.
const PATIENCE: Duration = Duration::from_millis(500);

/// Describes strands none of which can ever go on; given to the reaction of
/// [`Builder::on_deadlock`](crate::Builder::on_deadlock). Its `Display` is the report.
#[derive(Debug, Clone)]
pub struct Deadlock {
    is_cycle: bool,
    lines: Vec<String>,
    /// The strands of the lines.
    strands: Vec<FiberId>,
    /// Their calls, as far as they are known.
    calls: HashMap<FiberId, Backtrace>,
    /// Who may have to act first, where the line does not say it.
    holders: HashMap<FiberId, String>,
    count: usize,
    help: &'static str,
}

impl Deadlock {
    /// Returns whether the strands wait for one another in a cycle. Otherwise all strands of the
    /// process wait, and nothing is left that could wake one of them.
    #[must_use]
    pub fn is_cycle(&self) -> bool {
        self.is_cycle
    }

    /// Returns the number of the strands.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Describes each strand: its name, its wait with the strand for which it waits, the line of
    /// the waiting call, and the line of the spawn. In a cycle each strand waits for the next one.
    /// Twenty at most are listed.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// Returns the calls in which a strand of [`iter`](Self::iter) waits, by its index there.
    /// `None` without the crate feature `backtrace`, and for a strand that is a thread.
    #[must_use]
    pub fn backtrace(&self, index: usize) -> Option<&Backtrace> {
        self.calls.get(self.strands.get(index)?)
    }

    /// Asks the workers for the stacks of the strands. None of the strands that are named can go
    /// on, so their waits are still the same. `is_unwanted`: the runtime ends.
    pub(crate) fn add_stacks(&mut self, is_unwanted: impl Fn() -> bool) {
        if self.is_cycle && !unwind::IS_AVAILABLE {
            return;
        }
        // In a standstill any strand may hold what another one waits for.
        let question = match self.is_cycle {
            true => Question::FramesOf(self.strands.iter().copied().collect()),
            false => Question::Frames,
        };
        let Surveyed { workers, .. } = worker::survey(question, PATIENCE, is_unwanted);
        let strands: Vec<_> = workers.iter().flat_map(|worker| &worker.strands).collect();
        let has_all = |worker: &WorkerFacts| {
            worker.answer == WorkerAnswer::Complete && worker.tally.left_out == 0
        };
        let has_frames =
            |strand: &&StrandFacts| strand.frames.as_ref().is_some_and(|frames| frames.is_whole());
        let is_complete = workers.iter().all(has_all) && strands.iter().all(has_frames);
        for strand in strands.iter().filter(|strand| self.strands.contains(&strand.id)) {
            let Some(frames) = &strand.frames else { continue };
            self.calls.extend(Backtrace::of(frames).map(|calls| (strand.id, calls)));
            if !self.is_cycle {
                let holders = holders::describe(strand, &strands, is_complete, label);
                self.holders.extend(holders.map(|holders| (strand.id, holders)));
            }
        }
    }

    /// The report without the calls, whose look-up takes time.
    pub(crate) fn without_calls(&self) -> Deadlock {
        Deadlock { calls: HashMap::new(), ..self.clone() }
    }

    /// The strands whose calls are known, in the order of the lines.
    pub(crate) fn calls(&self) -> Vec<(String, Backtrace)> {
        let named = self.lines.iter().zip(&self.strands);
        let with_calls = named.filter_map(|(line, strand)| {
            let name = line.split(" waits for ").next().unwrap_or_default();
            Some((name.to_owned(), self.calls.get(strand)?.clone()))
        });
        with_calls.collect()
    }

    fn of_lines(
        is_cycle: bool,
        count: usize,
        lines: Vec<String>,
        strands: Vec<FiberId>,
    ) -> Deadlock {
        let (calls, holders) = (HashMap::new(), HashMap::new());
        Deadlock { is_cycle, lines, strands, calls, holders, count, help: "" }
    }

    /// The strands of a cycle, each with its need.
    pub(super) fn of_cycle(cycle: &[(&StrandFacts, Need)]) -> Deadlock {
        let next = cycle.iter().cycle().skip(1).take(NAMED.min(cycle.len()));
        let lines = cycle.iter().zip(next).filter_map(|((strand, need), (next, _))| {
            let wait = strand.wait.as_ref()?;
            let other = match strand.id == next.id {
                true => "itself".to_owned(),
                false => label(next),
            };
            let awaited = match (need, wait.kind.subject) {
                (Need::Scope(_), _) => format!("the end of {other}, a strand of its scope"),
                (_, Subject::Strand) => format!("the end of {other}"),
                (_, Subject::RwLock) => format!("{}, that {other} holds", wait.kind.name),
                _ => format!("{} that {other} holds", wait.kind.name),
            };
            Some((strand.id, line(strand, wait, &awaited)))
        });
        let is_lock =
            |(_, subject): &(_, Subject)| matches!(subject, Subject::Mutex | Subject::RwLock);
        let subjects =
            || cycle.iter().filter_map(|(s, _)| Some(((), s.wait.as_ref()?.kind.subject)));
        let help = match (subjects().all(|subject| is_lock(&subject)), cycle.len()) {
            (true, 1) => "drop the first guard before locking again",
            (true, _) => {
                "take these locks in the same order everywhere, or release one before waiting for \
                 the other; try_lock and Mutex::lock_timeout do not wait forever"
            }
            (false, _) => {
                "release locks before joining a strand or leaving a scope, and let no strand wait \
                 for one that waits for it"
            }
        };
        let (strands, lines) = lines.unzip();
        Deadlock { help, ..Deadlock::of_lines(true, cycle.len(), lines, strands) }
    }

    /// All strands of the process.
    pub(super) fn of_standstill(strands: &[StrandFacts]) -> Deadlock {
        let find = |id| strands.iter().find(|strand| strand.id == id);
        let mut has_queued = false;
        let lines = strands.iter().take(NAMED).filter_map(|strand| {
            let wait = strand.wait.as_ref()?;
            let name = wait.kind.name;
            let awaited = match (super::search::need_of(wait), wait.kind.subject) {
                (Need::Strand(id), subject) => match (find(id).map(label), subject) {
                    (Some(other), Subject::Strand) => format!("the end of {other}"),
                    // The end of a strand wakes its joiner, so it is a closure in a queue: of a
                    // loop that gives no turns.
                    (None, Subject::Strand) => {
                        has_queued = true;
                        format!("the end of strand {id}, which has not started")
                    }
                    (Some(holder), _) => format!("{name}, that {holder} holds"),
                    (None, _) => format!("{name}, that strand {id}, which has ended, holds"),
                },
                (_, Subject::RwLock) => match raw_rwlock::readers_of(wait.lock[0]) {
                    1 => format!("{name}, that 1 reader holds"),
                    readers => format!("{name}, that {readers} readers hold"),
                },
                _ => name.to_owned(),
            };
            Some((strand.id, line(strand, wait, &awaited)))
        });
        let (named, lines) = lines.unzip();
        let help = match has_queued {
            true => {
                "a join on the thread of the loop that drives a runtime waits forever; call \
                 GuestRuntime::turn until the fiber has ended, or await its handle"
            }
            false => help_for(strands),
        };
        Deadlock { help, ..Deadlock::of_lines(false, strands.len(), lines, named) }
    }
}

/// The remedy of a standstill. Channels come first, because a strand that waits for one often keeps
/// a lock, or is joined.
fn help_for(strands: &[StrandFacts]) -> &'static str {
    let is_awaited = |subjects: &[Subject]| {
        let waits = strands.iter().filter_map(|strand| strand.wait.as_ref());
        waits.into_iter().any(|wait| subjects.contains(&wait.kind.subject))
    };
    if is_awaited(&[Subject::Channel, Subject::Select]) {
        "drop each sender when its last value was sent, so that its receivers end; look for a \
         guard, a sender or a handle that was leaked or that a waiting strand keeps; \
         ramie::inspect::dump() describes all strands"
    } else if is_awaited(&[Subject::Mutex, Subject::RwLock]) {
        "look for a guard that was leaked or that a waiting strand keeps, and drop a guard to read \
         before you lock to write; ramie::inspect::dump() describes all strands"
    } else {
        "look for the call that should wake one of them and was not made, such as unpark, \
         notify_one, set or release; a Condvar forgets a notification that comes before the wait; \
         ramie::inspect::dump() describes all strands"
    }
}

/// What messages call a strand.
fn label(strand: &StrandFacts) -> String {
    let noun = if strand.id.is_thread() { "thread" } else { "fiber" };
    let attributes = strand.attributes.as_ref();
    match attributes.and_then(|attributes| attributes.options.name.as_deref()) {
        Some(name) => format!("{noun} '{}'", visible::line(name)),
        None => format!("{noun} {}", strand.id),
    }
}

fn line(strand: &StrandFacts, wait: &WaitFacts, awaited: &str) -> String {
    let mut line = format!("{} waits for {awaited}, at {}", label(strand), wait.location);
    if let Some(spawned_at) = strand.spawned_at {
        line.push_str(&format!("; spawned at {spawned_at}"));
    }
    line
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_cycle, self.count) {
            (true, 1) => f.write_str("deadlock: a strand waits for itself, and cannot go on")?,
            (true, count) => write!(
                f,
                "deadlock: {count} strands wait for one another, and none of them can go on"
            )?,
            (false, 1) => f.write_str(
                "deadlock: the only strand of the process waits, and nothing can wake it",
            )?,
            (false, count) => write!(
                f,
                "deadlock: all {count} strands of the process wait, and nothing can wake one of \
                 them"
            )?,
        }
        for (index, line) in self.lines.iter().enumerate() {
            write!(f, "\n  {line}")?;
            if let Some(holders) = self.strands.get(index).and_then(|id| self.holders.get(id)) {
                write!(f, "\n    {holders}")?;
            }
            if let Some(calls) = self.backtrace(index) {
                write!(f, "\n    {}", calls.listed("    "))?;
            }
        }
        if self.count > self.lines.len() {
            write!(f, "\n  and {} more", self.count - self.lines.len())?;
        }
        write!(f, "\n  help: {}", self.help)
    }
}
