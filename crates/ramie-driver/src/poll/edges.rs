//! Descriptors that stay registered between waits, edge-triggered ([`Registration`]).
//!
//! Each edge of such a descriptor sets bits in its slot; a call that fails because it would wait
//! clears them. An op whose bit is clear waits without attempting its call. This saves that call
//! and the renewal of the registration, two system calls for each request of a server. INVARIANT:
//! **while an op waits for a bit, that bit is clear, and every event that would set it makes an
//! edge.**
//!
//! A receive that does not fill its buffer has emptied a TCP socket, and later bytes cause an edge.
//! So such a receive clears the bit, too, but not after an edge for the stream's end, for an error
//! or for urgent data, because a receive may then return fewer bytes than there are.
//!
//! A peer that sends to a socket while no op receives from it would wake the driver with each
//! segment. So the second edge for which no op waits ends the registration.
#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;

use super::attempt::AGAIN;
use super::descriptors::Descriptors;
use super::slots::Slot;
use super::{GENERATION_MASK, Poll, key_of, may_wait};
use crate::completed::FrameList;
use crate::op::{Op, OpFrame};
use crate::registration::Registration;
use crate::sys::{self, POLL_ERR, POLL_HUP, POLL_IN, POLL_OUT, raw};

/// Returns the registration of the op's descriptor; None if no stream owns the descriptor.
#[inline]
fn registration_of(frame: &OpFrame) -> Option<&Registration> {
    // SAFETY: null, or valid while the op is in flight (contract of `Driver::submit_fixed`).
    unsafe { frame.registration.get().as_ref() }
}

/// The events for which edges are registered. An op that waits for other events registers its
/// descriptor for each wait.
const KEPT: u32 = POLL_IN | POLL_OUT;

impl Descriptors {
    /// Whether the slot of `fd` describes the file of this registration.
    #[inline]
    fn is_kept(&self, fd: RawFd, registration: &Registration) -> bool {
        self.slots.get(fd).is_some_and(|slot| {
            slot.is_kept && registration.has_stamp(self.stamp_of(slot.generation))
        })
    }

    fn stamp_of(&self, generation: u32) -> u64 {
        u64::from(self.set.id) << 32 | u64::from(generation)
    }

    /// Whether a call on the descriptor of this registration would find none of `events`.
    pub(super) fn would_wait(&self, fd: RawFd, registration: &Registration, events: u32) -> bool {
        if events & !KEPT != 0 || !self.is_kept(fd, registration) {
            return false;
        }
        let slot = &self.slots[fd];
        // Not after the end, because a socket that was shut down causes no further edge
        // ([`Descriptors::conclude`]).
        slot.ready & events == 0 && !(slot.has_ended && events & POLL_IN != 0)
    }

    /// As [`would_wait`](Self::would_wait), for an op.
    #[inline]
    pub(super) fn must_wait(&self, frame: &OpFrame) -> bool {
        let Some((fd, registration)) = frame.op.fd().zip(registration_of(frame)) else {
            return false;
        };
        may_wait(frame)
            && !matches!(frame.op, Op::Connect { .. })
            && self.would_wait(fd, registration, frame.op.readiness())
    }

    /// Records the result of a call on a kept descriptor.
    #[inline]
    pub(super) fn note(&mut self, frame: &OpFrame, result: i32) {
        let Some((fd, registration)) = frame.op.fd().zip(registration_of(frame)) else { return };
        if result == AGAIN {
            self.note_empty(fd, registration, frame.op.readiness());
        } else if let Op::Recv { len, flags, .. } = frame.op {
            self.note_receive(fd, registration, result, (len, flags));
        }
    }

    fn note_empty(&mut self, fd: RawFd, registration: &Registration, events: u32) {
        if self.is_kept(fd, registration) {
            self.slots[fd].ready &= !events;
        }
    }

    /// As [`note`](Self::note), for a receive into `len` bytes with `flags`.
    pub(super) fn note_receive(
        &mut self,
        fd: RawFd,
        registration: &Registration,
        result: i32,
        (len, flags): (u32, i32),
    ) {
        let is_plain = flags & !(sys::MSG_DONTWAIT | sys::MSG_NOSIGNAL) == 0;
        let is_short = is_plain && result > 0 && (result as u32) < len;
        let is_empty = |slot: &Slot| result == AGAIN || (is_short && slot.is_drained_by_short);
        if self.is_kept(fd, registration) && is_empty(&self.slots[fd]) {
            self.slots[fd].ready &= !POLL_IN;
        }
    }

    /// Ensures that an edge comes when `frame` can continue. Returns false if the descriptor must
    /// be registered for this wait instead.
    pub(super) fn keep(&mut self, fd: RawFd, frame: &OpFrame) -> bool {
        let Some(registration) = registration_of(frame) else { return false };
        let events = frame.op.readiness();
        if self.would_wait(fd, registration, events) {
            return true;
        }
        // Not while ops wait by a one-shot registration, which this would replace. Not for a set
        // without a number of its own, because its stamps would be those of another set, too.
        if events & !KEPT != 0 || !self.slots[fd].is_idle() || self.set.id == 0 {
            return false;
        }
        let set = Arc::clone(&self.set);
        registration.take_on(&set, fd, || self.register(fd))
    }

    /// Registers a descriptor for which no op waits, for all edges; returns its stamp.
    fn register(&mut self, fd: RawFd) -> Option<u64> {
        let slot = &mut self.slots[fd];
        slot.generation = slot.generation.wrapping_add(1) & GENERATION_MASK;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::PRI;
        let key = key_of(fd, slot.generation);
        let was_registered = slot.registered;
        slot.is_kept = self.set.set(fd, key, flags | EventFlags::ET, was_registered).is_ok();
        slot.registered = slot.is_kept;
        slot.armed = 0;
        slot.ready = 0;
        slot.has_ended = false;
        slot.is_drained_by_short = sys::is_tcp(raw::borrow(&fd));
        slot.is_kept.then(|| self.stamp_of(self.slots[fd].generation))
    }
}

impl Poll {
    /// Handles an edge of a kept descriptor.
    pub(super) fn on_edge(&mut self, fd: RawFd, flags: EventFlags) {
        let ending = EventFlags::ERR | EventFlags::HUP;
        let mut ready = 0;
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | ending) {
            ready |= POLL_IN;
        }
        if flags.intersects(EventFlags::OUT | ending) {
            ready |= POLL_OUT;
        }
        let slot = &mut self.descriptors.slots[fd];
        if flags.intersects(EventFlags::RDHUP | EventFlags::PRI | ending) {
            slot.is_drained_by_short = false;
        }
        slot.has_ended |= flags.contains(EventFlags::RDHUP);
        if slot.is_idle() && slot.ready & ready & POLL_IN != 0 {
            return self.descriptors.disarm(fd);
        }
        slot.ready |= ready;
        if ready & POLL_IN != 0 {
            self.retry(fd, |slot| &mut slot.readers);
        }
        if ready & POLL_OUT != 0 {
            self.retry(fd, |slot| &mut slot.writers);
        }
        self.answer_pollers(fd, flags.bits());
    }

    /// Completes the ops that only wait for readiness.
    fn answer_pollers(&mut self, fd: RawFd, flags: u32) {
        let mut still_waiting = FrameList::new();
        while let Some(frame) = self.descriptors.slots[fd].pollers.pop() {
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
            let frame = unsafe { frame.as_ref() };
            match flags & (frame.op.readiness() | POLL_ERR | POLL_HUP) {
                0 => still_waiting.push(frame),
                mask => self.finish(frame, mask as i32),
            }
        }
        self.descriptors.slots[fd].pollers = still_waiting;
    }
}
