//! Surveys: asking every worker of the process for facts about its strands.
//!
//! Only a strand's own worker may look at the strand's wait, because the record of the wait lies in
//! the strand's frame. So a thread that wants a dump posts one [`Survey`] to the [`SurveyInbox`] of
//! each worker, and the workers answer between turns of their loops. Nothing is resumed or moved.
//!
//! # Protocol
//!
//! | an inbox is | changed by |
//! |---|---|
//! | quiet | an asker: it queues its survey under the lock, sets `is_asked`, and wakes the worker |
//! | asked | the worker: it answers in slices of [`SLICE`], and clears `is_asked` under the lock when the queue is empty |
//!
//! *The race to fear* is an asker that comes while the worker falls asleep. `is_asked` is set
//! before the swap of [`Shared::wake`], and the worker looks at `is_asked` after it has swapped in
//! `SLEEPING`, as it looks at its inbox of strands. So the two cannot miss each other, by the
//! protocol in `shared.rs`.
//!
//! A worker whose loop does not run, because its thread runs code of its own, cannot answer. The
//! asker does not wait for it: `is_in_loop` is false. If the worker enters its loop meanwhile, it
//! answers. A worker whose loop runs one fiber for long does not answer either; the asker waits for
//! such workers until a time limit, and then names them. A strand that asks and must not suspend
//! answers the surveys of others while it waits, because two such strands would otherwise wait for
//! each other.
//!
//! # Slices
//! A worker goes through its stacks from the last to the first. The list of stacks changes between
//! two slices: a new stack goes to the end, which is not visited, and a stack that is removed is
//! replaced by the last one. So a stack that has not been visited never moves to a visited place; a
//! visited one may move to a place that has not been visited, and its strand is then reported
//! twice. The asker removes duplicates by their ids.
//!
//! Strands that have not started are in no list that another thread may read. The asker finds them
//! by their headers, whose `stack` holds the location of the spawn until the strand starts.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use ramie_driver::sys::{self, monotonic_ns};

use super::{
    FiberStack, Pieces, Shared, StackCopy, StackRoom, StrandFacts, Worker,
    counts::{SliceCounts, StrandCounts},
    facts::{self, Tally},
};
use crate::core::{
    primitive::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    strand::{FiberId, IdSet, StrandHeader},
};

/// How long a worker answers at a time.
const SLICE: Duration = Duration::from_millis(2);
/// The number of strands between two looks at the clock.
const STRIDE: usize = 64;
/// The same if stacks are copied, which takes some microseconds for each.
const STRIDE_OF_COPIES: usize = 8;
/// The most bytes of stacks that are copied for one survey.
pub(super) const MOST_COPIED: usize = 64 * 1024 * 1024;

/// The inboxes of all workers alive.
pub(super) static INBOXES: Mutex<Vec<Arc<SurveyInbox>>> = Mutex::new(Vec::new());

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of a worker by which any thread can ask it for facts.
pub(crate) struct SurveyInbox {
    is_asked: AtomicBool,
    is_in_loop: AtomicBool,
    surveys: Mutex<VecDeque<Posted>>,
    pub(super) shared: &'static Shared,
    /// The id of the thread's own strand; 0: it has none.
    root: AtomicU64,
    /// The index of the worker in its runtime.
    pub(super) index: Option<usize>,
    pub(super) thread_name: Option<String>,
    pub(super) thread_id: i32,
}

/// A survey in an inbox, and how far the worker has answered it.
struct Posted {
    survey: Arc<Survey>,
    progress: Progress,
}

/// The part of a worker's answer that has been given.
#[derive(Default)]
pub(super) struct Progress {
    /// The stacks that have not been visited are those below this index; none: all.
    below: Option<usize>,
    tally: Tally,
    room: Option<StackRoom>,
}

/// What a survey asks for.
pub(crate) enum Question {
    /// All strands.
    Strands,
    /// All strands, with the frames of those that are suspended.
    Frames,
    /// These strands, with their frames.
    FramesOf(IdSet),
    /// The strands that wait for other strands, and tallies of all strands.
    Waits,
    /// Counts of all strands, and the strands that have waited longest.
    Counts,
}

/// The answers of all workers to one question.
pub(crate) struct Survey {
    pub(super) question: Question,
    pub(super) answers: Mutex<SurveyAnswers>,
    pub(super) has_answer: Condvar,
    /// The asker waits no more.
    pub(super) is_over: AtomicBool,
    /// The bytes of stacks that may still be copied.
    pub(super) room: AtomicUsize,
}

#[derive(Default)]
pub(super) struct SurveyAnswers {
    /// The facts of each slice, with the inbox that they came from.
    pub(super) slices: Vec<(Arc<SurveyInbox>, Pieces<StrandFacts>)>,
    pub(super) complete: Vec<(Arc<SurveyInbox>, Tally)>,
    /// The counts of each slice.
    pub(super) counts: Vec<(Arc<SurveyInbox>, StrandCounts)>,
    /// The time that the workers have spent.
    pub(super) spent: Duration,
}

/// A worker, as a dump describes it.
pub(crate) struct WorkerFacts {
    pub(crate) index: Option<usize>,
    pub(crate) thread_name: Option<String>,
    pub(crate) thread_id: i32,
    /// The number of fibers that have started and not ended.
    pub(crate) fibers: usize,
    pub(crate) answer: WorkerAnswer,
    /// The strand of the thread itself, if it has one.
    pub(crate) root: u64,
    pub(crate) strands: Pieces<StrandFacts>,
    pub(crate) tally: Tally,
    pub(crate) counts: StrandCounts,
}

/// Whether a worker has described its strands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WorkerAnswer {
    Complete,
    /// Its thread runs code of its own, outside the loop.
    NotInLoop,
    /// Its loop runs a fiber that does not suspend.
    Silent,
}

impl SurveyInbox {
    /// Makes the inbox of a worker on this thread, and lets askers find it.
    pub(super) fn register(shared: &'static Shared, index: Option<usize>) -> Arc<SurveyInbox> {
        let inbox = Arc::new(SurveyInbox {
            is_asked: AtomicBool::new(false),
            is_in_loop: AtomicBool::new(false),
            surveys: Mutex::default(),
            shared,
            root: AtomicU64::new(0),
            index,
            thread_name: thread::current().name().map(str::to_owned),
            thread_id: sys::thread_id(),
        });
        lock(&INBOXES).push(Arc::clone(&inbox));
        inbox
    }

    /// The worker ends: nobody finds its inbox any more, and nobody waits for it.
    pub(super) fn unregister(self: &Arc<Self>) {
        lock(&INBOXES).retain(|other| !Arc::ptr_eq(other, self));
        // An asker that has copied the list before may post its survey after this.
        self.set_in_loop(false);
        for posted in mem::take(&mut *lock(&self.surveys)) {
            posted.survey.complete(self, Tally::default());
        }
    }

    /// Notes the strand of the thread itself.
    pub(super) fn note_root(&self, id: Option<FiberId>) {
        self.root.store(id.map_or(0, FiberId::as_u64), Ordering::Relaxed);
    }

    /// Notes whether the worker's loop runs; called by the worker.
    #[inline]
    pub(super) fn set_in_loop(&self, is_in_loop: bool) {
        self.is_in_loop.store(is_in_loop, Ordering::Release);
    }

    pub(super) fn is_in_loop(&self) -> bool {
        self.is_in_loop.load(Ordering::Acquire)
    }

    /// Whether a survey waits for the worker's answer.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        // Relaxed: before a sleep the swap of `Shared::fall_asleep` makes the question visible.
        self.is_asked.load(Ordering::Relaxed)
    }

    pub(super) fn ask(&self, survey: &Arc<Survey>) {
        let mut surveys = lock(&self.surveys);
        surveys.push_back(Posted { survey: Arc::clone(survey), progress: Progress::default() });
        self.is_asked.store(true, Ordering::Relaxed);
        drop(surveys);
        self.shared.wake();
    }

    pub(super) fn withdraw(&self, survey: &Arc<Survey>) {
        let mut surveys = lock(&self.surveys);
        surveys.retain(|posted| !Arc::ptr_eq(&posted.survey, survey));
        self.is_asked.store(!surveys.is_empty(), Ordering::Relaxed);
    }

    pub(super) fn describe(&self, answer: WorkerAnswer) -> WorkerFacts {
        WorkerFacts {
            index: self.index,
            thread_name: self.thread_name.clone(),
            thread_id: self.thread_id,
            fibers: self.shared.live(),
            answer,
            root: self.root.load(Ordering::Relaxed),
            strands: Pieces::default(),
            tally: Tally::default(),
            counts: StrandCounts::default(),
        }
    }
}

/// Wakes all workers, so that each looks at what comes from outside its run queue.
pub(super) fn wake_all() {
    lock(&INBOXES).iter().for_each(|inbox| inbox.shared.wake());
}

/// Answers the surveys that were posted to a worker, for one slice. Called by its loop only.
#[inline]
pub(super) fn answer_if_asked(worker: &Worker) {
    if worker.surveys.is_asked() {
        answer(worker);
    }
}

#[cold]
#[inline(never)]
fn answer(worker: &Worker) {
    // After a switch the fiber that has suspended is still noted as the one that runs.
    worker.leave_fibers();
    answer_slice_of_first(worker);
}

/// Answers the first survey in the inbox, for one slice.
pub(super) fn answer_slice_of_first(worker: &Worker) {
    let inbox = &worker.surveys;
    let mut surveys = lock(&inbox.surveys);
    if let Some(posted) = surveys.front_mut() {
        let is_over = posted.survey.is_over.load(Ordering::Relaxed);
        if is_over || answer_slice(worker, &posted.survey, &mut posted.progress) {
            surveys.pop_front();
        }
    }
    inbox.is_asked.store(!surveys.is_empty(), Ordering::Relaxed);
}

/// Adds one slice to the answers; returns whether it was the last.
pub(super) fn answer_slice(worker: &Worker, survey: &Survey, progress: &mut Progress) -> bool {
    let start_ns = monotonic_ns();
    let end_ns = start_ns + SLICE.as_nanos() as u64;
    let mut facts = Pieces::default();
    let mut counts = SliceCounts::default();
    let reader = facts::Reader::new(worker);
    let Progress { below, tally, room } = progress;
    let mut with_frames = |stack: &FiberStack, tally: &mut Tally| {
        if survey.room.load(Ordering::Relaxed) == 0 {
            let strand = reader.of_stack(stack);
            tally.left_out += u64::from(strand.is_some());
            return strand;
        }
        let strand = reader.of_stack_with_frames(stack, room.get_or_insert_with(StackRoom::new));
        let frames = strand.as_ref().and_then(|strand| strand.frames.as_ref());
        survey.use_room(frames.map_or(0, StackCopy::bytes));
        strand
    };
    let mut visit = |stack: &FiberStack| match &survey.question {
        Question::Frames => facts.extend(with_frames(stack, tally)),
        Question::FramesOf(ids) => {
            let is_meant = |header: &StrandHeader| ids.contains(&header.id());
            if stack.try_header().is_some_and(is_meant) {
                facts.extend(with_frames(stack, tally));
            }
        }
        Question::Strands => facts.extend(reader.of_stack(stack)),
        Question::Waits => facts.extend(reader.of_waiting(stack, tally)),
        Question::Counts => reader.count(stack, &mut counts),
    };
    let below = below.get_or_insert_with(|| {
        visit(worker.root.stack());
        usize::MAX
    });
    let mut left = true;
    while left && monotonic_ns() < end_ns {
        left = worker.stacks.visit_down(below, survey.question.stride(), &mut visit);
    }
    let counts = counts.finish(&reader, &mut facts);
    let mut answers = lock(&survey.answers);
    answers.slices.push((Arc::clone(&worker.surveys), facts));
    if matches!(survey.question, Question::Counts) {
        answers.counts.push((Arc::clone(&worker.surveys), counts));
    }
    answers.spent += Duration::from_nanos(monotonic_ns() - start_ns);
    drop(answers);
    if !left {
        reader.note_worker(tally);
        survey.complete(&worker.surveys, mem::take(tally));
    }
    !left
}

impl Question {
    fn stride(&self) -> usize {
        match self {
            Question::Frames | Question::FramesOf(_) => STRIDE_OF_COPIES,
            Question::Strands | Question::Waits | Question::Counts => STRIDE,
        }
    }
}

impl Survey {
    /// Takes bytes from the room for copies, which each worker may exceed by one copy.
    fn use_room(&self, bytes: usize) {
        let take = |left: usize| Some(left.saturating_sub(bytes));
        // Relaxed: a count alone.
        let _ = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    }

    fn complete(&self, inbox: &Arc<SurveyInbox>, tally: Tally) {
        lock(&self.answers).complete.push((Arc::clone(inbox), tally));
        self.has_answer.notify_all();
    }
}

impl PartialEq for SurveyInbox {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
