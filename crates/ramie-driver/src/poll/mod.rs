//! The readiness backend: each op is attempted at once, and again when its descriptor is ready.
//!
//! # Registrations
//! A descriptor with waiting ops is registered one-shot for the merged interests of its readers and
//! writers. INVARIANT: **a registration is armed only while an op waits on the descriptor.** Firing
//! disarms it; cancelling the last waiter deletes it. A registration that was not deleted is
//! disarmed and reports no event. So it does no harm if the descriptor is closed on any thread, its
//! number reused, or the file kept alive by a duplicate: the kernel's answer to the next op on that
//! number (`ENOENT`, `EEXIST`) shows whether to add or to modify the registration. The generation
//! in the key is a second safeguard. The exceptions are descriptors whose owner keeps a
//! [`Registration`](crate::registration::Registration): those stay registered between waits
//! ([`edges`]).
//!
//! While an op waits, its submitter keeps the descriptor open (contract of `Driver::submit`).
#![allow(unsafe_code)]

mod attempt;
mod descriptors;
mod edges;
mod slots;
mod vain;

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::Event;
use rustix::io::Errno;

use crate::backend::{Backend, Submitted, Wait};
use crate::buffer::Pool;
use crate::caps::Caps;
use crate::completed::{Completed, FrameList};
use crate::fixed::FixedFile;
use crate::op::{Op, OpFrame, OpState};
use crate::remote::RemoteHandle;
use crate::sys::{self, EpollSet, POLL_ERR, POLL_HUP, POLL_IN, POLL_OUT};
use crate::wake::{WakeTarget, Waker, Way};
use attempt::AGAIN;
use descriptors::Descriptors;
use slots::{Slot, Slots};
use vain::{Resting, Vain};

const CANCELLED: i32 = -Errno::CANCELED.raw_os_error();

/// The largest number of events taken from the kernel in one call.
const BATCH: usize = 256;

/// An epoll set and the ops that wait for its descriptors.
pub(crate) struct Poll {
    descriptors: Descriptors,
    pub(crate) completed: Completed,
    in_flight: usize,
    events: Vec<Event>,
    target: Arc<WakeTarget>,
    caps: Caps,
    pool: Pool,
}

impl Poll {
    pub(crate) fn open() -> io::Result<Self> {
        let set = Arc::new(EpollSet::open()?);
        Ok(Poll {
            target: WakeTarget::new(Way::Poll(Arc::clone(&set))),
            descriptors: Descriptors { set, slots: Slots::default(), resting: Resting::default() },
            completed: Completed::default(),
            in_flight: 0,
            events: Vec::with_capacity(BATCH),
            caps: Caps::of_poll(),
            pool: Pool::new(),
        })
    }

    fn wait_for_readiness(&mut self, frame: &OpFrame) -> Result<(), Errno> {
        let fd = frame.op.fd().filter(|fd| *fd >= 0).ok_or(Errno::BADF)?;
        self.descriptors.slots.reach(fd);
        if !self.descriptors.keep(fd, frame) {
            self.descriptors.arm_for(fd, frame.op.readiness())?;
        }
        self.descriptors.slots[fd].queue(&frame.op).push(frame);
        frame.state.set(OpState::InFlight);
        self.in_flight += 1;
        Ok(())
    }

    fn finish(&mut self, frame: &OpFrame, result: i32) {
        self.in_flight -= 1;
        self.completed.complete(frame, result);
    }

    fn on_event(&mut self, event: Event) {
        let Some((fd, generation)) = sys::epoll_key(&event).map(fd_of) else { return };
        let Some(slot) = self.descriptors.slots.get_mut(fd) else { return };
        if slot.generation != generation {
            return;
        }
        let flags = event.flags;
        if slot.is_kept {
            return self.on_edge(fd, flags);
        }
        slot.armed = 0;
        let in_flight = self.in_flight;
        let over = POLL_ERR | POLL_HUP;
        if flags.bits() & (POLL_IN | over) != 0 {
            self.retry(fd, |slot| &mut slot.readers);
        }
        if flags.bits() & (POLL_OUT | over) != 0 {
            self.retry(fd, |slot| &mut slot.writers);
        }
        // Ops that only wait for readiness may wait for an event that has no queue of its own.
        self.retry(fd, |slot| &mut slot.pollers);
        let was_true = self.in_flight < in_flight;
        if was_true {
            self.descriptors.slots[fd].vain = Vain::default();
        }
        if self.descriptors.slots[fd].is_idle() {
            return;
        }
        if was_true || self.descriptors.note_vain(fd) {
            let interests = self.descriptors.slots[fd].interests();
            self.arm_or_fail(fd, interests);
        }
    }

    /// Arms the registration of `fd`; if that fails, the ops that wait for `fd` fail.
    fn arm_or_fail(&mut self, fd: RawFd, interests: u32) {
        if let Err(errno) = self.descriptors.arm(fd, interests) {
            self.fail_all(fd, errno);
        }
    }

    /// Attempts the ops in one queue of `fd`, in order. If one call would wait, so would the calls
    /// behind it; but each op that only waits for readiness may wait for another event.
    fn retry(&mut self, fd: RawFd, queue: fn(&mut Slot) -> &mut FrameList) {
        let mut still_waiting = FrameList::new();
        while let Some(frame) = queue(&mut self.descriptors.slots[fd]).pop() {
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
            let frame = unsafe { frame.as_ref() };
            let hopeless = !still_waiting.is_empty() && !matches!(frame.op, Op::Poll { .. });
            let result = match if hopeless { AGAIN } else { self.descriptors.attempt(frame) } {
                AGAIN if !hopeless => self.descriptors.conclude(frame),
                result => result,
            };
            match result {
                AGAIN => still_waiting.push(frame),
                result => self.finish(frame, result),
            }
        }
        *queue(&mut self.descriptors.slots[fd]) = still_waiting;
    }

    fn fail_all(&mut self, fd: RawFd, errno: Errno) {
        while let Some(frame) = self.descriptors.slots[fd].pop() {
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
            let frame = unsafe { frame.as_ref() };
            self.finish(frame, -errno.raw_os_error());
        }
    }
}

impl Backend for Poll {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.target))
    }

    /// Returns true while ops wait, because only a system call shows readiness.
    fn needs_turn(&self) -> bool {
        self.in_flight > 0 || !self.completed.is_empty()
    }

    fn submit(&mut self, frame: &OpFrame) -> Submitted {
        debug_assert_eq!(frame.state.get(), OpState::New, "a frame is submitted once");
        // An op waits behind ops of its direction that wait already.
        if !self.descriptors.has_waiters_before(frame)
            && !pretends_to_wait(frame)
            && !self.descriptors.must_wait(frame)
        {
            let mut result = self.descriptors.attempt(frame);
            if result == AGAIN && may_wait(frame) {
                result = self.descriptors.conclude_if_ended(frame);
            }
            if result != AGAIN || !may_wait(frame) {
                return done(frame, result);
            }
        }
        match self.wait_for_readiness(frame) {
            Ok(()) => Submitted::InFlight,
            // epoll refuses only files on a disk, which are always ready.
            Err(Errno::PERM) => done(frame, attempt::call_waiting(&frame.op)),
            Err(errno) => done(frame, -errno.raw_os_error()),
        }
    }

    fn attach(&mut self, frame: &OpFrame, file: &FixedFile) {
        frame.registration.set(&raw const file.registration);
    }

    fn cancel(&mut self, frame: &OpFrame) {
        let fd = frame.op.fd().expect("an op without a descriptor never waits");
        self.descriptors.slots[fd].queue(&frame.op).remove(frame);
        // Attempts the op once more, because data that has arrived must be returned rather than
        // lost.
        let result = match attempt::attempt(frame) {
            AGAIN => CANCELLED,
            result => result,
        };
        self.finish(frame, result);
        if self.descriptors.slots[fd].is_idle() && !self.descriptors.slots[fd].is_kept {
            self.descriptors.disarm(fd);
        }
    }

    /// Cancels the ops for which `is_meant` returns true, and returns their number.
    fn cancel_all(&mut self, is_meant: impl Fn(&OpFrame) -> bool) -> usize {
        let all = (0..self.descriptors.slots.len() as RawFd)
            .flat_map(|fd| self.descriptors.slots[fd].frames());
        let meant: Vec<_> = all.filter(|frame| is_meant(frame)).map(NonNull::from).collect();
        for frame in &meant {
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`); completing the
            // frames before it has not removed it.
            let frame = unsafe { frame.as_ref() };
            frame.cancel_asked.set(true);
            self.cancel(frame);
        }
        meant.len()
    }

    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        self.completed.give_back_surplus();
        let limit = match wait {
            Wait::Until(limit) if self.completed.is_empty() => {
                limit.into_iter().chain(self.descriptors.resting.limit()).min()
            }
            _ => Some(Duration::ZERO),
        };
        let mut events = std::mem::take(&mut self.events);
        let waited = self.descriptors.set.wait(&mut events, limit);
        self.target.acknowledge();
        for event in events.drain(..) {
            self.on_event(event);
        }
        self.events = events;
        if !self.descriptors.resting.is_empty() {
            self.arm_rested();
        }
        waited
    }

    fn pollable(&mut self) -> io::Result<OwnedFd> {
        self.descriptors.set.duplicate()
    }

    fn turn_to_poll(&mut self) -> io::Result<bool> {
        self.turn(Wait::Never)?;
        Ok(self.completed.is_empty())
    }

    fn poll_limit(&self) -> Option<Duration> {
        self.descriptors.resting.limit()
    }

    fn pop_complete(&mut self) -> Option<NonNull<OpFrame>> {
        self.completed.pop()
    }

    fn drain(&mut self) {
        for fd in 0..self.descriptors.slots.len() as RawFd {
            if self.descriptors.slots[fd].is_idle() {
                continue;
            }
            self.fail_all(fd, Errno::CANCELED);
            self.descriptors.disarm(fd);
        }
        debug_assert_eq!(self.in_flight, 0);
    }

    fn remote(&self) -> RemoteHandle {
        RemoteHandle(Some(Arc::clone(&self.descriptors.set)))
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn has_surplus(&self) -> bool {
        self.pool.has_surplus()
    }

    fn give_back_surplus(&mut self) {
        self.pool.give_back_surplus();
    }

    fn is_known_to_wait(&self, fd: RawFd, file: &FixedFile) -> bool {
        self.descriptors.would_wait(fd, &file.registration, POLL_IN)
    }

    fn note_received(&mut self, fd: RawFd, file: &FixedFile, result: i32, len: u32) {
        self.descriptors.note_receive(fd, &file.registration, result, (len, 0));
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.drain();
    }
}

/// Whether `EAGAIN` means "wait" for this op.
fn may_wait(frame: &OpFrame) -> bool {
    match frame.op {
        // If the backlog of a local listener is full, the socket never becomes ready, so the op
        // returns the error.
        Op::Connect { .. } => frame.connecting.get(),
        Op::Open { .. } | Op::Close { .. } | Op::Call { .. } => false,
        _ => !frame.op.refuses_to_wait(),
    }
}

/// An injected fault: whether the op pretends that the descriptor is not ready until the kernel
/// reports that it is.
fn pretends_to_wait(frame: &OpFrame) -> bool {
    frame.injected.is_again() && frame.op.readiness() != 0 && may_wait(frame)
}

fn done(frame: &OpFrame, result: i32) -> Submitted {
    frame.result.set(result);
    frame.state.set(OpState::Complete);
    Submitted::Complete
}

/// Keeps the top bit of the key clear, because the key of the notifier is all ones.
const GENERATION_MASK: u32 = 0x7fff_ffff;

fn key_of(fd: RawFd, generation: u32) -> u64 {
    fd as u64 | u64::from(generation) << 32
}

fn fd_of(key: u64) -> (RawFd, u32) {
    (key as u32 as RawFd, (key >> 32) as u32)
}

impl std::fmt::Debug for Poll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poll").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}
