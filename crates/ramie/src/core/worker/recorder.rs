//! The worker's part in recordings ([`trace`](crate::core::trace)): following their begin and end,
//! and the events of its strands.
//!
//! The address of the buffer lies beside the fields that each wait touches, and is null without a
//! recording. So an event that is not recorded costs a load from a line that is in the cache, and a
//! branch that is not taken. All that writes an event is out of line.
#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    ptr,
    sync::Arc,
};

use ramie_driver::{OpFrame, OpKind};

use super::{FiberStack, Shared, SurveyInbox, Worker, with_existing};
use crate::core::{
    strand::{StrandHeader, Wake, header_at},
    trace::{self, EventKind, TraceBuffer, TraceOwner, TracedBuffer, Trouble, WakeCause},
    wait::{
        park::{Subject, WaitRecord},
        word::{Waiting, WakeWord},
    },
};

/// The buffer of a worker, and the generation of the recording that the worker knows. The fields
/// that each wait touches come first.
#[repr(C)]
pub(crate) struct Recorder {
    /// INVARIANT: null, or the events of `buffer`. Both change together, in `follow`, on the
    /// worker's thread and between two events.
    address: Cell<*const TraceBuffer>,
    /// The worker's own shared part; null while a recording runs.
    unrecorded: Cell<*const Shared>,
    generation: Cell<u32>,
    /// Whether the driver hands out wake-ups, so that ops are their cause.
    is_reaping: Cell<bool>,
    buffer: RefCell<Option<Arc<TracedBuffer>>>,
}

/// Following recordings.
impl Recorder {
    pub(super) fn new(shared: &'static Shared) -> Recorder {
        Recorder {
            address: Cell::new(ptr::null()),
            unrecorded: Cell::new(shared),
            generation: Cell::new(0),
            is_reaping: Cell::new(false),
            buffer: RefCell::new(None),
        }
    }

    /// Takes a buffer if a recording has begun, or gives it back if it has ended.
    #[inline]
    pub(super) fn look(&self, inbox: &SurveyInbox) {
        if self.generation.get() != trace::generation() {
            self.follow(inbox);
        }
    }

    #[cold]
    #[inline(never)]
    fn follow(&self, inbox: &SurveyInbox) {
        let (generation, buffer) = trace::follow(|| TraceOwner {
            index: inbox.index,
            thread_name: inbox.thread_name.clone(),
            thread_id: inbox.thread_id,
        });
        self.generation.set(generation);
        self.unrecorded.set(if buffer.is_some() { ptr::null() } else { inbox.shared });
        self.address.set(buffer.as_ref().map_or(ptr::null(), |traced| &raw const traced.events));
        let before = self.buffer.replace(buffer);
        drop(before);
    }

    /// The worker ends, and writes no more events.
    pub(super) fn end(&self) {
        self.address.set(ptr::null());
        if let Some(traced) = self.buffer.take() {
            traced.note_ended();
        }
    }

    /// The buffer for events, if a recording runs.
    #[inline(always)]
    fn trace(&self) -> Option<&TraceBuffer> {
        // SAFETY: the invariant. A caller uses the buffer for some events, and calls nothing
        // meanwhile that could follow a change.
        unsafe { self.address.get().as_ref() }
    }

    /// Whether that is the worker's own shared part and no recording runs: both in one comparison.
    #[inline(always)]
    pub(super) fn is_unrecorded(&self, owner: &'static Shared) -> bool {
        ptr::eq(self.unrecorded.get(), owner)
    }
}

/// The bits of the id of the strand on a stack. They do not come from the header, which belongs to
/// others from the end of the strand on.
#[inline]
fn strand_on(stack: &FiberStack) -> u64 {
    if stack.is_of_thread() {
        return stack.try_header().map_or(0, StrandHeader::id_bits);
    }
    stack.strand.id()
}

/// The bits of the id of the strand that runs; 0: the loop, or a thread that is no strand.
fn running_strand(worker: &Worker) -> u64 {
    match worker.running.fiber().or_else(|| worker.running.masked_fiber()) {
        Some(stack) => strand_on(stack),
        None if worker.surveys.is_in_loop() => 0,
        None => strand_on(worker.root.stack()),
    }
}

/// The descriptor of a wait for an op, plus 1; 0: it has none.
fn detail_of(record: &WaitRecord) -> u32 {
    match record.kind.subject {
        Subject::Descriptor => (record.detail[0] as u32).wrapping_add(1),
        _ => 0,
    }
}

/// Events about one strand.
impl Recorder {
    /// Records that the strand on this stack suspends in a wait.
    #[inline(always)]
    pub(crate) fn note_waits(&self, stack: &FiberStack, record: &WaitRecord) {
        if let Some(trace) = self.trace() {
            add_wait(trace, EventKind::Waits, stack, record);
        }
    }

    /// Records that it continues behind a full wait.
    #[inline(always)]
    pub(crate) fn note_continues(&self, stack: &FiberStack, record: &WaitRecord) {
        if let Some(trace) = self.trace() {
            let kind = match stack.header().wake_reason() {
                Wake::Woken => EventKind::Woken,
                Wake::TimedOut => EventKind::TimedOut,
                Wake::Cancelled => EventKind::WaitCancelled,
            };
            add_wait(trace, kind, stack, record);
        }
    }

    /// Records that it continues behind a plain wait.
    #[inline(always)]
    pub(crate) fn note_op_awaited(&self, stack: &FiberStack, record: &WaitRecord) {
        if let Some(trace) = self.trace() {
            add_wait(trace, EventKind::Woken, stack, record);
        }
    }

    /// Records the start of a strand on a stack.
    #[inline(always)]
    pub(crate) fn note_start(&self, stack: &FiberStack, header: &StrandHeader) {
        if let Some(trace) = self.trace() {
            add_start(trace, stack, header);
        }
    }

    /// Records the end of a strand. Its header is still its own.
    #[inline(always)]
    pub(crate) fn note_end(&self, header: &StrandHeader, has_panicked: bool) {
        if let Some(trace) = self.trace() {
            add_end(trace, header, has_panicked);
        }
    }

    /// Records something that the worker does with a strand, or by itself (0).
    #[inline]
    pub(super) fn note_deed(&self, kind: EventKind, strand: u64) {
        if let Some(trace) = self.trace() {
            trace.add(kind, strand, 0, 0);
        }
    }

    /// The driver begins to hand out wake-ups. Returns the buffer, and the time of the completions.
    #[inline]
    pub(super) fn begin_reaping(&self) -> Option<(&TraceBuffer, u64)> {
        self.is_reaping.set(true);
        self.trace().map(|trace| (trace, trace.ticks()))
    }

    #[inline]
    pub(super) fn end_reaping(&self) {
        self.is_reaping.set(false);
    }
}

#[cold]
#[inline(never)]
fn add_wait(trace: &TraceBuffer, kind: EventKind, stack: &FiberStack, record: &WaitRecord) {
    let detail = detail_of(record);
    trace.add_wait(kind, strand_on(stack), record.kind, record.location, detail);
}

#[cold]
#[inline(never)]
fn add_start(trace: &TraceBuffer, stack: &FiberStack, header: &StrandHeader) {
    trace.add_start(header.id_bits(), stack.spawned_at(), header.closure_name());
}

#[cold]
#[inline(never)]
fn add_end(trace: &TraceBuffer, header: &StrandHeader, has_panicked: bool) {
    trace.add(EventKind::Ended, header.id_bits(), has_panicked.into(), 0);
}

/// Records an op that was complete when it was submitted.
#[inline(always)]
pub(crate) fn note_op_at_once(worker: &Worker, frame: &OpFrame, fd: u64) {
    if let Some(trace) = worker.running.recorder.trace() {
        add_op_at_once(worker, trace, frame, fd);
    }
}

#[cold]
#[inline(never)]
fn add_op_at_once(worker: &Worker, trace: &TraceBuffer, frame: &OpFrame, fd: u64) {
    let op = frame.op().kind() as u64 | fd << 32;
    let result = i64::from(frame.result()).cast_unsigned();
    trace.add(EventKind::AtOnce, running_strand(worker), op, result);
}

/// Records the spawn of a strand, by the one that runs.
#[inline(always)]
pub(crate) fn note_spawn(worker: &Worker, header: &StrandHeader) {
    if let Some(trace) = worker.running.recorder.trace() {
        add_spawn(worker, trace, header);
    }
}

#[cold]
#[inline(never)]
fn add_spawn(worker: &Worker, trace: &TraceBuffer, header: &StrandHeader) {
    let name = header.attributes.shared().and_then(|shared| shared.options.name.as_deref());
    trace.add_spawn(header.id_bits(), running_strand(worker), header.spawned_at(), name);
}

/// Records that a strand was made runnable, and by which.
pub(super) fn note_wake(worker: &Worker, header: &StrandHeader) {
    let recorder = &worker.running.recorder;
    if let Some(trace) = recorder.trace() {
        let (waker, cause) = match header.wake_reason() {
            Wake::TimedOut => (0, WakeCause::Timer),
            Wake::Cancelled => (running_strand(worker), WakeCause::Cancel),
            Wake::Woken if recorder.is_reaping.get() => (0, WakeCause::Op),
            Wake::Woken => (running_strand(worker), WakeCause::Call),
        };
        trace.add_wake(header.id_bits(), waker, cause);
    }
}

/// Records the completion of an op, whose frame has that word.
#[cold]
#[inline(never)]
pub(super) fn add_completion(trace: &TraceBuffer, ticks: u64, frame: &OpFrame, word: u64) {
    add_item(trace, ticks, frame.op().kind() as u64, frame.result(), word);
}

/// Records that a multishot op has an item for the strand of that word.
#[cold]
#[inline(never)]
pub(super) fn add_notice(trace: &TraceBuffer, ticks: u64, word: u64) {
    add_item(trace, ticks, OpKind::ALL.len() as u64, 0, word);
}

fn add_item(trace: &TraceBuffer, ticks: u64, op: u64, result: i32, word: u64) {
    let strand = match WakeWord::from_bits(word).decode() {
        Waiting::Full(wait) => header_at(wait.header_index()).id_bits(),
        // SAFETY: the word names the stack of a fiber in a plain wait, which the caller ends later.
        Waiting::Plain(stack) => strand_on(unsafe { &*stack }),
        Waiting::Nobody | Waiting::Released => 0,
    };
    trace.add_completion(ticks, strand, op, result);
}

/// Records that the strand that runs cancels a scope.
pub(crate) fn note_cancel(scope: *const ()) {
    with_existing(|worker| {
        if let Some(trace) = worker.running.recorder.trace() {
            trace.add(EventKind::Cancels, running_strand(worker), scope.addr() as u64, 0);
        }
    });
}

/// Records a panic, and reports it to the flight recorder.
pub(super) fn note_panic(text: &str) {
    with_existing(|worker| {
        if let Some(trace) = worker.running.recorder.trace() {
            let strand = running_strand(worker);
            trace.add(EventKind::Panics, strand, 0, 0);
            trace.add_text(EventKind::PanicText, strand, text);
        }
    });
    if cfg!(panic = "abort") {
        trace::report_and_wait(Trouble::Panic, trace::BEFORE_ABORT);
    } else {
        trace::report(Trouble::Panic);
    }
}

/// Lets all workers look whether a recording has begun or ended.
pub(crate) fn wake_for_recording() {
    super::survey::wake_all();
}
