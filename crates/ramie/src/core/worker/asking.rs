//! The asker's side of a [`survey`](super::survey): posting it, waiting for the answers, and
//! putting them together.
//!
//! A strand or a thread that makes a dump waits for the answers ([`survey`]). A watchdog must not
//! wait, so it posts a survey ([`PendingSurvey::post`]), and looks now and then whether all workers
//! have answered.

use std::{
    mem,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use ramie_driver::sys::monotonic_ns;

use super::{
    WorkerAnswer, WorkerFacts,
    facts::Tally,
    pause, stack_copy,
    survey::{
        INBOXES, MOST_COPIED, Progress, Question, Survey, SurveyAnswers, SurveyInbox, answer_slice,
        answer_slice_of_first, lock,
    },
    with_existing, yield_now,
};
use crate::core::{
    cancel,
    primitive::{AtomicBool, AtomicUsize, Ordering},
    strand::IdSet,
};

/// How long a strand that asks pauses between two looks at the answers.
const LOOK: Duration = Duration::from_micros(500);

/// A survey that was posted to all workers of the process except the caller's own.
pub(crate) struct PendingSurvey {
    survey: Arc<Survey>,
    inboxes: Vec<Arc<SurveyInbox>>,
    own: Option<Arc<SurveyInbox>>,
}

/// The answers to a survey.
pub(crate) struct Surveyed {
    pub(crate) workers: Vec<WorkerFacts>,
    /// The ids of all strands that the workers have described.
    pub(crate) ids: IdSet,
    /// The turn of the asker, which goes on.
    pub(crate) turn: AskersTurn,
    /// The time that the workers have spent.
    pub(crate) spent: Duration,
}

impl PendingSurvey {
    pub(crate) fn post(question: Question) -> PendingSurvey {
        if matches!(question, Question::Frames | Question::FramesOf(_)) {
            stack_copy::prepare();
        }
        let survey = Arc::new(Survey {
            question,
            answers: Mutex::default(),
            has_answer: Condvar::new(),
            is_over: AtomicBool::new(false),
            room: AtomicUsize::new(MOST_COPIED),
        });
        let inboxes = lock(&INBOXES).clone();
        let own = with_existing(|worker| Arc::clone(&worker.surveys));
        let pending = PendingSurvey { survey, inboxes, own };
        pending.others().for_each(|inbox| inbox.ask(&pending.survey));
        pending
    }

    fn others(&self) -> impl Iterator<Item = &Arc<SurveyInbox>> {
        self.inboxes.iter().filter(|inbox| self.own.as_ref() != Some(*inbox))
    }

    /// Whether each worker in whose loop a strand may run has answered.
    pub(crate) fn is_answered(&self) -> bool {
        let answers = lock(&self.survey.answers);
        let is_complete = |inbox| find(&answers, inbox).is_some();
        self.inboxes.iter().all(|inbox| is_complete(inbox) || !inbox.is_in_loop())
    }

    /// Waits until all have answered, or until the asker gives up.
    fn wait(&self, gives_up: impl Fn() -> bool) {
        while !self.is_answered() && !gives_up() {
            match may_suspend() {
                Some(true) => {
                    // In a cancelled scope it would pause longer each time.
                    cancel::shield(|| pause(LOOK));
                    continue;
                }
                // Its worker cannot answer, because this strand runs.
                Some(false) => _ = with_existing(answer_slice_of_first),
                None => {}
            }
            let answers = lock(&self.survey.answers);
            drop(self.survey.has_answer.wait_timeout(answers, LOOK));
        }
    }

    /// The answers so far, in the order of the workers, each strand once.
    pub(crate) fn finish(self, mut turn: AskersTurn) -> Surveyed {
        self.survey.is_over.store(true, Ordering::Relaxed);
        self.others().for_each(|inbox| inbox.withdraw(&self.survey));
        let mut answers = mem::take(&mut *lock(&self.survey.answers));
        let inboxes = &self.inboxes;
        let describe = |inbox: &Arc<SurveyInbox>| match find(&answers, inbox) {
            Some(tally) => WorkerFacts { tally: *tally, ..inbox.describe(WorkerAnswer::Complete) },
            None if inbox.is_in_loop() => inbox.describe(WorkerAnswer::Silent),
            None => inbox.describe(WorkerAnswer::NotInLoop),
        };
        let mut workers: Vec<_> = inboxes.iter().map(describe).collect();
        let place =
            |inbox: &Arc<SurveyInbox>| inboxes.iter().position(|other| Arc::ptr_eq(other, inbox));
        let slices = mem::take(&mut answers.slices);
        // With room for all: to move a million ids to a larger table takes 20 ms.
        let strands = slices.iter().map(|(_, facts)| facts.len()).sum();
        turn.yield_if_long();
        let mut ids = IdSet::with_capacity_and_hasher(strands, Default::default());
        for (inbox, mut facts) in slices {
            for piece in facts.pieces_mut() {
                turn.yield_if_long();
                piece.retain(|strand| ids.insert(strand.id));
            }
            if let Some(at) = place(&inbox) {
                workers[at].strands.append(facts);
            }
        }
        for (inbox, counts) in mem::take(&mut answers.counts) {
            if let Some(at) = place(&inbox) {
                workers[at].counts.add(counts);
            }
        }
        Surveyed { workers, ids, turn, spent: answers.spent }
    }
}

fn find<'a>(answers: &'a SurveyAnswers, inbox: &Arc<SurveyInbox>) -> Option<&'a Tally> {
    let mut complete = answers.complete.iter();
    complete.find(|(other, _)| Arc::ptr_eq(other, inbox)).map(|(_, tally)| tally)
}

/// The time that a strand which asks has spent on the answers since it last let others run.
pub(crate) struct AskersTurn {
    start_ns: u64,
}

/// How long a strand works on answers at a time.
const ASKERS_TURN: Duration = Duration::from_millis(1);

impl AskersTurn {
    pub(crate) fn begin() -> AskersTurn {
        AskersTurn { start_ns: monotonic_ns() }
    }

    /// Lets other strands run, if this one has worked for long and may suspend. The facts of a
    /// million strands take a second.
    pub(crate) fn yield_if_long(&mut self) {
        if monotonic_ns() - self.start_ns > ASKERS_TURN.as_nanos() as u64 {
            if may_suspend() == Some(true) {
                yield_now();
            }
            self.start_ns = monotonic_ns();
        }
    }
}

/// Whether the strand that asks may suspend; none: this thread has no worker.
fn may_suspend() -> Option<bool> {
    with_existing(|worker| !worker.running.is_in_no_switch() && !thread::panicking())
}

/// Asks all workers of the process for facts about their strands, and waits for the answers until
/// `limit` has passed or `is_unwanted` holds.
#[track_caller]
pub(crate) fn survey(
    question: Question,
    limit: Duration,
    is_unwanted: impl Fn() -> bool,
) -> Surveyed {
    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let end_ns = monotonic_ns().saturating_add(limit_ns);
    let pending = PendingSurvey::post(question);
    let mut turn = AskersTurn::begin();
    if pending.own.is_some() {
        answer_for_own_worker(&pending.survey, &mut turn);
    }
    pending.wait(|| monotonic_ns() >= end_ns || is_unwanted());
    pending.finish(turn)
}

/// The strand that asks answers for its own worker: all other strands of that worker are suspended.
/// They have their turns between two slices.
fn answer_for_own_worker(survey: &Survey, turn: &mut AskersTurn) {
    let mut progress = Progress::default();
    while with_existing(|worker| answer_slice(worker, survey, &mut progress)) == Some(false) {
        turn.yield_if_long();
    }
}
