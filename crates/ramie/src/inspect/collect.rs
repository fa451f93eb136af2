//! From the facts of the workers to the value of a dump.

use std::{
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
            self, AskersTurn, LimitFacts, Question, StrandFacts, WaitFacts, WorkerAnswer,
            WorkerFacts,
        },
    },
    sync::{raw_mutex, raw_rwlock},
    unwind,
};

/// The number of strands between two looks at the clock.
const STRIDE: usize = 512;

/// Asks all workers, and waits for their answers for the limit, or until nobody wants the dump.
#[track_caller]
pub(super) fn dump(options: &DumpOptions, is_unwanted: impl Fn() -> bool) -> Dump {
    let start = Instant::now();
    let mut turn = AskersTurn::begin();
    let (mut dump, mut known) = of_all(options, &is_unwanted, &mut turn);
    if let Some(text) = &options.name {
        dump.keep_named(text, &mut turn);
        known = dump.ids();
        if options.has_frames() {
            // Only now, because the stacks of others would fill the room.
            let question = Question::FramesOf(known.clone());
            let workers = worker::survey(question, options.limit, &is_unwanted);
            dump.add_backtraces(&workers, &mut turn);
        }
    }
    dump.awaited = awaited_by(&dump.strands, known, &mut turn);
    dump.took = start.elapsed();
    dump
}

/// A dump of the strands, and their ids.
#[track_caller]
fn of_all(
    options: &DumpOptions,
    is_unwanted: &impl Fn() -> bool,
    turn: &mut AskersTurn,
) -> (Dump, IdSet) {
    let mut workers = worker::survey(options.question(), options.limit, is_unwanted);
    workers.retain(|worker| worker.is_worth_a_line());
    workers.sort_by_key(|worker| worker.index.unwrap_or(usize::MAX));
    let mut dump = Dump::default();
    for (place, mut worker) in workers.into_iter().enumerate() {
        let strands = std::mem::take(&mut worker.strands);
        let is_root_known = strands.iter().any(|strand| strand.id.as_u64() == worker.root);
        dump.strands.reserve(strands.len());
        for (count, mut strand) in strands.into_iter().enumerate() {
            // To walk through a stack takes as long as to describe some hundred strands.
            if count % STRIDE == 0 || strand.frames.is_some() {
                turn.yield_if_long();
            }
            if is_unwanted() || !options.has_backtraces {
                strand.frames = None;
            }
            dump.strands.push(of_strand(strand, place));
        }
        dump.backtraces_left_out += worker.tally.left_out;
        if !is_root_known && options.is_wanted(worker.root) {
            dump.strands.extend(of_root(&worker, place));
        }
        dump.workers.push(of_worker(worker));
    }
    let known = add_unstarted(&mut dump, turn, options);
    (dump, known)
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
fn of_root(worker: &WorkerFacts, place: usize) -> Option<StrandDump> {
    let id = FiberId::from_u64(worker.root)?;
    let name = worker.thread_name.clone();
    Some(StrandDump { name, worker: Some(place), ..empty(id, StrandState::Running) })
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

/// Adds the strands that have not started; returns the ids of all strands.
fn add_unstarted(dump: &mut Dump, turn: &mut AskersTurn, options: &DumpOptions) -> IdSet {
    let mut known = IdSet::with_capacity_and_hasher(dump.strands.len(), Default::default());
    for strands in dump.strands.chunks(STRIDE) {
        turn.yield_if_long();
        known.extend(strands.iter().map(|strand| strand.id));
    }
    let add = |id: FiberId, location: &'static Location<'static>| {
        if options.is_wanted(id.as_u64()) && known.insert(id) {
            let spawned_at = Some(location.into());
            let strand = empty(id, StrandState::NotStarted);
            dump.strands.push(StrandDump { spawned_at, ..strand });
        }
    };
    visit_unstarted(|| turn.yield_if_long(), add);
    known
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
