//! Fibers that have not ended when their worker goes are given up.
//!
//! A started fiber's stack may be referred to from anywhere: by a kernel op, by a child's borrow,
//! by an intrusive list. It cannot be unwound from outside (its code may catch the unwind and wait
//! on), so it is leaked as it lies, and nothing on it is dropped. In this order:
//! 1. its wait's unlink hook takes it off the list it waits on, so that no wake-up is spent on it;
//! 2. its outcome becomes an error that reports this, and its joiner wakes;
//! 3. the ops in flight are cancelled and awaited to the last completion: after that the kernel
//!    writes into no stack of ours;
//! 4. the stack is leaked and counted.
//!
//! Closures that never started are dropped here, on their own worker.
#![allow(unsafe_code)]

use std::collections::HashSet;

use ramie_driver::Driver;

use super::{FiberStack, Worker, run_queue::Next};
use crate::core::{
    strand::{self, StrandHeader, Wake},
    wait::{
        park::WaitRecord,
        word::{Waiting, WakeWord},
    },
};

/// A fiber that had not ended when the grace period was over.
#[derive(Debug, Clone)]
pub(crate) struct AbandonedFiber {
    pub(crate) label: String,
    /// The end of a sentence: "waits for a Mutex", "is still running".
    pub(crate) state: String,
}

/// The fibers that have been abandoned so far.
#[derive(Default)]
struct GivenUp {
    report: Vec<AbandonedFiber>,
    /// Fibers found in a queue: their wait, if any, was over.
    queued: HashSet<*const FiberStack>,
}

impl Worker {
    /// Gives up all fibers of this worker; its loop will not run again. Destructors that run
    /// meanwhile may wait, make fibers and initialize locals, so it goes on until none is left.
    ///
    /// Fibers come before the locals of the thread's own strand: while the destructor of such a
    /// local waits, the loop runs, and a fiber would go on though what it refers to may be gone.
    pub(crate) fn abandon_all(&self) -> Vec<AbandonedFiber> {
        let _installed = super::Installed::new(self);
        if let Some(member) = &self.membership {
            member.close_gate(|| self.drain_inbox());
        }
        let mut report = Vec::new();
        loop {
            report.extend(self.abandon_present());
            self.end_root_locals();
            if !self.has_root_locals() && !self.has_fibers() {
                return report;
            }
        }
    }

    fn abandon_present(&self) -> Vec<AbandonedFiber> {
        let mut given_up = GivenUp::default();
        self.unplug();
        self.drop_queued(&mut given_up);
        for (stack, header) in self.stacks.live() {
            given_up.report.push(describe(header));
            self.settle(stack, header, &mut given_up);
            self.leak(stack, header);
        }
        if let Some(driver) = self.driver.borrow_mut().as_mut() {
            driver.drain();
            while driver.pop_complete().is_some() {}
            wake_others(driver);
        }
        given_up.report
    }

    /// Empties the queues: drops the closures that never started, notes the fibers found.
    fn drop_queued(&self, given_up: &mut GivenUp) {
        self.drain_inbox();
        // A destructor of a closure that never started may not wait: nobody would end its wait.
        let _no_switch = super::NoSwitch::new(self);
        loop {
            let shared =
                || self.membership.as_ref().and_then(|member| member.pop()).map(Next::Fresh);
            match self.ready.pop().or_else(shared) {
                Some(Next::Fresh(header)) => {
                    given_up.report.push(describe(header));
                    // SAFETY: taken off the queue of fresh closures: nobody else starts it.
                    unsafe { strand::end_unstarted(self, header, Box::new(strand::ABANDONED)) };
                }
                Some(Next::Fiber(stack)) => {
                    given_up.queued.insert(stack);
                }
                Some(Next::Root) => {}
                None => return,
            }
        }
    }

    /// Makes sure that nobody else has, or will get, the right to schedule the fiber.
    fn settle(
        &self,
        stack: *const FiberStack,
        header: &'static StrandHeader,
        given_up: &mut GivenUp,
    ) {
        let record = wait_of(header);
        let unlink = record.and_then(|record| record.unlink);
        // A plain op's wait is only ever ended by this thread, in a turn of the driver.
        let ended_here = record.is_some_and(|record| record.is_plain)
            || header.current_wait().is_some_and(|wait| header.claim(wait, Wake::Cancelled));
        if let Some(unlink) = unlink {
            // The hook drops values of the program. If one of their destructors waited, the loop
            // would run fibers that are about to be given up.
            let _no_switch = super::NoSwitch::new(self);
            // SAFETY: the record's maker promises that the hook fits its target, which lies in the
            // suspended frame.
            crate::core::panic::call_quietly(|| unsafe { (unlink.hook)(unlink.target) });
        }
        // Otherwise somebody ended the wait first and has pushed the fiber, or is about to: its
        // header must not be reused before that push has come in.
        while !ended_here && !given_up.queued.contains(&stack) {
            std::thread::yield_now();
            self.drop_queued(given_up);
        }
    }

    fn leak(&self, stack: *const FiberStack, header: &'static StrandHeader) {
        // SAFETY: the fiber is suspended, and after `settle` and the end of the loop nobody will
        // schedule it.
        unsafe { self.stacks.leak(stack) };
        // SAFETY: a leaked stack stays as it is for good.
        let stack = unsafe { &*stack };
        // SAFETY: its closure began and will never end.
        unsafe { strand::end_abandoned(self, stack, header) };
    }
}

impl Worker {
    /// Describes the fibers that have started here and not ended, and for which `run` waits. None
    /// of them runs now.
    pub(crate) fn describe_live(&self) -> impl Iterator<Item = AbandonedFiber> {
        let daemons = self.workers().map(|workers| &workers.daemons);
        let daemons = daemons.or_else(|| self.thread_strands().map(|threads| &threads.daemons));
        let is_waited_for = move |header: &StrandHeader| {
            daemons.is_none_or(|daemons| !daemons.are_all(std::iter::once(&header.id())))
        };
        let live = self.stacks.live().into_iter().map(|(_, header)| header);
        live.filter(move |header| is_waited_for(header)).map(describe)
    }
}

fn describe(header: &StrandHeader) -> AbandonedFiber {
    let mut state = match wait_of(header) {
        Some(record) => format!("waits for {} at {}", record.kind.name, record.location),
        None => "waits for its turn to run".to_owned(),
    };
    let closure = header.closure_name();
    if !closure.is_empty() {
        state.push_str(&format!("; it runs {closure}"));
    }
    AbandonedFiber { label: strand::label(header), state }
}

/// The wait of a fiber of this worker, if it has started and does not run.
fn wait_of(header: &StrandHeader) -> Option<&WaitRecord> {
    // SAFETY: null before the start; then the fiber's stack, which lives until the fiber has ended.
    let stack = unsafe { header.stack.get().as_ref() }?;
    // SAFETY: a live fiber that does not run is suspended: its record is null or lies in its frame.
    unsafe { stack.record.get().as_ref() }
}

/// Wakes the strands of others that wait for an op of the driver's own to go; none of this worker's
/// runs any more.
fn wake_others(driver: &mut Driver) {
    while let Some(word) = driver.pop_notice() {
        if let Waiting::Full(wait) = WakeWord::from_bits(word).decode() {
            wait.wake(Wake::Woken);
        }
    }
}
