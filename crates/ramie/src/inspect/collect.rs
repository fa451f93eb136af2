//! From the facts of the workers to the value of a dump.

use std::{
    mem,
    panic::Location,
    time::{Duration, Instant},
};

use super::{
    Backtrace, DumpOptions,
    awaited::awaited_by,
    dump::{
        CancelDump, Dump, StackDump, StrandDump, StrandState, WaitDump, WaitTarget, WorkerDump,
        WorkerStatus,
    },
};
use crate::{
    core::{
        strand::{FiberId, IdSet, visit_unstarted},
        wait::{park::Subject, record::NO_OFFSET},
        worker::{
            self, AskersTurn, LimitFacts, Pieces, Question, StrandFacts, Surveyed, WaitFacts,
            WorkerAnswer, WorkerFacts,
        },
    },
    sync::{raw_mutex, raw_rwlock},
    unwind,
};

/// Asks all workers, and waits for their answers for the limit, or until nobody wants the dump.
#[track_caller]
pub(super) fn dump(options: &DumpOptions, is_unwanted: impl Fn() -> bool) -> Dump {
    let start = Instant::now();
    let (mut dump, mut known, mut turn) = of_all(options, &is_unwanted);
    if let Some(text) = &options.name {
        dump.keep_named(text, &mut turn, &is_unwanted);
        known = dump.ids();
        if options.has_frames() {
            // Only now, because the stacks of others would fill the room.
            let question = Question::FramesOf(known.clone());
            let surveyed = worker::survey(question, options.limit, &is_unwanted);
            dump.add_backtraces(&surveyed.workers, &mut turn);
        }
    }
    dump.awaited = awaited_by(&dump.strands, known, &mut turn);
    dump.took = start.elapsed();
    dump
}

/// A dump of the strands, their ids, and the turn of the asker, which goes on.
#[track_caller]
fn of_all(options: &DumpOptions, is_unwanted: &impl Fn() -> bool) -> (Dump, IdSet, AskersTurn) {
    // Before the workers answer, because a strand that starts behind its worker's answer would
    // otherwise be missing.
    let unstarted = unstarted(&mut AskersTurn::begin(), options);
    let surveyed = worker::survey(options.question(), options.limit, is_unwanted);
    let Surveyed { mut workers, ids: mut known, mut turn, .. } = surveyed;
    workers.retain(|worker| worker.is_worth_a_line());
    workers.sort_by_key(|worker| worker.index.unwrap_or(usize::MAX));
    let started: usize = workers.iter().map(|worker| worker.strands.len()).sum();
    // With room for all, and for the roots: to move a million strands takes some 100 ms.
    let most_strands = started + workers.len() + unstarted.len();
    let mut dump = Dump { strands: Vec::with_capacity(most_strands), ..Dump::default() };
    for mut worker in workers {
        let strands = mem::take(&mut worker.strands);
        add_started(&mut dump, strands, &mut turn, || options.has_backtraces && !is_unwanted());
        dump.backtraces_left_out += worker.tally.left_out;
        let root = FiberId::from_u64(worker.root).filter(|_| options.is_wanted(worker.root));
        if let Some(root) = root.filter(|root| known.insert(*root)) {
            dump.strands.push(of_root(root, &worker, dump.workers.len()));
        }
        dump.workers.push(of_worker(worker));
    }
    for mut piece in unstarted.into_pieces() {
        turn.yield_if_long();
        piece.retain(|(id, _)| known.insert(*id));
        dump.strands.extend(piece.into_iter().map(of_unstarted));
    }
    (dump, known, turn)
}

/// Adds the strands of the worker that will be added next.
fn add_started(
    dump: &mut Dump,
    strands: Pieces<StrandFacts>,
    turn: &mut AskersTurn,
    has_backtraces: impl Fn() -> bool,
) {
    let place = dump.workers.len();
    for piece in strands.into_pieces() {
        turn.yield_if_long();
        for mut strand in piece {
            if !has_backtraces() {
                strand.frames = None;
            }
            if strand.frames.is_some() {
                // To walk through a stack takes as long as to describe some hundred strands.
                turn.yield_if_long();
            }
            dump.strands.push(of_strand(strand, place));
        }
    }
}

impl DumpOptions {
    fn question(&self) -> Question {
        match self.only {
            Some(id) => Question::FramesOf(IdSet::from_iter([id])),
            None if self.has_frames() && self.name.is_none() => Question::Frames,
            None => Question::Strands,
        }
    }

    fn has_frames(&self) -> bool {
        self.has_backtraces && unwind::IS_AVAILABLE
    }

    fn is_wanted(&self, id: u64) -> bool {
        self.only.is_none_or(|only| only.as_u64() == id)
    }
}

impl WorkerFacts {
    /// Whether it belongs to a runtime, or to a thread that is a strand. The small worker of a
    /// thread that is in `run` has neither.
    pub(super) fn is_worth_a_line(&self) -> bool {
        self.index.is_some() || self.root != 0 || self.fibers > 0 || !self.strands.is_empty()
    }
}

pub(super) fn status_of(answer: WorkerAnswer) -> WorkerStatus {
    match answer {
        WorkerAnswer::Complete => WorkerStatus::Complete,
        WorkerAnswer::NotInLoop => WorkerStatus::OutsideLoop,
        WorkerAnswer::Silent => WorkerStatus::Silent,
    }
}

fn of_worker(worker: WorkerFacts) -> WorkerDump {
    WorkerDump {
        index: worker.index,
        thread_name: worker.thread_name,
        thread_id: worker.thread_id,
        fibers: worker.fibers,
        status: status_of(worker.answer),
    }
}

/// A thread that runs code of its own, of which only its id is known.
fn of_root(id: FiberId, worker: &WorkerFacts, place: usize) -> StrandDump {
    let name = worker.thread_name.clone();
    StrandDump { name, worker: Some(place), ..empty(id, StrandState::Running) }
}

fn empty(id: FiberId, state: StrandState) -> StrandDump {
    StrandDump {
        id,
        name: None,
        state,
        worker: None,
        waits: 0,
        age: None,
        parent: None,
        spawned_at: None,
        closure: None,
        wait: None,
        cancel: None,
        stack: None,
        backtrace: None,
    }
}

/// A strand that has not started, and the call that spawned it.
type Unstarted = (FiberId, &'static Location<'static>);

/// The strands that have not started.
fn unstarted(turn: &mut AskersTurn, options: &DumpOptions) -> Pieces<Unstarted> {
    let mut unstarted = Pieces::default();
    let add = |id: FiberId, location| {
        if options.is_wanted(id.as_u64()) {
            unstarted.push((id, location));
        }
    };
    visit_unstarted(|| turn.yield_if_long(), add);
    unstarted
}

fn of_unstarted((id, location): Unstarted) -> StrandDump {
    StrandDump { spawned_at: Some(location.into()), ..empty(id, StrandState::NotStarted) }
}

pub(super) fn of_strand(facts: StrandFacts, place: usize) -> StrandDump {
    let state = match &facts.wait {
        _ if facts.is_running => StrandState::Running,
        Some(_) => StrandState::Waiting,
        None => StrandState::Runnable,
    };
    let name = facts.attributes.and_then(|attributes| attributes.options.name.clone());
    StrandDump {
        id: facts.id,
        name,
        state,
        worker: Some(place),
        waits: facts.waits,
        age: facts.age_ms.map(|ms| Duration::from_millis(ms.into())),
        parent: facts.parent,
        spawned_at: facts.spawned_at.map(Into::into),
        closure: Some(facts.closure).filter(|name| !name.is_empty()),
        wait: facts.wait.map(of_wait),
        cancel: facts.limits.map(|limits| of_limits(*limits)),
        stack: facts
            .stack
            .map(|stack| StackDump { size: stack.base() - stack.floor(), base: stack.base() }),
        backtrace: facts.frames.as_ref().and_then(Backtrace::of),
    }
}

fn of_wait(facts: WaitFacts) -> WaitDump {
    WaitDump {
        purpose: facts.kind.name,
        target: target_of(&facts),
        location: facts.location.into(),
        since: Duration::from_millis(facts.since_ms.into()),
        left: facts.left_ns.map(Duration::from_nanos),
    }
}

fn target_of(facts: &WaitFacts) -> WaitTarget {
    let [first, second] = facts.detail;
    let address = first as usize;
    match facts.kind.subject {
        Subject::Nothing | Subject::Unpark => WaitTarget::None,
        Subject::Descriptor if first == u64::MAX => WaitTarget::None,
        Subject::Descriptor => WaitTarget::Descriptor {
            fd: first as i32,
            offset: Some(second).filter(|offset| *offset != NO_OFFSET),
            name: None,
        },
        Subject::Mutex => {
            let owner = FiberId::from_u64(raw_mutex::owner_of(facts.lock[0]));
            WaitTarget::Mutex { address, owner }
        }
        Subject::RwLock => WaitTarget::RwLock {
            address,
            writer: FiberId::from_u64(facts.lock[1]),
            readers: raw_rwlock::readers_of(facts.lock[0]),
        },
        Subject::Channel => WaitTarget::Channel { address },
        Subject::Select => WaitTarget::Select { arms: first as usize },
        Subject::Object => WaitTarget::Object { address },
        Subject::Strand => match FiberId::from_u64(first) {
            Some(id) => WaitTarget::Strand { id },
            None => WaitTarget::None,
        },
        Subject::Scope => WaitTarget::Scope { address },
    }
}

fn of_limits(facts: LimitFacts) -> CancelDump {
    CancelDump {
        left: facts.left_ns.map(Duration::from_nanos),
        scope: facts.scope,
        cancelled: facts.cancelled,
    }
}
