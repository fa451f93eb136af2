//! Facts about the strands of a worker, read by that worker for a [`survey`](super::survey).
//!
//! All of this runs on the worker's thread while the strands that it describes are suspended, or by
//! the strand that runs. So the record of a wait, which lies in the frame of the waiting strand,
//! and the limits around it do not change meanwhile, and neither does the lock for which it waits:
//! the frame borrows it.
#![allow(unsafe_code)]

use std::{
    panic::Location,
    ptr,
    sync::{Arc, atomic::AtomicU64},
};

use ramie_coro::StackInfo;
use ramie_driver::sys::coarse_ms;

use super::{FiberStack, StackCopy, StackRoom, Worker, counts::SliceCounts};
use crate::core::{
    cancel,
    primitive::Ordering,
    strand::{FiberId, SpawnAttributes, StrandHeader},
    time::Deadline,
    wait::{
        park::{Subject, WaitRecord},
        record::WaitKind,
    },
};

/// A strand, as its worker knows it.
pub(crate) struct StrandFacts {
    pub(crate) id: FiberId,
    pub(crate) is_running: bool,
    /// The full waits that the strand has begun.
    pub(crate) waits: u32,
    /// The time since its start; none for a thread that was not spawned.
    pub(crate) age_ms: Option<u32>,
    pub(crate) parent: Option<FiberId>,
    /// The address of the scope in which it was spawned; 0: none.
    pub(crate) scope: usize,
    pub(crate) attributes: Option<Arc<SpawnAttributes>>,
    /// The name that the compiler gives to its closure.
    pub(crate) closure: &'static str,
    pub(crate) spawned_at: Option<&'static Location<'static>>,
    /// The wait, unless it runs or can be run.
    pub(crate) wait: Option<WaitFacts>,
    /// The limits and scopes around it, if there are any.
    pub(crate) limits: Option<Box<LimitFacts>>,
    pub(crate) stack: Option<StackInfo>,
    /// The frames of a suspended fiber, if they were asked for.
    pub(crate) frames: Option<StackCopy>,
}

/// A wait.
pub(crate) struct WaitFacts {
    /// The end of the record of the wait. The frames of the program lie above it.
    pub(crate) record_end: usize,
    pub(crate) kind: &'static WaitKind,
    pub(crate) location: &'static Location<'static>,
    pub(crate) since_ms: u32,
    /// The time until its deadline, in ns.
    pub(crate) left_ns: Option<u64>,
    pub(crate) detail: [u64; 2],
    /// Of a lock: the word that `detail` names, and the id of the owner.
    pub(crate) lock: [u64; 2],
}

/// Whether the strands of a worker can go on, if no strand and no thread of the program acts.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    /// A strand runs or can be run, or time, the kernel or the blocking pool may end its wait.
    pub(crate) can_go_on: bool,
    /// The number of the strands that wait.
    pub(crate) waiting: u64,
    /// Changes when a strand ends its wait.
    pub(crate) waits: u64,
    /// The number of strands whose frames were not copied, because many others were.
    pub(crate) left_out: u64,
}

/// The limits and scopes around a strand.
pub(crate) struct LimitFacts {
    /// The time until the earliest limit, in ns.
    pub(crate) left_ns: Option<u64>,
    /// The innermost scope that can be cancelled.
    pub(crate) scope: Option<usize>,
    pub(crate) cancelled: Option<String>,
}

/// Reads the facts of the strands of one worker, all at one time.
///
/// INVARIANT: it exists during one slice of an answer, in which no strand of the worker runs or
/// ends, so no stack that was visited is freed.
pub(super) struct Reader<'a> {
    worker: &'a Worker,
    now_ms: u32,
    now_ns: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(worker: &'a Worker) -> Self {
        Reader { worker, now_ms: coarse_ms(), now_ns: worker.clock.now_ns() }
    }

    fn is_running(&self, stack: &FiberStack) -> bool {
        let running = &self.worker.running;
        if stack.is_of_thread() {
            return !running.is_fiber() && !self.worker.surveys.is_in_loop();
        }
        let is = |fiber: Option<&FiberStack>| fiber.is_some_and(|fiber| ptr::eq(fiber, stack));
        is(running.fiber()) || is(running.masked_fiber())
    }

    /// The record of the wait of a strand that waits.
    fn record<'s>(&self, stack: &'s FiberStack, header: &StrandHeader) -> Option<&'s WaitRecord> {
        if self.is_running(stack) {
            return None;
        }
        // SAFETY: null, or the record of a suspended strand, which lies in its frame: a strand that
        // runs is excluded, and only this thread could resume it.
        let record = unsafe { stack.record.get().as_ref() }?;
        // The record of a full wait that is over stays until the strand continues.
        (record.is_plain || header.current_wait().is_some()).then_some(record)
    }

    /// The facts of the strand on this stack if it waits for others. Counts it in the tally in any
    /// case.
    pub(super) fn of_waiting(&self, stack: &FiberStack, tally: &mut Tally) -> Option<StrandFacts> {
        let header = stack.try_header()?;
        let Some(record) = self.record(stack, header) else {
            tally.can_go_on = true;
            return None;
        };
        tally.waiting += 1;
        tally.waits = tally.waits.wrapping_add(u64::from(stack.waits(header)));
        if !record.is_bound_to_others() {
            tally.can_go_on = true;
            return None;
        }
        (!record.is_cancellable() && record.kind.subject.may_name_strands())
            .then(|| self.of_stack(stack))?
    }

    /// Counts the strand on this stack; an idle stack has none.
    pub(super) fn count(&self, stack: &FiberStack, counts: &mut SliceCounts) {
        let Some(header) = stack.try_header() else { return };
        match self.record(stack, header) {
            Some(record) => {
                let since_ms = self.now_ms.wrapping_sub(record.since_ms.get());
                counts.add_waiting(stack, record, since_ms);
            }
            None if self.is_running(stack) => counts.add_running(),
            None => counts.add_runnable(),
        }
    }

    /// The length of the run queue; a row of closures without a stack counts as one.
    pub(super) fn run_queue(&self) -> u64 {
        self.worker.scheduler.ready.entries() as u64
    }

    /// Notes in the tally whether the worker itself may end waits: its driver has ops, of which
    /// futures may wait for some, or the grace period has begun.
    pub(super) fn note_worker(&self, tally: &mut Tally) {
        let has_ops = self.worker.io.with_idle_driver(|driver| driver.has_ops());
        let workers = self.worker.workers();
        let has_grace = workers.is_some_and(|workers| workers.ending.grace_left().is_some());
        tally.can_go_on |= has_ops == Some(true) || has_grace;
    }

    /// The facts of the strand on this stack, which belongs to the worker; none if it is idle.
    pub(super) fn of_stack(&self, stack: &FiberStack) -> Option<StrandFacts> {
        let header = stack.try_header()?;
        let is_running = self.is_running(stack);
        let record = self.record(stack, header);
        Some(StrandFacts {
            id: header.id(),
            is_running,
            waits: stack.waits(header),
            age_ms: stack.age_ms(self.now_ms),
            parent: parent_of(header),
            scope: header.attributes.scope().addr(),
            attributes: header.attributes.share(),
            closure: header.closure_name(),
            spawned_at: stack.spawned_at(),
            wait: record.map(|record| self.of_wait(record)),
            limits: self.limits_of(stack),
            stack: stack.info(),
            frames: None,
        })
    }

    /// The facts of the strand on this stack, with a copy of its frames if it is suspended.
    pub(super) fn of_stack_with_frames(
        &self,
        stack: &FiberStack,
        room: &mut StackRoom,
    ) -> Option<StrandFacts> {
        let facts = self.of_stack(stack)?;
        // A thread has no coroutine, from which its registers could be read.
        let is_suspended = !facts.is_running && !stack.is_of_thread();
        let frames = is_suspended.then(|| room.copy_suspended(stack)).flatten();
        Some(StrandFacts { frames, ..facts })
    }

    fn left_ns(&self, deadline: Deadline) -> Option<u64> {
        let is_set = deadline != Deadline::NEVER;
        is_set.then(|| deadline.as_ns().saturating_sub(self.now_ns))
    }

    fn of_wait(&self, record: &WaitRecord) -> WaitFacts {
        WaitFacts {
            record_end: ptr::from_ref(record).addr() + size_of::<WaitRecord>(),
            kind: record.kind,
            location: record.location,
            since_ms: self.now_ms.wrapping_sub(record.since_ms.get()),
            left_ns: self.left_ns(record.ends_at()),
            detail: record.detail,
            lock: read_lock(record),
        }
    }

    fn limits_of(&self, stack: &FiberStack) -> Option<Box<LimitFacts>> {
        if stack.strand.is_empty() {
            return None;
        }
        // SAFETY: the strand belongs to this thread and is suspended, or calls this.
        let around = unsafe { cancel::around(&stack.strand) };
        let limits = LimitFacts {
            left_ns: self.left_ns(around.deadline),
            scope: around.scope,
            cancelled: around.cause.map(|cause| cause.reason().to_owned()),
        };
        let has_any =
            limits.left_ns.is_some() || limits.scope.is_some() || limits.cancelled.is_some();
        has_any.then(|| Box::new(limits))
    }
}

/// Reads the words of the lock for which a strand waits.
pub(super) fn read_lock(record: &WaitRecord) -> [u64; 2] {
    let read = |address: u64| {
        let word: *const AtomicU64 = ptr::with_exposed_provenance(address as usize);
        // SAFETY: a record about a lock names words of the lock by their addresses (`Subject`). The
        // waiting frame borrows the lock, so they are alive.
        unsafe { &*word }.load(Ordering::Relaxed)
    };
    match record.kind.subject {
        Subject::Mutex => [read(record.detail[0]), 0],
        Subject::RwLock => [read(record.detail[0]), read(record.detail[1])],
        _ => [0, 0],
    }
}

/// The strand that opened the scope of this strand.
fn parent_of(header: &StrandHeader) -> Option<FiberId> {
    // SAFETY: a scope waits for its strands, so its data outlives them; the strand has not ended,
    // because it is on its stack and this thread, its worker's, would have ended it.
    let scope = unsafe { header.attributes.scope().as_ref() }?;
    Some(scope.opener())
}
