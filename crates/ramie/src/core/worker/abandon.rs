//! Abandoning the fibers that have not ended when their worker ends.
//!
//! A started fiber's stack may be referred to from anywhere: by a kernel op, by a child's borrow,
//! by an intrusive list. The stack cannot be unwound from outside (the fiber's code may catch the
//! unwinding and continue to wait), so the stack is leaked as it is, and nothing on it is dropped.
//! In this order:
//! 1. the unlink hook of the fiber's wait takes it off the queue in which it waits, so that no
//!    wake-up is spent on it;
//! 2. the fiber's outcome becomes an error that reports this, and its joiner is woken;
//! 3. the ops in flight are cancelled and awaited to the last completion: after that the kernel
//!    writes into no stack of ours;
//! 4. the stack is leaked and counted.
//!
//! Closures that never started are dropped here, on their own worker.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};

use super::{Daemons, FiberStack, Stacks, Worker, facts, run_queue::Next};
use crate::core::{
    strand::{self, FiberId, StrandHeader, Wake},
    wait::{
        park::{Subject, WaitRecord},
        record::mutex_owner,
    },
};

/// A fiber that had not ended when the grace period was over.
#[derive(Debug, Clone)]
pub(crate) struct AbandonedFiber {
    id: Option<FiberId>,
    label: String,
    /// The end of a sentence, or its middle: "waits for a Mutex", "is still running".
    state: String,
    /// The object of its wait.
    object: Option<AwaitedObject>,
    /// The place of its wait, and its closure.
    rest: String,
}

#[derive(Debug, Clone, Copy)]
enum AwaitedObject {
    Descriptor(u64),
    LockOf(FiberId),
    EndOf(FiberId),
}

impl AbandonedFiber {
    /// A strand that still runs.
    pub(super) fn running(label: String) -> Self {
        let state = "is still running".to_owned();
        AbandonedFiber { id: None, label, state, object: None, rest: String::new() }
    }

    /// A line for each fiber. Names the strand for which it waits if that is one of them.
    pub(crate) fn lines(fibers: &[AbandonedFiber]) -> impl Iterator<Item = String> {
        let label = |fiber: &'_ AbandonedFiber| Some((fiber.id?, fiber.label.clone()));
        let labels: HashMap<_, _> = fibers.iter().filter_map(label).collect();
        fibers.iter().map(move |fiber| fiber.line(&labels))
    }

    fn line(&self, labels: &HashMap<FiberId, String>) -> String {
        let name = |id| labels.get(&id).cloned().unwrap_or_else(|| format!("strand {id}"));
        let object = match self.object {
            None => String::new(),
            Some(AwaitedObject::Descriptor(fd)) => format!(" (descriptor {fd})"),
            Some(AwaitedObject::LockOf(id)) => format!(" (held by {})", name(id)),
            Some(AwaitedObject::EndOf(id)) => format!(" ({})", name(id)),
        };
        let AbandonedFiber { label, state, rest, .. } = self;
        format!("{label} {state}{object}{rest}")
    }
}

/// The fibers of a worker that have been abandoned so far.
struct Abandonment<'a> {
    worker: &'a Worker,
    report: Vec<AbandonedFiber>,
    /// Fibers found in a queue: their wait, if any, was over.
    queued: HashSet<*const FiberStack>,
}

impl Worker {
    /// Abandons all fibers of this worker, whose loop will not run again. Destructors that run
    /// meanwhile may wait, make fibers and initialize locals, so this repeats until none is left.
    ///
    /// Fibers come before the locals of the thread's own strand: while the destructor of such a
    /// local waits, the loop runs, and a fiber would continue although values to which it refers
    /// may be gone.
    pub(crate) fn abandon_all(&self) -> Vec<AbandonedFiber> {
        let _installed = super::Installed::new(self);
        if let Some(member) = &self.membership {
            member.close_gate(|| self.drain_inbox());
        }
        let mut report = Vec::new();
        loop {
            let queued = HashSet::new();
            let abandonment = Abandonment { worker: self, report: Vec::new(), queued };
            report.extend(abandonment.abandon_present());
            self.root.end_locals(self);
            if !self.root.has_locals() && !self.has_fibers() {
                return report;
            }
        }
    }
}

impl Abandonment<'_> {
    fn abandon_present(mut self) -> Vec<AbandonedFiber> {
        self.worker.plugged.unplug(self.worker);
        self.drop_queued();
        for (stack, header) in self.worker.stacks.live() {
            self.report.push(describe(header));
            self.settle(stack, header);
            self.leak(stack, header);
        }
        self.worker.io.drain();
        self.report
    }

    /// Empties the queues: drops the closures that never started, notes the fibers found.
    fn drop_queued(&mut self) {
        let worker = self.worker;
        worker.drain_inbox();
        // A destructor of a closure that never started may not wait: nobody would end its wait.
        let _no_switch = super::NoSwitch::new(worker);
        let pop_shared = || {
            let member = worker.membership.as_ref()?;
            member.pop().or_else(|| member.workers.pop_outside()).map(Next::Fresh)
        };
        loop {
            match worker.scheduler.ready.pop().or_else(pop_shared) {
                Some(Next::Fresh(header)) => {
                    self.report.push(describe(header));
                    // SAFETY: taken off the queue of fresh closures: nobody else starts it.
                    unsafe { strand::end_unstarted(worker, header, Box::new(strand::ABANDONED)) };
                }
                Some(Next::Fiber(stack)) => {
                    self.queued.insert(stack);
                }
                Some(Next::Root) => {}
                None => return,
            }
        }
    }

    /// Makes sure that no other thread has, or will get, the right to schedule the fiber.
    fn settle(&mut self, stack: *const FiberStack, header: &'static StrandHeader) {
        let record = wait_of(header);
        let unlink = record.and_then(|record| record.unlink);
        // A plain op's wait is only ever ended by this thread, in a turn of the driver.
        let ended_here = record.is_some_and(|record| record.is_plain)
            || header.current_wait().is_some_and(|wait| header.claim(wait, Wake::Cancelled));
        if let Some(unlink) = unlink {
            // The hook drops values of the program. If one of their destructors waited, the loop
            // would run fibers that are about to be abandoned.
            let _no_switch = super::NoSwitch::new(self.worker);
            // SAFETY: the record's maker promises that the hook fits its target, which lies in the
            // suspended frame.
            crate::core::panic::call_quietly(|| unsafe { (unlink.hook)(unlink.target) });
        }
        // Otherwise another thread ended the wait first and has pushed the fiber, or is about to:
        // its header must not be reused before that push has arrived.
        while !ended_here && !self.queued.contains(&stack) {
            std::thread::yield_now();
            self.drop_queued();
        }
    }

    fn leak(&self, stack: *const FiberStack, header: &'static StrandHeader) {
        // SAFETY: the fiber is suspended, and after `settle` and the end of the loop nobody will
        // schedule it.
        unsafe { self.worker.stacks.leak(stack) };
        // SAFETY: a leaked stack stays as it is for good.
        let stack = unsafe { &*stack };
        // SAFETY: its closure began and will never end.
        unsafe { strand::end_abandoned(self.worker, stack, header) };
    }
}

impl Stacks {
    /// Describes the fibers that have started here and not ended, and for which `run` waits. None
    /// of them runs now.
    pub(crate) fn describe_live(&self, daemons: &Daemons) -> impl Iterator<Item = AbandonedFiber> {
        let is_waited_for =
            move |header: &StrandHeader| !daemons.are_all(std::iter::once(&header.id()));
        let live = self.live().into_iter().map(|(_, header)| header);
        live.filter(move |header| is_waited_for(header)).map(describe)
    }
}

fn describe(header: &StrandHeader) -> AbandonedFiber {
    let wait = wait_of(header);
    let (state, mut rest) = match wait {
        Some(record) => {
            (format!("waits for {}", record.kind.name), format!(" at {}", record.location))
        }
        None => ("waits for its turn to run".to_owned(), String::new()),
    };
    let closure = header.closure_name();
    if !closure.is_empty() {
        rest.push_str(&format!("; it runs {closure}"));
    }
    let (id, label) = (Some(header.id()), strand::label(header));
    AbandonedFiber { id, label, state, object: wait.and_then(object_of), rest }
}

fn object_of(record: &WaitRecord) -> Option<AwaitedObject> {
    let lock = || facts::read_lock(record);
    match record.kind.subject {
        Subject::Descriptor if record.detail[0] != u64::MAX => {
            Some(AwaitedObject::Descriptor(record.detail[0]))
        }
        Subject::Mutex => FiberId::from_u64(mutex_owner(lock()[0])).map(AwaitedObject::LockOf),
        Subject::RwLock => FiberId::from_u64(lock()[1]).map(AwaitedObject::LockOf),
        Subject::Strand => FiberId::from_u64(record.detail[0]).map(AwaitedObject::EndOf),
        _ => None,
    }
}

/// The wait of a fiber of this worker, if it has started and does not run.
fn wait_of(header: &StrandHeader) -> Option<&WaitRecord> {
    // SAFETY: null before the start; then the fiber's stack, which lives until the fiber has ended.
    let stack = unsafe { header.stack_if_started().as_ref() }?;
    // SAFETY: a live fiber that does not run is suspended: its record is null or lies in its frame.
    unsafe { stack.record.get().as_ref() }
}
