//! Completions: to whom each belongs, and what its result means.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::sync::Arc;

use io_uring::cqueue;
use rustix::io::Errno;

use super::buffer_ring::Filled;
use super::{Uring, bundle, sqe};
use crate::op::{Op, OpFrame, State};
use crate::sys;
use crate::wake::WakeTarget;

const AGAIN: i32 = -Errno::AGAIN.raw_os_error();
const CANCELLED: i32 = -Errno::CANCELED.raw_os_error();
const IN_PROGRESS: i32 = -Errno::INPROGRESS.raw_os_error();
const ALREADY: i32 = -Errno::ALREADY.raw_os_error();
const INTERRUPTED: i32 = -Errno::INTR.raw_os_error();
const NO_BUFFERS: i32 = -Errno::NOBUFS.raw_os_error();
/// What a bundle says of a group that is not there any more.
const NO_GROUP: i32 = -Errno::NOENT.raw_os_error();

/// `ERESTARTSYS` and its kin: a signal interrupted the call.
const KERNELS_OWN: RangeInclusive<i32> = -516..=-512;

/// How many completions are read off at once.
const BATCH: usize = 32;

impl Uring {
    /// Reads every completion that is in the queue. Submits nothing (rule of the reaper).
    pub(super) fn reap(&mut self) {
        let mut batch = [const { MaybeUninit::uninit() }; BATCH];
        loop {
            let entries = self.ring.completion().fill(&mut batch);
            if entries.is_empty() {
                return;
            }
            // Frames lie on as many stacks, which the kernel's work has pushed out of the cache.
            for entry in &*entries {
                let user_data = entry.user_data();
                if user_data & sqe::TAG_BITS == sqe::TAG_MULTISHOT {
                    self.multishots.prefetch(sqe::multishot(user_data));
                    continue;
                }
                sys::prefetch_value((user_data & !sqe::TAG_BITS) as *const OpFrame);
            }
            for entry in entries {
                self.route(entry.user_data(), entry.result(), entry.flags());
            }
        }
    }

    #[inline(always)]
    pub(super) fn route(&mut self, user_data: u64, result: i32, flags: u32) {
        if user_data & sqe::TAG_BITS != sqe::TAG_FRAME {
            return self.route_other(user_data, result, flags);
        }
        const _: () = assert!(sqe::TAG_FRAME == 0);
        // SAFETY: an address, its tag being 0, made from a frame in `hand_over`; and frames stay
        // alive until they are complete (contract of `Driver::submit`).
        let frame = unsafe { &*(user_data as *const OpFrame) };
        let result = frame.take_injected().unwrap_or(result);
        if !is_plain(flags) {
            return self.route_special(frame, result, flags);
        }
        self.decide(frame, result);
    }

    /// A completion that is no frame's.
    #[inline(never)]
    pub(super) fn route_other(&mut self, user_data: u64, result: i32, flags: u32) {
        let address = user_data & !sqe::TAG_BITS;
        match user_data & sqe::TAG_BITS {
            sqe::TAG_MULTISHOT => {
                self.on_item(sqe::multishot(user_data), result, flags);
            }
            sqe::TAG_WAKE => {
                self.wake_armed = false;
                if result >= 0 {
                    self.woken |= self.target.acknowledge();
                }
            }
            sqe::TAG_INSTALLED => self.files.note_installed(result),
            sqe::TAG_MESSAGE => self.woken |= self.target.acknowledge(),
            sqe::TAG_MESSAGE_SENT => {
                self.messages -= 1;
                // SAFETY: the address was made by `Arc::into_raw` in `send`, which gave this
                // one completion one count.
                let target = unsafe { Arc::from_raw(address as *const WakeTarget) };
                if result < 0 {
                    target.notify();
                }
            }
            sqe::TAG_CLOSE => {
                self.closing -= 1;
                if result == CANCELLED {
                    sys::raw::close((address >> sqe::CLOSE_SHIFT) as i32);
                }
            }
            _ => self.note_cancel(user_data, result),
        }
    }

    #[cold]
    fn route_special(&mut self, frame: &OpFrame, result: i32, flags: u32) {
        let Some(filled) = Filled::of(result, flags) else {
            return self.route_zero_copy(frame, result, cqueue::notif(flags));
        };
        self.take_bundle(frame, filled);
        self.decide(frame, result);
    }

    /// A send that does not copy is done, or the kernel has let go of its bytes.
    #[cold]
    fn route_zero_copy(&mut self, frame: &OpFrame, result: i32, is_released: bool) {
        match frame.state.get() {
            State::Forgotten => {}
            _ if is_released => self.decide(frame, frame.result.get()),
            _ => {
                frame.state.set(State::AwaitingRelease);
                frame.result.set(result);
            }
        }
    }

    /// Gives up waiting until the kernel lets go of bytes that it has sent without copying: the
    /// peer may never read them.
    #[cold]
    pub(super) fn forget_unreleased(&mut self) {
        for place in (0..self.frames.places()).rev() {
            let Some(frame) = self.frames.at(place) else { continue };
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
            let frame = unsafe { &*frame };
            if frame.state.get() == State::AwaitingRelease {
                frame.state.set(State::Forgotten);
                self.note_end(frame);
            }
        }
    }

    /// Complete, or once more: the target's own result decides, and nothing else.
    #[inline(always)]
    pub(super) fn decide(&mut self, frame: &OpFrame, result: i32) {
        if result >= 0 && frame.state.get() == State::InFlight {
            return self.finish(frame, result);
        }
        self.decide_rare(frame, result);
    }

    #[inline(never)]
    fn decide_rare(&mut self, frame: &OpFrame, result: i32) {
        let asked = frame.cancel_asked.get() || self.draining;
        let awaited = frame.state.get() == State::AwaitingReadiness;
        // A splice in a thread of the kernel answers as only the kernel itself should see.
        let result = if KERNELS_OWN.contains(&result) { INTERRUPTED } else { result };
        match result {
            // Once begun it has happened.
            INTERRUPTED if matches!(frame.op, Op::Close { .. }) => self.finish(frame, 0),
            // The kernel did not begin it. Nobody else can close the descriptor any more.
            CANCELLED if matches!(frame.op, Op::Close { .. }) => {
                self.finish(frame, sys::raw::close(frame.op.fd().unwrap_or(-1)));
            }
            // The kernel interrupts what runs in one of its threads in order to cancel it.
            INTERRUPTED | CANCELLED if asked => self.finish(frame, CANCELLED),
            INTERRUPTED | CANCELLED if awaited => self.note(frame, State::ToAwait),
            // An interrupted connect goes on by itself.
            INTERRUPTED if matches!(frame.op, Op::Connect { .. }) => self.await_connection(frame),
            INTERRUPTED | CANCELLED => self.note(frame, State::ToRetry),
            _ if awaited => self.became_ready(frame, result),
            NO_BUFFERS | NO_GROUP if matches!(frame.op, Op::RecvBundle { .. }) => match asked {
                true => self.finish(frame, CANCELLED),
                false if self.groups.note_shortage(bundle::SIZE) => {
                    self.note(frame, State::ToRetry)
                }
                false => self.finish(frame, NO_BUFFERS),
            },
            AGAIN if waits_for_readiness(&frame.op) => {
                if asked {
                    self.finish(frame, CANCELLED);
                } else {
                    self.note(frame, State::ToAwait);
                }
            }
            IN_PROGRESS | ALREADY if matches!(frame.op, Op::Connect { .. }) => {
                self.await_connection(frame);
            }
            _ => self.finish(frame, result),
        }
    }

    fn await_connection(&mut self, frame: &OpFrame) {
        frame.connecting.set(true);
        self.note(frame, State::ToAwait);
    }

    /// The descriptor is ready (or the poll of it failed): on with the op itself.
    fn became_ready(&mut self, frame: &OpFrame, result: i32) {
        if result < 0 {
            self.finish(frame, result);
        } else if frame.connecting.get() {
            self.finish(frame, sys::raw::connect_outcome(frame.op.fd().unwrap_or(-1)));
        } else {
            self.note(frame, State::ToRetry);
        }
    }

    /// Leaves `frame` for the next turn to hand over.
    fn note(&mut self, frame: &OpFrame, state: State) {
        frame.state.set(state);
        frame.manner.set(frame.op.manner());
        self.retries.push(frame);
    }

    /// The op is complete.
    #[inline]
    pub(super) fn finish(&mut self, frame: &OpFrame, result: i32) {
        self.note_end(frame);
        self.completed.complete(frame, result);
    }

    #[inline]
    fn note_end(&mut self, frame: &OpFrame) {
        self.asked -= usize::from(frame.cancel_asked.get());
        self.frames.remove(frame);
    }
}

/// Whether a completion is its op's only one, and has to do with no buffer of the ring's. (A
/// receive may say besides that the socket has more.)
#[inline]
fn is_plain(flags: u32) -> bool {
    cqueue::buffer_select(flags).is_none() && !cqueue::more(flags) && !cqueue::notif(flags)
}

/// Whether EAGAIN means "not yet" for this op. O_NONBLOCK makes some kernels say so at once,
/// while our ops wait all the same. Of connect(2) it means that a local listener is full.
fn waits_for_readiness(op: &Op) -> bool {
    !op.refuses_to_wait()
        && op.readiness() != 0
        && !matches!(op, Op::Connect { .. } | Op::Poll { .. })
}
