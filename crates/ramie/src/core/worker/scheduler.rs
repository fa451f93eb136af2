//! What runs next on a worker: its run queue, and the countdown to the next poll.

use std::{cell::Cell, mem::size_of};

use ramie_driver::{Driver, OpFrame};

use super::{
    Membership, Next, RootStrand, RunningStrand, recorder, run_queue::RunQueue, stealing::GROUP,
};
use crate::core::{
    primitive::{AtomicU32, Ordering},
    strand::{StrandHeader, Wake},
    wait::word::{Waiting, WakeWord},
};

/// The run queue of a worker and the counters that each switch touches, in one cache line.
#[repr(C)]
pub(crate) struct Scheduler {
    pub(super) ready: RunQueue,
    /// Switches left until the loop *looks up*, that is, interrupts its switching to poll or
    /// sample: those until the next poll, less `beyond`. Written by the worker alone; the watchdog
    /// reads it.
    countdown: AtomicU32,
    /// Whether there are other workers to share closures with.
    pub(super) has_peers: bool,
    /// Whether a fiber that has ended may run the next closure in its place.
    pub(super) may_chain: bool,
    /// The number of turns in which a closure without a stack is preferred to a suspended fiber.
    fresh_turns: Cell<u8>,
    /// The switches from the end of the countdown to the next poll. Not 0 only while a sample is
    /// taken ([`sampling`](super::sampling)).
    beyond: Cell<u8>,
}

const _: () = assert!(size_of::<Scheduler>() == 64);

impl Scheduler {
    pub(super) fn new(has_peers: bool, switches_per_poll: u32) -> Self {
        Scheduler {
            ready: RunQueue::new(),
            countdown: AtomicU32::new(switches_per_poll),
            has_peers,
            may_chain: !has_peers,
            fresh_turns: Cell::new(0),
            beyond: Cell::new(0),
        }
    }

    /// Takes one switch off the countdown; returns whether the loop has to look up, for a poll or a
    /// sample.
    #[inline(always)]
    pub(super) fn count_switch(&self) -> bool {
        let switches_left = self.switches_left() - 1;
        self.set_countdown(switches_left);
        switches_left == 0
    }

    /// Sets the number of switches until the next poll. With 1, the loop polls before it resumes a
    /// strand.
    #[inline(always)]
    pub(super) fn poll_after(&self, switches: u32) {
        self.set_countdown(switches);
        self.beyond.set(0);
    }

    #[inline(always)]
    fn set_countdown(&self, switches: u32) {
        // Relaxed: nothing else follows from it.
        self.countdown.store(switches, Ordering::Relaxed);
    }

    /// Lets the loop look up after that many switches, and poll when it would poll anyway.
    pub(super) fn look_up_after(&self, switches: u32) {
        let until_poll = self.switches_until_poll();
        let switches = switches.min(until_poll);
        self.set_countdown(switches);
        self.beyond.set((until_poll - switches) as u8);
    }

    /// Whether the loop, which looks up, polls as well.
    pub(super) fn is_poll_due(&self) -> bool {
        self.beyond.get() == 0
    }

    /// Switches left until the next poll.
    pub(super) fn switches_until_poll(&self) -> u32 {
        self.switches_left() + u32::from(self.beyond.get())
    }

    /// Switches left until the loop looks up.
    #[inline(always)]
    pub(super) fn switches_left(&self) -> u32 {
        self.countdown.load(Ordering::Relaxed)
    }

    /// Takes from the worker's own queue and from the closures that others may steal, in turns.
    #[inline(always)]
    pub(super) fn next_in_turn(&self, member: &Membership, own: usize) -> Option<Next> {
        let turns = self.fresh_turns.get();
        if turns > 0
            && let Some(header) = member.pop_to_start(own)
        {
            // A group is started in a row, so that no thief parts it. The turns bound the row,
            // because a thief that parts the group changes the place.
            let is_last = member.place_in_group() == 0;
            self.fresh_turns.set(if is_last { 0 } else { turns - 1 });
            return Some(Next::Fresh(header));
        }
        self.fresh_turns.set(GROUP as u8);
        self.ready.pop().or_else(|| member.pop_to_start(own).map(Next::Fresh))
    }

    /// Takes the closure at the head of the queue for a stack whose fiber has just ended, if it
    /// `fits` there and the loop need not look up.
    #[inline(always)]
    pub(super) fn next_to_chain(
        &self,
        fits: impl FnOnce(&StrandHeader) -> bool,
    ) -> Option<&'static StrandHeader> {
        if self.switches_left() == 1 || !self.may_chain {
            return None;
        }
        let header = self.ready.pop_fresh()?;
        if !fits(header) {
            self.ready.push_fresh(header);
            return None;
        }
        self.set_countdown(self.switches_left() - 1);
        Some(header)
    }

    /// Queues the first closure of a stolen batch, and lets this queue have the next turn, because
    /// no other worker can steal the closure from there.
    pub(super) fn push_stolen(&self, header: &'static StrandHeader) {
        self.ready.push_fresh(header);
        self.fresh_turns.set(0);
    }

    /// Queues a strand of this worker whose wait has ended.
    #[inline]
    #[allow(unsafe_code)]
    pub(super) fn make_ready(&self, header: &'static StrandHeader, root: &RootStrand) {
        // SAFETY: the strand waited: it has a stack, which lives until the strand has ended.
        let stack = unsafe { &*header.stack.get() };
        match root.is_on(stack) {
            false => self.ready.push_fiber(stack),
            true => self.ready.push_root(),
        }
    }

    /// Wakes the strand that the driver knows by that word, if it names one.
    #[inline(always)]
    fn wake_by_word(&self, word: u64) {
        match WakeWord::from_bits(word).decode() {
            Waiting::Full(wait) => drop(wait.wake(Wake::Woken)),
            Waiting::Plain(stack) => self.ready.push_stack(stack),
            Waiting::Nobody | Waiting::Released => {}
        }
    }

    /// Wakes the strands whose ops are complete.
    #[allow(unsafe_code)]
    pub(super) fn wake_completed(&self, driver: &mut Driver, running: &RunningStrand) {
        let trace = running.recorder.begin_reaping();
        while let Some(frame) = driver.pop_complete() {
            // SAFETY: a frame stays valid until it came out of `pop_complete`, and its waiter
            // continues only after the wake-up below.
            let frame: &OpFrame = unsafe { frame.as_ref() };
            if let Some((trace, ticks)) = trace {
                recorder::add_completion(trace, ticks, frame, frame.user.get());
            }
            self.wake_by_word(frame.user.replace(WakeWord::RELEASED.to_bits()));
        }
        while let Some(word) = driver.pop_notice() {
            if let Some((trace, ticks)) = trace {
                recorder::add_notice(trace, ticks, word);
            }
            self.wake_by_word(word);
        }
        // A batch of completions makes the queue long at once. If it were measured only now and
        // then, its last part would find it short, and the next batch would have no prefetches.
        self.ready.measure_waits();
        running.recorder.end_reaping();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::{
        strand::FreeList,
        worker::{Pool, Workers},
    };

    /// A thief takes the rest of each group as soon as the worker has begun it, so the worker is
    /// always in the middle of a group.
    #[test]
    fn a_strand_that_can_continue_has_its_turn_though_thieves_part_each_group() {
        let members = Workers::new(2, None, Arc::new(Pool::new(1))).1;
        let [owner, thief] = &members[..] else { unreachable!("2 members") };
        let headers = FreeList::new();
        for _ in 0..100 * GROUP {
            owner.share(headers.take(false).expect("memory for a header"));
        }
        let scheduler = Scheduler::new(true, 61);
        scheduler.ready.push_root();
        let mut starts = 0;
        while !owner.is_empty() {
            match scheduler.next_in_turn(owner, 0) {
                Some(Next::Root) => {
                    starts = 0;
                    scheduler.ready.push_root();
                }
                _ => starts += 1,
            }
            assert!(starts <= GROUP, "{starts} closures in a row while a strand can continue");
            // With more fibers than the owner the thief takes an eighth of the closures.
            thief.search(usize::MAX / 2, false);
            while thief.pop().is_some() {}
        }
    }
}
