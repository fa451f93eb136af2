//! Reading completions: finding the op of each, and completing the op or submitting it again.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::sync::Arc;

use io_uring::{IoUring, cqueue};
use rustix::io::Errno;

use super::buffer_ring::Filled;
use super::buffers::Buffers;
use super::cancel::Cancels;
use super::files::Installs;
use super::in_flight::InFlight;
use super::multishot::Multishots;
use super::wakes::Wakes;
use super::{bundle, sqe};
use crate::completed::{Completed, FrameList};
use crate::op::{Op, OpFrame, OpState};
use crate::sys;
use crate::wake::WakeTarget;

const AGAIN: i32 = -Errno::AGAIN.raw_os_error();
const CANCELLED: i32 = -Errno::CANCELED.raw_os_error();
const IN_PROGRESS: i32 = -Errno::INPROGRESS.raw_os_error();
const ALREADY: i32 = -Errno::ALREADY.raw_os_error();
const INTERRUPTED: i32 = -Errno::INTR.raw_os_error();
const NO_BUFFERS: i32 = -Errno::NOBUFS.raw_os_error();
/// The result of a bundle whose group has been unregistered.
const NO_GROUP: i32 = -Errno::NOENT.raw_os_error();

/// `ERESTARTSYS` and related errors: a signal has interrupted the call.
const KERNELS_OWN: RangeInclusive<i32> = -516..=-512;

/// The largest number of completions that are read at once.
const BATCH: usize = 32;

/// The state of the ops in a ring that completions change.
///
/// **Rule of the reaper**: reading completions never submits, so the reaper has no access to the
/// queue. Entries that must be submitted as a consequence (an op that was interrupted, the next
/// read of the eventfd) are noted here, and the next turn pushes them. Otherwise a full queue could
/// cause a recursion.
pub(super) struct Reaper {
    pub(super) completed: Completed,
    /// Ops to submit again.
    pub(super) retries: FrameList,
    pub(super) in_flight: InFlight,
    pub(super) cancels: Cancels,
    pub(super) multishots: Multishots,
    pub(super) buffers: Buffers,
    pub(super) wakes: Wakes,
    pub(super) installs: Installs,
    /// The number of messages to other rings whose completion has not been read.
    pub(super) messages: usize,
    /// The number of descriptors that the kernel is closing and no op waits for.
    pub(super) closing: usize,
    /// Whether `drain` is running; then a cancelled op is complete, and no op is submitted again.
    pub(super) is_draining: bool,
}

impl Reaper {
    pub(super) fn new(wakes: Wakes, buffers: Buffers) -> Self {
        Reaper {
            completed: Completed::default(),
            retries: FrameList::new(),
            in_flight: InFlight::default(),
            cancels: Cancels::default(),
            multishots: Multishots::new(wakes.waker()),
            buffers,
            wakes,
            installs: Installs::default(),
            messages: 0,
            closing: 0,
            is_draining: false,
        }
    }

    /// Whether the next turn has something to push or to report.
    #[inline]
    pub(super) fn has_notes(&self) -> bool {
        self.wakes.is_woken() || !self.retries.is_empty() || self.cancels.have_missed()
    }

    /// Whether there is no work before the next completion. (If the queue was full and was
    /// submitted, completions read meanwhile may have left notes.)
    pub(super) fn is_idle(&self) -> bool {
        !self.has_notes() && self.completed.is_empty() && !self.multishots.has_notices()
    }

    /// Whether completions that were read since a wait began may be the event that the caller waits
    /// for; the reaper `was_idle` at its begin. A caller that began with work left waits all the
    /// same.
    pub(super) fn has_event(&self, was_idle: bool) -> bool {
        was_idle && !self.is_idle()
    }

    /// Returns the number of completions that must be read before the ring may be dropped.
    pub(super) fn left(&self) -> usize {
        self.in_flight.len() + self.messages + self.closing + self.multishots.armed()
    }

    /// Reads every completion that is in the queue. Returns whether there was one.
    pub(super) fn reap(&mut self, ring: &mut IoUring) -> bool {
        let mut batch = [const { MaybeUninit::uninit() }; BATCH];
        let mut found_some = false;
        loop {
            let entries = ring.completion().fill(&mut batch);
            if entries.is_empty() {
                return found_some;
            }
            found_some = true;
            // Prefetches the frames, because they lie on different stacks, which the kernel's work
            // has evicted from the cache.
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
        match user_data & sqe::TAG_BITS {
            sqe::TAG_FRAME => {}
            sqe::TAG_MULTISHOT => {
                return self.on_completion(sqe::multishot(user_data), result, flags);
            }
            _ => return self.route_other(user_data, result),
        }
        const _: () = assert!(sqe::TAG_FRAME == 0);
        // SAFETY: the tag is 0, so the user data is the address of a frame (made in `hand_over`),
        // and frames stay alive until they are complete (contract of `Driver::submit`).
        let frame = unsafe { &*(user_data as *const OpFrame) };
        let result = frame.take_injected().unwrap_or(result);
        if !is_plain(flags) {
            return self.route_special(frame, result, flags);
        }
        self.decide(frame, result);
    }

    /// Handles a completion that belongs neither to a frame nor to a multishot op.
    #[inline(never)]
    pub(super) fn route_other(&mut self, user_data: u64, result: i32) {
        let address = user_data & !sqe::TAG_BITS;
        match user_data & sqe::TAG_BITS {
            sqe::TAG_WAKE => self.wakes.on_read(result),
            sqe::TAG_INSTALLED => self.installs.note(result),
            sqe::TAG_MESSAGE => self.wakes.on_message(),
            sqe::TAG_MESSAGE_SENT => {
                self.messages -= 1;
                // SAFETY: `send` made the address by `Arc::into_raw`, and this completion owns that
                // reference.
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
            _ => self.note_answer_to_cancel(user_data, result),
        }
    }

    #[cold]
    fn route_special(&mut self, frame: &OpFrame, result: i32, flags: u32) {
        let Some(filled) = Filled::of(result, flags) else {
            return self.route_zero_copy(frame, result, cqueue::notif(flags));
        };
        bundle::lease(&mut self.buffers, frame, filled);
        self.decide(frame, result);
    }

    /// Handles a completion of a zero-copy send: its result, or the notification that the kernel
    /// has released its bytes.
    #[cold]
    fn route_zero_copy(&mut self, frame: &OpFrame, result: i32, is_released: bool) {
        match frame.state.get() {
            OpState::Forgotten => {}
            _ if is_released => self.decide(frame, frame.result.get()),
            _ => {
                frame.state.set(OpState::AwaitingRelease);
                frame.result.set(result);
            }
        }
    }

    /// Stops waiting for the kernel to release the bytes of zero-copy sends, because the peer may
    /// never read them.
    #[cold]
    pub(super) fn forget_unreleased(&mut self) {
        for index in (0..self.in_flight.table_len()).rev() {
            let Some(frame) = self.in_flight.at(index) else { continue };
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
            let frame = unsafe { &*frame };
            if frame.state.get() == OpState::AwaitingRelease {
                frame.state.set(OpState::Forgotten);
                self.note_end(frame);
            }
        }
    }

    /// Completes the op, or notes it to be submitted again. The decision depends only on the op's
    /// own result, not on that of a cancel request.
    #[inline(always)]
    pub(super) fn decide(&mut self, frame: &OpFrame, result: i32) {
        if result >= 0 && frame.state.get() == OpState::InFlight {
            return self.finish(frame, result);
        }
        self.decide_rare(frame, result);
    }

    #[inline(never)]
    fn decide_rare(&mut self, frame: &OpFrame, result: i32) {
        let asked = frame.cancel_asked.get() || self.is_draining;
        let awaited = frame.state.get() == OpState::AwaitingReadiness;
        // A splice in a kernel thread may return errors that are internal to the kernel.
        let result = if KERNELS_OWN.contains(&result) { INTERRUPTED } else { result };
        match result {
            // Even an interrupted close has closed the descriptor.
            INTERRUPTED if matches!(frame.op, Op::Close { .. }) => self.finish(frame, 0),
            // The kernel has not begun the close, and no other code owns the descriptor, so the
            // driver closes it.
            CANCELLED if matches!(frame.op, Op::Close { .. }) => {
                self.finish(frame, sys::raw::close(frame.op.fd().unwrap_or(-1)));
            }
            // The kernel cancels an op that runs on one of its threads by interrupting it.
            INTERRUPTED | CANCELLED if asked => self.finish(frame, CANCELLED),
            INTERRUPTED | CANCELLED if awaited => self.note(frame, OpState::ToAwait),
            // An interrupted connect continues in the kernel.
            INTERRUPTED if matches!(frame.op, Op::Connect { .. }) => self.await_connection(frame),
            INTERRUPTED | CANCELLED => self.note(frame, OpState::ToRetry),
            _ if awaited => self.became_ready(frame, result),
            NO_BUFFERS | NO_GROUP if matches!(frame.op, Op::RecvBundle { .. }) => match asked {
                true => self.finish(frame, CANCELLED),
                false if self.buffers.groups.note_shortage(bundle::SIZE) => {
                    self.note(frame, OpState::ToRetry)
                }
                false => self.finish(frame, NO_BUFFERS),
            },
            AGAIN if waits_for_readiness(&frame.op) => {
                if asked {
                    self.finish(frame, CANCELLED);
                } else {
                    self.note(frame, OpState::ToAwait);
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
        self.note(frame, OpState::ToAwait);
    }

    /// Continues with the op itself after its descriptor became ready or the poll of it failed.
    fn became_ready(&mut self, frame: &OpFrame, result: i32) {
        if result < 0 {
            self.finish(frame, result);
        } else if frame.connecting.get() {
            self.finish(frame, sys::raw::connect_outcome(frame.op.fd().unwrap_or(-1)));
        } else {
            self.note(frame, OpState::ToRetry);
        }
    }

    /// Notes `frame`, so that the next turn submits it again.
    fn note(&mut self, frame: &OpFrame, state: OpState) {
        frame.state.set(state);
        frame.manner.set(frame.op.manner());
        self.retries.push(frame);
    }

    /// Completes the op with its result.
    #[inline]
    pub(super) fn finish(&mut self, frame: &OpFrame, result: i32) {
        self.note_end(frame);
        self.completed.complete(frame, result);
    }

    #[inline]
    fn note_end(&mut self, frame: &OpFrame) {
        self.cancels.note_end(frame);
        self.in_flight.remove(frame);
    }
}

/// Whether a completion is its op's only one, and uses no buffer of the ring. (A receive may also
/// report that the socket has more data.)
#[inline]
fn is_plain(flags: u32) -> bool {
    cqueue::buffer_select(flags).is_none() && !cqueue::more(flags) && !cqueue::notif(flags)
}

/// Whether `EAGAIN` means "not yet" for this op. With `O_NONBLOCK` some kernels return `EAGAIN` at
/// once, although the op should wait. From connect(2) `EAGAIN` means that the backlog of a local
/// listener is full.
fn waits_for_readiness(op: &Op) -> bool {
    !op.refuses_to_wait()
        && op.readiness() != 0
        && !matches!(op, Op::Connect { .. } | Op::Poll { .. })
}
