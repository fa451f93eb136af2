//! Readiness in vain: the kernel reports that a descriptor is ready, but the call would wait.
//!
//! Usually another call has taken the data, and the next report is right. But some descriptors stay
//! ready permanently. If the registration of such a descriptor were armed again at once, it would
//! fire in each turn.
//!
//! # Shut down for reading
//! If a datagram socket was shut down, a receive that may wait returns 0 bytes, but one that may
//! not (`MSG_DONTWAIT`) fails with `EAGAIN`. If a Unix listener was shut down, an accept that may
//! wait fails with `EINVAL`, one that may not with `EAGAIN`. poll(2) reports such sockets by
//! `POLLRDHUP`. An op that would wait for one gets the result of the call that may wait
//! ([`Descriptors::conclude`]).
//!
//! # Other descriptors
//! After [`PATIENCE`] readinesses in vain within [`ROW_NS`] of each other, and no op that completed
//! in between, the registration is not renewed at once, but after a pause ([`Resting`]), which
//! grows to [`LONGEST_PAUSE_NS`]. The ops continue to wait, and can be cancelled.
//!
//! *The race to fear*: an op of the other direction comes during the pause, and arms the
//! registration for itself alone. So at the pause's end the armed events are compared with those of
//! all ops that wait; an armed registration alone proves nothing.
//!
//! A socket whose error queue is not read (timestamps, `IP_RECVERR`) is such a descriptor, too. So
//! a receive from it may be delayed by the length of the pause.

use std::os::fd::RawFd;
use std::time::Duration;

use rustix::io::Errno;

use super::attempt::{self, AGAIN};
use super::descriptors::Descriptors;
use super::{Poll, Slot, may_wait};
use crate::op::{Op, OpFrame};
use crate::sys::{self, monotonic_ns, raw};

/// The number of consecutive readinesses in vain after which the registration is still renewed at
/// once.
const PATIENCE: u32 = 8;
/// The longest time in ns between two consecutive readinesses. A registration that took longer to
/// fire probably has a reason.
const ROW_NS: u64 = 10_000_000;
const FIRST_PAUSE_NS: u64 = 50_000;
const LONGEST_PAUSE_NS: u64 = 5_000_000;

/// The consecutive readinesses in vain of one slot.
#[derive(Debug, Default)]
pub(super) struct Vain {
    count: u32,
    /// The time at which the registration was last armed.
    armed_ns: u64,
}

impl Vain {
    /// Counts one readiness in vain. Returns the time at which to arm the registration again, or
    /// `None` for at once.
    fn note(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns.saturating_sub(self.armed_ns) > ROW_NS {
            self.count = 0;
        }
        self.count += 1;
        let doublings = self.count.checked_sub(PATIENCE + 1);
        let pause = doublings
            .map_or(0, |doublings| (FIRST_PAUSE_NS << doublings.min(16)).min(LONGEST_PAUSE_NS));
        self.armed_ns = now_ns + pause;
        (pause > 0).then_some(self.armed_ns)
    }
}

/// The descriptors whose registrations are armed later: each with the time and the generation of
/// its slot.
#[derive(Debug, Default)]
pub(super) struct Resting(Vec<(u64, RawFd, u32)>);

impl Resting {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the time until the first pause is over, which limits a wait in the kernel; None
    /// without a pause.
    pub(super) fn limit(&self) -> Option<Duration> {
        let first = self.0.iter().map(|(due_ns, ..)| *due_ns).min()?;
        Some(Duration::from_nanos(first.saturating_sub(monotonic_ns())))
    }

    fn take_due(&mut self) -> Vec<(RawFd, u32)> {
        let now_ns = monotonic_ns();
        let due = self.0.extract_if(.., |(due_ns, ..)| *due_ns <= now_ns);
        due.map(|(_, fd, generation)| (fd, generation)).collect()
    }
}

impl Poll {
    /// Arms the registrations whose pause is over.
    #[cold]
    pub(super) fn arm_rested(&mut self) {
        for (fd, generation) in self.descriptors.resting.take_due() {
            let slot = &self.descriptors.slots[fd];
            let is_meant = slot.generation == generation && !slot.is_kept;
            let interests = slot.interests();
            if is_meant && interests & !slot.armed != 0 {
                self.arm_or_fail(fd, interests);
            }
        }
    }
}

impl Descriptors {
    /// Called when the registration of `fd` has fired and no waiting op has completed. Returns
    /// whether to arm it again at once.
    pub(super) fn note_vain(&mut self, fd: RawFd) -> bool {
        let slot = &mut self.slots[fd];
        let Some(due_ns) = slot.vain.note(monotonic_ns()) else { return true };
        let generation = slot.generation;
        self.resting.0.push((due_ns, fd, generation));
        false
    }

    /// Returns the result of an op whose descriptor is ready although the call would wait.
    #[cold]
    pub(super) fn conclude(&mut self, frame: &OpFrame) -> i32 {
        let Some(fd) = frame.op.fd().filter(|_| may_wait(frame) && is_receiving(&frame.op)) else {
            return AGAIN;
        };
        if !sys::is_shut_down_for_reading(raw::borrow(&fd)) {
            return AGAIN;
        }
        // Data from before the end comes first.
        match self.attempt(frame) {
            AGAIN => ended(&frame.op),
            result => result,
        }
    }

    /// As `conclude`, but only if an earlier edge has reported the end.
    pub(super) fn conclude_if_ended(&mut self, frame: &OpFrame) -> i32 {
        match frame.op.fd().and_then(|fd| self.slots.get(fd)) {
            Some(Slot { is_kept: true, has_ended: true, .. }) => self.conclude(frame),
            _ => AGAIN,
        }
    }
}

fn is_receiving(op: &Op) -> bool {
    matches!(
        op,
        Op::Read { .. }
            | Op::ReadVectored { .. }
            | Op::Recv { .. }
            | Op::RecvMessage { .. }
            | Op::Accept { .. }
    )
}

/// Returns the result that the call would have on a socket that was shut down if it could wait.
fn ended(op: &Op) -> i32 {
    match *op {
        Op::Accept { .. } => -Errno::INVAL.raw_os_error(),
        Op::RecvMessage { message, .. } => {
            attempt::clear_message(message);
            0
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_PAUSE_NS, PATIENCE, ROW_NS, Vain};

    #[test]
    fn pauses_grow_and_a_true_readiness_ends_them() {
        let mut vain = Vain::default();
        let mut now = ROW_NS + 1;
        for _ in 0..PATIENCE {
            assert_eq!(vain.note(now), None);
            now += 1;
        }
        let mut last = 0;
        for _ in 0..20 {
            let due = vain.note(now).expect("patience is over");
            assert!(due - now >= last && due - now <= LONGEST_PAUSE_NS);
            last = due - now;
            now = due + 1;
        }
        assert_eq!(last, LONGEST_PAUSE_NS);
        assert_eq!(vain.note(now + ROW_NS), None);
    }
}
