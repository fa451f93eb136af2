//! Surveys, comparisons, findings.

use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ramie_driver::sys::monotonic_ns;

use super::{
    graph::{Graph, Need, WaitNode},
    report::Deadlock,
    schedule::{Activity, Schedule, SurveyOutcome},
    standstill::{StillCounts, counts, counts_of, has_other_threads},
};
use crate::{
    core::{
        strand::FiberId,
        wait::park::Subject,
        worker::{
            AskersTurn, PendingSurvey, Question, StrandFacts, Surveyed, WaitFacts, WorkerFacts,
        },
    },
    sync::raw_mutex,
};

/// How many surveys in a row have to contain a finding before it is reported.
pub(super) const AGREEING: u32 = 3;
/// How long the workers may take to answer. One that takes longer is left out.
const PATIENCE: Duration = Duration::from_millis(500);
/// While fibers run, only waits of at least this age count.
const OLD: Duration = Duration::from_secs(1);
/// The time that a worker spends on being woken for a survey, at most.
const WAKE_UP: Duration = Duration::from_micros(20);
/// The most findings that are remembered as reported.
const REMEMBERED: usize = 1024;

/// A finding; equal in two surveys only if the same waits are meant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Key {
    /// The ids of the strands, and the numbers of their waits.
    Cycle(Vec<(FiberId, u32)>),
    Standstill(StillCounts),
}

/// The findings that the watchdogs of all runtimes have reported.
static REPORTED: Mutex<Option<HashSet<Key>>> = Mutex::new(None);

/// The search for deadlocks of one runtime's watchdog.
pub(crate) struct DeadlockSearch {
    schedule: Schedule,
    pending: Option<PostedSurvey>,
    /// The findings of the last survey, each with the number of surveys in a row that had it.
    suspects: HashMap<Key, u32>,
    /// A standstill that is reported if the next survey, of all strands, agrees.
    still: Option<StillCounts>,
    /// The thread of the test harness, which cannot wake a strand.
    harness: Option<i32>,
}

struct PostedSurvey {
    survey: PendingSurvey,
    /// The activity when it was posted.
    activity: Activity,
    until: Duration,
}

impl DeadlockSearch {
    /// In a test the main thread, that of the test harness, does not count.
    pub(crate) fn new(now: Duration, is_test: bool) -> Self {
        DeadlockSearch {
            schedule: Schedule::new(now),
            pending: None,
            suspects: HashMap::new(),
            still: None,
            harness: is_test.then(|| std::process::id().cast_signed()),
        }
    }

    /// Looks at the answers to a survey, or posts one if it is due. `threads` are those of the
    /// runtime's workers.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        activity: Activity,
        threads: impl FnOnce() -> Vec<i32>,
    ) -> Vec<Deadlock> {
        self.schedule.note(now, activity);
        match self.pending.take() {
            Some(posted) if !posted.survey.is_answered() && now < posted.until => {
                self.pending = Some(posted);
            }
            Some(posted) => return self.conclude(now, posted, &threads()),
            None if self.schedule.due().is_some_and(|due| due <= now) => {
                self.post(now, Question::Waits);
            }
            None => {}
        }
        Vec::new()
    }

    /// How long the watchdog may sleep while the workers do; none: until one of them wakes up.
    pub(crate) fn rest(&self, now: Duration) -> Option<Duration> {
        match &self.pending {
            Some(_) => Some(Duration::ZERO),
            None => self.schedule.due().map(|due| due.saturating_sub(now)),
        }
    }

    fn post(&mut self, now: Duration, question: Question) {
        let survey = PendingSurvey::post(question);
        let activity = self.schedule.activity();
        self.pending = Some(PostedSurvey { survey, activity, until: now + PATIENCE });
    }

    fn conclude(&mut self, now: Duration, posted: PostedSurvey, threads: &[i32]) -> Vec<Deadlock> {
        let start_ns = monotonic_ns();
        let is_still = self.schedule.is_still(posted.activity);
        let Surveyed { workers, spent, .. } = posted.survey.finish(AskersTurn::begin());
        let wake_ups = WAKE_UP * u32::try_from(workers.len()).unwrap_or(u32::MAX);
        let mut outcome = SurveyOutcome::default();
        let findings = match self.still.take() {
            Some(still) => self.confirm_standstill(still, workers).into_iter().collect(),
            None => self.compare(workers, threads, is_still, &mut outcome),
        };
        let own = Duration::from_nanos(monotonic_ns() - start_ns);
        outcome.cost = spent + wake_ups + own;
        self.schedule.surveyed(now, posted.activity, outcome);
        if self.still.is_some() {
            self.post(now, Question::Strands);
        }
        findings
    }

    /// Compares the answers to those before, and returns the findings on which enough of them
    /// agree.
    fn compare(
        &mut self,
        workers: Vec<WorkerFacts>,
        threads: &[i32],
        is_still: bool,
        outcome: &mut SurveyOutcome,
    ) -> Vec<Deadlock> {
        let least_age = if is_still { Duration::ZERO } else { OLD };
        let mut before = mem::take(&mut self.suspects);
        let mut note = |key: Key, suspects: &mut HashMap<Key, u32>| {
            let agreeing = before.remove(&key).unwrap_or(0) + 1;
            if agreeing < AGREEING {
                suspects.insert(key, agreeing);
            }
            agreeing >= AGREEING
        };
        let still = counts(&workers).filter(|_| is_still);
        let has_others = still.is_some() && has_other_threads(&workers, self.harness);
        let waits = Waits::new(workers, least_age);
        outcome.may_change = waits.graph.needs_others || has_others;
        let mut findings = Vec::new();
        let cycles = waits.graph.cycles();
        for cycle in &cycles {
            let key = waits.key(cycle);
            if !waits.has_strand_of(cycle, threads) || was_reported(&key) {
                continue;
            }
            if note(key.clone(), &mut self.suspects) && remember(key) {
                findings.push(waits.report(cycle));
            }
        }
        // A cycle explains why all others wait.
        if let Some(still) = still.filter(|_| cycles.is_empty() && !has_others) {
            let key = Key::Standstill(still);
            if !was_reported(&key) && note(key, &mut self.suspects) {
                self.still = Some(still);
            }
        }
        outcome.has_suspects = !self.suspects.is_empty();
        findings
    }

    /// Reports a standstill if the facts of all strands agree with the counts.
    fn confirm_standstill(
        &self,
        still: StillCounts,
        workers: Vec<WorkerFacts>,
    ) -> Option<Deadlock> {
        let strands = || workers.iter().flat_map(|worker| &worker.strands);
        if counts_of(strands()) != Some(still) || has_other_threads(&workers, self.harness) {
            return None;
        }
        if !remember(Key::Standstill(still)) {
            return None;
        }
        let mut strands: Vec<_> = workers.into_iter().flat_map(|worker| worker.strands).collect();
        strands.sort_by_key(|strand| strand.id);
        Some(Deadlock::of_standstill(&strands))
    }
}

fn with_reported<R>(f: impl FnOnce(&mut HashSet<Key>) -> R) -> R {
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    f(reported.get_or_insert_default())
}

fn was_reported(key: &Key) -> bool {
    with_reported(|reported| reported.contains(key))
}

/// Remembers a finding; returns false if another watchdog has reported it.
fn remember(key: Key) -> bool {
    with_reported(|reported| {
        if reported.len() >= REMEMBERED {
            reported.clear();
        }
        reported.insert(key)
    })
}

/// The strands that wait for others, in the order of their ids.
struct Waits {
    /// Each with the thread of its worker.
    strands: Vec<(StrandFacts, i32)>,
    nodes: Vec<WaitNode>,
    graph: Graph,
}

impl Waits {
    /// Only waits of at least that age count.
    fn new(workers: Vec<WorkerFacts>, least_age: Duration) -> Self {
        let is_old = |strand: &StrandFacts| {
            let since =
                strand.wait.as_ref().map(|wait| Duration::from_millis(wait.since_ms.into()));
            since.is_some_and(|since| since >= least_age)
        };
        let of_worker = |worker: WorkerFacts| {
            let thread = worker.thread_id;
            worker.strands.into_iter().map(move |strand| (strand, thread))
        };
        let strands = workers.into_iter().flat_map(of_worker);
        let mut strands: Vec<_> = strands.filter(|(strand, _)| is_old(strand)).collect();
        strands.sort_by_key(|(strand, _)| strand.id);
        let node = |(strand, _): &(StrandFacts, i32)| WaitNode {
            id: strand.id,
            waits: strand.waits,
            need: strand.wait.as_ref().map_or(Need::Unknown, need_of),
            scope: strand.scope,
        };
        let nodes: Vec<_> = strands.iter().map(node).collect();
        Waits { graph: Graph::new(&nodes), strands, nodes }
    }

    fn key(&self, cycle: &[usize]) -> Key {
        let wait = |at: &usize| (self.nodes[*at].id, self.nodes[*at].waits);
        Key::Cycle(cycle.iter().map(wait).collect())
    }

    fn has_strand_of(&self, cycle: &[usize], threads: &[i32]) -> bool {
        cycle.iter().any(|at| threads.contains(&self.strands[*at].1))
    }

    fn report(&self, cycle: &[usize]) -> Deadlock {
        let strand = |at: &usize| (&self.strands[*at].0, self.nodes[*at].need);
        Deadlock::of_cycle(&cycle.iter().map(strand).collect::<Vec<_>>())
    }
}

/// The strands that have to act before a wait can end.
pub(super) fn need_of(wait: &WaitFacts) -> Need {
    let strand = match wait.kind.subject {
        Subject::Mutex => raw_mutex::owner_of(wait.lock[0]),
        Subject::RwLock => wait.lock[1],
        Subject::Strand => wait.detail[0],
        Subject::Scope => return Need::Scope(wait.detail[0] as usize),
        _ => return Need::Unknown,
    };
    FiberId::from_u64(strand).map_or(Need::Unknown, Need::Strand)
}
