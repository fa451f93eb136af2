//! The backend that injects faults into another, the real one. The real backend never sees a
//! caller's frame. It gets a *stand-in* for each, which may move fewer bytes, and whose result
//! becomes the result of the caller's frame.
//!
//! | state of a frame here | changed by |
//! |---|---|
//! | held: not submitted yet | a number of turns or a cancel, to its stand-in |
//! | has a stand-in in the real backend | the stand-in's completion, to completed |
//! | completed | `pop_complete` |
#![allow(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use rustix::io::Errno;

use super::draws::Draws;
use super::fit::{can_hide, ends_in_silence};
use super::{Fault, Faults};
use crate::backend::{Backend, Submitted, Wait};
use crate::buffer::Pool;
use crate::caps::Caps;
use crate::fixed::FixedFile;
use crate::multishot::{MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem};
use crate::op::{Op, OpFrame, OpState};
use crate::remote::RemoteHandle;
use crate::wake::Waker;

/// The frame that the real backend gets for a caller's frame.
struct StandIn {
    frame: OpFrame,
    real: NonNull<OpFrame>,
    /// The result of the caller's frame, if a fault determines it.
    injected_result: Option<i32>,
}

/// The backend around another.
pub(crate) struct Faulty<B: Backend> {
    inner: Box<B>,
    draws: Draws,
    /// By the address of the frame that each replaces. INVARIANT: each is in flight in `inner`, and
    /// dropped after it has come out of there.
    stand_ins: HashMap<usize, Box<StandIn>>,
    /// The frames that are submitted late, with the number of turns left.
    held: Vec<(u32, NonNull<OpFrame>, Option<Fault>)>,
    completed: VecDeque<NonNull<OpFrame>>,
}

impl<B: Backend> Faulty<B> {
    pub(crate) fn around(inner: Box<B>, faults: Faults) -> Self {
        let draws = Draws::new(faults);
        let (stand_ins, held, completed) = (HashMap::new(), Vec::new(), VecDeque::new());
        Faulty { inner, draws, stand_ins, held, completed }
    }

    /// Replaces the faults; no op is in flight.
    pub(crate) fn with(mut self, faults: Faults) -> Self {
        self.draws = Draws::new(faults);
        self
    }

    /// Submits a stand-in; returns its result if it is complete at once.
    fn hand_over(&mut self, real: NonNull<OpFrame>, fault: Option<Fault>) -> Option<i32> {
        // SAFETY: a frame that was submitted is alive until popped (contract of `Driver::submit`).
        let asked = unsafe { real.as_ref() };
        let op = match fault {
            Some(Fault::Short) => self.draws.shorter(asked.op).unwrap_or(asked.op),
            _ => asked.op,
        };
        let mut frame = OpFrame::new(op);
        frame.in_background = asked.in_background;
        frame.manner = asked.manner.clone();
        frame.fixed_file_index.set(asked.fixed_file_index.get());
        frame.registration.set(asked.registration.get());
        frame.user.set(real.as_ptr() as u64);
        if let Some(Fault::Hidden(errno, times)) = fault
            && can_hide(&op, errno)
        {
            frame.injected.set(errno, times);
        }
        asked.state.set(OpState::InFlight);
        let injected_result = match fault {
            Some(Fault::Fails(errno)) => Some(-errno),
            _ => None,
        };
        let stand_in = Box::new(StandIn { frame, real, injected_result });
        let address = NonNull::from(&stand_in.frame);
        self.stand_ins.insert(real.as_ptr() as usize, stand_in);
        // SAFETY: the box does not move until the frame has come out of `inner` (`take`), or is
        // complete at once; the caller keeps the op's pointers valid.
        let frame = unsafe { address.as_ref() };
        match self.inner.submit(frame) {
            Submitted::InFlight => None,
            Submitted::Complete => Some(self.take(real.as_ptr() as usize).1),
        }
    }

    /// Drops a stand-in that is complete.
    fn take(&mut self, address: usize) -> (NonNull<OpFrame>, i32) {
        let stand_in = self.stand_ins.remove(&address).expect("completes once");
        (stand_in.real, stand_in.injected_result.unwrap_or(stand_in.frame.result()))
    }

    fn complete(&mut self, real: NonNull<OpFrame>, result: i32) {
        // SAFETY: a frame that was submitted is alive until popped (contract of `Driver::submit`).
        let frame = unsafe { real.as_ref() };
        frame.result.set(result);
        frame.state.set(OpState::Complete);
        self.completed.push_back(real);
        if self.draws.hits() {
            let (last, at) =
                (self.completed.len() - 1, self.draws.below(self.completed.len() as u32));
            self.completed.swap(last, at as usize);
        }
    }

    /// Ends a multishot op with an errno, as its last item. The op is settled first, because the
    /// kernel, too, has looked up the descriptor when such an op fails.
    fn fail_multishot(&mut self, id: MultishotId, errno: i32) -> NextItem {
        if let Some(item) = self.inner.settle_multishot(id) {
            return NextItem::Item(item);
        }
        self.inner.end_multishot_silently(id);
        if ends_in_silence(errno) {
            NextItem::Pending
        } else {
            NextItem::Item(MultishotItem::Failed(errno))
        }
    }

    fn collect(&mut self) {
        while let Some(frame) = self.inner.pop_complete() {
            // SAFETY: a stand-in, alive until `take` (invariant of `stand_ins`).
            let address = unsafe { frame.as_ref() }.user.get() as usize;
            let (real, result) = self.take(address);
            self.complete(real, result);
        }
    }
}

impl<B: Backend> Backend for Faulty<B> {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn submit(&mut self, frame: &OpFrame) -> Submitted {
        match self.draws.next() {
            Some(Fault::Fails(errno)) if !matches!(frame.op, Op::Close { .. }) => {
                self.complete(NonNull::from(frame), -errno);
                Submitted::InFlight
            }
            Some(Fault::Late(turns)) => {
                frame.state.set(OpState::InFlight);
                self.held.push((turns, NonNull::from(frame), None));
                Submitted::InFlight
            }
            fault => match self.hand_over(NonNull::from(frame), fault) {
                None => Submitted::InFlight,
                Some(result) => {
                    frame.result.set(result);
                    frame.state.set(OpState::Complete);
                    Submitted::Complete
                }
            },
        }
    }

    fn attach(&mut self, frame: &OpFrame, file: &FixedFile) {
        self.inner.attach(frame, file);
    }

    fn cancel(&mut self, frame: &OpFrame) {
        let real = NonNull::from(frame);
        if let Some(at) = self.held.iter().position(|(_, held, _)| *held == real) {
            // Available data comes first, as it does without the delay.
            let (_, frame, fault) = self.held.remove(at);
            if let Some(result) = self.hand_over(frame, fault) {
                self.complete(real, result);
            }
        }
        if let Some(stand_in) = self.stand_ins.get(&(real.as_ptr() as usize)) {
            self.inner.cancel_once(&stand_in.frame);
        }
    }

    fn start_multishot(
        &mut self,
        op: MultishotOp,
        inbox: &Arc<MultishotInbox>,
    ) -> Option<MultishotId> {
        // Some multishot ops are refused, so that their callers use one-shot ops.
        if self.draws.hits() {
            return None;
        }
        self.inner.start_multishot(op, inbox)
    }

    fn next_item(&mut self, id: MultishotId) -> NextItem {
        // Some multishot ops end without notice.
        if self.draws.hits() {
            self.inner.end_multishot_silently(id);
        }
        match (self.inner.next_item(id), self.draws.faults.failing) {
            (NextItem::Pending, Some((one_in, errno))) if self.draws.below(one_in) == 0 => {
                self.fail_multishot(id, errno)
            }
            (next, _) => next,
        }
    }

    fn cancel_all(&mut self, is_meant: impl Fn(&OpFrame) -> bool) -> usize {
        let held = self.held.iter().map(|(_, frame, _)| *frame);
        let all = held.chain(self.stand_ins.values().map(|stand_in| stand_in.real));
        // SAFETY: in flight, so it is alive (contract of `Driver::submit`).
        let meant: Vec<_> = all.filter(|frame| is_meant(unsafe { frame.as_ref() })).collect();
        for frame in &meant {
            // SAFETY: as above.
            let frame = unsafe { frame.as_ref() };
            frame.cancel_asked.set(true);
            self.cancel(frame);
        }
        meant.len()
    }

    fn needs_turn(&self) -> bool {
        !self.held.is_empty() || !self.completed.is_empty() || self.inner.needs_turn()
    }

    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        let (due, held) = std::mem::take(&mut self.held)
            .into_iter()
            .map(|(turns, frame, fault)| (turns.saturating_sub(1), frame, fault))
            .partition(|(turns, ..)| *turns == 0);
        self.held = held;
        let due: Vec<_> = due;
        for (_, frame, fault) in due {
            if let Some(result) = self.hand_over(frame, fault) {
                self.complete(frame, result);
            }
        }
        let is_idle = self.held.is_empty() && self.completed.is_empty();
        let turned = self.inner.turn(if is_idle { wait } else { Wait::Never });
        self.collect();
        turned
    }

    fn pop_complete(&mut self) -> Option<NonNull<OpFrame>> {
        self.completed.pop_front()
    }

    fn in_flight(&self) -> usize {
        self.held.len() + self.stand_ins.len()
    }

    fn drain(&mut self) {
        for (_, frame, _) in std::mem::take(&mut self.held) {
            self.complete(frame, -Errno::CANCELED.raw_os_error());
        }
        self.inner.drain();
        self.collect();
    }

    fn pollable(&mut self) -> io::Result<OwnedFd> {
        self.inner.pollable()
    }

    fn turn_to_poll(&mut self) -> io::Result<bool> {
        self.turn(Wait::Never)?;
        let is_settled = self.inner.turn_to_poll()?;
        self.collect();
        Ok(is_settled && self.held.is_empty() && self.completed.is_empty())
    }

    fn poll_limit(&self) -> Option<Duration> {
        self.inner.poll_limit()
    }

    fn close_later(&mut self, fd: OwnedFd) {
        self.inner.close_later(fd);
    }

    fn has_armed_multishots(&self) -> bool {
        self.inner.has_armed_multishots()
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn wake(&mut self, target: &Waker) {
        self.inner.wake(target);
    }

    fn remote(&self) -> RemoteHandle {
        self.inner.remote()
    }

    fn note_thread_goes_on(&mut self) {
        self.inner.note_thread_goes_on();
    }

    fn settle_multishot(&mut self, id: MultishotId) -> Option<MultishotItem> {
        self.inner.settle_multishot(id)
    }

    fn await_item(&mut self, id: MultishotId, user: u64) -> bool {
        self.inner.await_item(id, user)
    }

    fn stop_multishot(&mut self, id: MultishotId) -> bool {
        self.inner.stop_multishot(id)
    }

    fn pop_notice(&mut self) -> Option<u64> {
        self.inner.pop_notice()
    }

    fn end_multishot_silently(&mut self, id: MultishotId) {
        self.inner.end_multishot_silently(id);
    }

    fn pool(&mut self) -> &mut Pool {
        self.inner.pool()
    }

    fn has_surplus(&self) -> bool {
        self.inner.has_surplus()
    }

    fn give_back_surplus(&mut self) {
        self.inner.give_back_surplus();
    }

    // Not `register`: a late op could name a number that another region has by then.

    fn is_known_to_wait(&self, fd: RawFd, file: &FixedFile) -> bool {
        self.inner.is_known_to_wait(fd, file)
    }

    fn note_received(&mut self, fd: RawFd, file: &FixedFile, result: i32, len: u32) {
        self.inner.note_received(fd, file, result, len);
    }

    fn release_file(&mut self, file: &FixedFile) -> bool {
        self.inner.release_file(file)
    }

    fn reserve_index(&mut self, file: &FixedFile) -> bool {
        self.inner.reserve_index(file)
    }

    fn install_file(&mut self, file: &FixedFile) -> io::Result<RawFd> {
        self.inner.install_file(file)
    }
}

impl<B: Backend> Drop for Faulty<B> {
    fn drop(&mut self) {
        // The caller's frames get their results, and the stand-ins are out of the kernel.
        self.drain();
    }
}

impl<B: Backend + fmt::Debug> fmt::Debug for Faulty<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner).finish_non_exhaustive()
    }
}
