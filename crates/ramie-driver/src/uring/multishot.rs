//! Multishot ops of a ring; their protocol is in [`crate::multishot`].

mod bytes;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{cqueue, opcode};

use super::buffer_ring::Filled;
use super::buffers::Buffers;
use super::item_queue::ItemQueue;
use super::multishot_item::{NO_BUFFERS, item_of};
use super::reap::Reaper;
use super::ring::Ring;
use super::sqe;
use crate::backend::Wait;
use crate::buffer::Size;
use crate::feature::{Feature, FeatureSet};
use crate::multishot::{
    MAX_BYTES, MAX_ITEMS, MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem,
    Requests,
};
use crate::sys::abi::MessageHeader;
use crate::sys::{self, SockAddrStorage};
use crate::wake::Waker;

/// The time after which a stop repeats its cancel request.
const ROUND: Duration = Duration::from_millis(20);

/// The number of receives in a row that fill a small buffer before large ones are used.
const FULL_IN_A_ROW: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MultishotState {
    Idle,
    Armed,
    /// The cancellation of the op was requested.
    Leaving,
}

/// One multishot op. It fills two lines of the cache, and prefetches fetch both.
#[repr(align(64))]
struct Multishot {
    op: MultishotOp,
    inbox: Arc<MultishotInbox>,
    /// The items that no strand has taken yet.
    items: ItemQueue,
    bytes: usize,
    /// The wake word of the strand that waits; 0 if none waits.
    user: u64,
    state: MultishotState,
    is_stopped: bool,
    /// Whether the kernel had no buffer for the op.
    ran_out: bool,
    /// The size of the buffer group with which the op is armed, or was armed last.
    size: Size,
    /// The size of the buffer group with which the op will be armed next.
    next_size: Size,
    /// The number of receives in a row that have filled a small buffer.
    filled: u8,
}

const _: () = assert!(size_of::<Multishot>() <= 128);

/// The multishot ops of one ring.
pub(super) struct Multishots {
    requests: Arc<Requests>,
    /// INVARIANT: an op that is not idle keeps its index, which its completions carry.
    ops: Vec<(u64, Option<Box<Multishot>>)>,
    free: Vec<u32>,
    /// The number of armed ops.
    armed: usize,
    /// The ops that the next turn pauses if necessary.
    to_pause: Vec<u32>,
    /// The wake words of the strands to wake.
    notices: VecDeque<u64>,
    /// The message header for receives of datagrams; the kernel reads it while they are armed.
    header: Box<MessageHeader>,
}

impl Multishots {
    pub(super) fn new(waker: Waker) -> Self {
        let mut header = MessageHeader::vectored(std::ptr::null_mut(), 0);
        header.name_len = SockAddrStorage::LEN;
        Multishots {
            requests: Requests::new(waker),
            ops: Vec::new(),
            free: Vec::new(),
            armed: 0,
            to_pause: Vec::new(),
            notices: VecDeque::new(),
            header: Box::new(header),
        }
    }

    /// Whether a multishot op has been started since the ring was made.
    #[inline]
    pub(super) fn are_used(&self) -> bool {
        !self.ops.is_empty()
    }

    /// Whether an op has delivered as many items as may wait to be taken.
    pub(super) fn are_too_fast(&self) -> bool {
        !self.to_pause.is_empty()
    }

    /// The number of armed ops.
    pub(super) fn armed(&self) -> usize {
        self.armed
    }

    #[inline]
    fn at(&mut self, index: u32) -> Option<&mut Multishot> {
        self.ops.get_mut(index as usize)?.1.as_deref_mut()
    }

    /// Prefetches the op of a completion that is about to be handled.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        if let Some((_, Some(op))) = self.ops.get(index as usize) {
            sys::prefetch_value::<Multishot>(&raw const **op);
        }
    }

    /// Handles the kernel's answer that it has not found the op to cancel. Returns whether the op
    /// still exists.
    pub(super) fn note_missed(&mut self, index: u32) -> bool {
        let Some(op) = self.at(index).filter(|op| op.state == MultishotState::Leaving) else {
            return false;
        };
        op.state = MultishotState::Armed;
        self.to_pause.push(index);
        true
    }

    /// Pretends that the kernel was asked to cancel the op permanently.
    #[cfg(test)]
    pub(super) fn pretend_to_stop(&mut self, index: u32) {
        let Some(op) = self.at(index) else { return };
        (op.is_stopped, op.state) = (true, MultishotState::Leaving);
    }

    #[inline]
    fn find(&mut self, id: MultishotId) -> Option<&mut Multishot> {
        let is_ours = id.driver == self.requests.driver;
        let (generation, op) = self.ops.get_mut(id.index as usize)?;
        op.as_deref_mut().filter(|op| is_ours && *generation == id.generation && !op.is_stopped)
    }

    fn add(&mut self, op: Box<Multishot>) -> MultishotId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.ops.push((0, None));
            self.ops.len() as u32 - 1
        });
        let (generation, entry) = &mut self.ops[index as usize];
        *generation += 1;
        *entry = Some(op);
        MultishotId { driver: self.requests.driver, index, generation: *generation }
    }

    /// Removes the op; its items go to its inbox, and strands that wait are woken.
    fn remove(&mut self, index: u32) {
        let Some(op) = self.ops[index as usize].1.take() else { return };
        self.free.push(index);
        debug_assert_eq!(op.state, MultishotState::Idle);
        self.notices.extend(op.inbox.leave(op.items));
        if op.user != 0 {
            self.notices.push_back(op.user);
        }
    }

    /// Starts an op, which is idle at first. None if this ring has no such ops, or if another
    /// driver has one for this inbox.
    pub(super) fn start(
        &mut self,
        op: MultishotOp,
        inbox: &Arc<MultishotInbox>,
        features: FeatureSet,
    ) -> Option<MultishotId> {
        let has = |feature| features.has(feature);
        if !has(Feature::Multishot) || (needs_buffers(op) && !has(Feature::BufferRing)) {
            return None;
        }
        let size = match op {
            MultishotOp::ReceiveFrom { .. } => Size::Datagram,
            _ if has(Feature::IncrementalBuffers) => Size::Large,
            _ => Size::Small,
        };
        let id = self.add(Box::new(Multishot {
            op,
            inbox: Arc::clone(inbox),
            items: ItemQueue::default(),
            bytes: 0,
            user: 0,
            state: MultishotState::Idle,
            is_stopped: false,
            ran_out: false,
            size,
            next_size: size,
            filled: 0,
        }));
        if inbox.adopt(&self.requests, id) {
            return Some(id);
        }
        self.ops[id.index as usize].1 = None;
        self.free.push(id.index);
        None
    }

    /// Records the wake word of the strand that waits for the next item. Returns false if the
    /// strand must not wait: there is an item, or the op must be armed again, or it was removed.
    pub(super) fn await_item(&mut self, id: MultishotId, user: u64) -> bool {
        match self.find(id) {
            Some(op) if op.items.is_empty() && op.state != MultishotState::Idle => {
                op.user = user;
                true
            }
            _ => false,
        }
    }

    fn take_item(&mut self, id: MultishotId) -> Option<MultishotItem> {
        let op = self.find(id)?;
        let item = op.items.pop_front()?;
        op.bytes -= item.bytes();
        Some(item)
    }

    /// Removes and returns the wake word of the next strand to wake, as `await_item` or
    /// `MultishotInbox::request_stop` recorded it.
    pub(super) fn pop_notice(&mut self) -> Option<u64> {
        self.notices.pop_front()
    }

    pub(super) fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    fn is_armed(&mut self, id: MultishotId) -> bool {
        self.find(id).is_some_and(|op| op.state == MultishotState::Armed)
    }

    /// Whether the op still exists; it may be stopped.
    fn is_there(&self, id: MultishotId) -> bool {
        let (generation, op) = &self.ops[id.index as usize];
        *generation == id.generation && op.is_some()
    }

    /// Removes an idle op if it was stopped.
    fn settle(&mut self, index: u32) {
        if self.at(index).is_some_and(|op| op.is_stopped) {
            self.remove(index);
        }
    }
}

fn needs_buffers(op: MultishotOp) -> bool {
    matches!(op, MultishotOp::Receive { .. } | MultishotOp::ReceiveFrom { .. })
}

impl Reaper {
    /// As [`on_completion`](Self::on_completion), for every completion.
    #[inline(never)]
    pub(super) fn on_item(&mut self, index: u32, result: i32, flags: u32) {
        let Some(op) = self.multishots.at(index) else {
            sys::fatal("a completion of an op that is gone")
        };
        if !cqueue::more(flags) {
            op.state = MultishotState::Idle;
        }
        let (size, is_idle) = (op.size, op.state == MultishotState::Idle);
        op.ran_out |= result == -NO_BUFFERS;
        let mut take = |lease| {
            if let Some(item) = item_of(op.op, result, lease) {
                op.take_in(item);
            }
        };
        match Filled::of(result, flags) {
            Some(filled) => self.buffers.groups.lease_each(size, filled, |lease| take(Some(lease))),
            None => take(None),
        }
        let (is_full, user) = (op.is_to_pause(), op.user);
        let is_told = user != 0 && (is_idle || !op.items.is_empty());
        if is_told {
            op.user = 0;
        }
        self.multishots.armed -= usize::from(is_idle);
        if is_told {
            self.multishots.notices.push_back(user);
        }
        if is_idle {
            self.multishots.settle(index);
        } else if is_full {
            self.multishots.to_pause.push(index);
        }
    }
}

impl Ring {
    /// Takes the next item; if there is none, arms the op.
    pub(super) fn next_item(&mut self, id: MultishotId) -> NextItem {
        let multishots = &mut self.reaper.multishots;
        if let Some(item) = multishots.take_item(id) {
            return NextItem::Item(item);
        }
        let Some(op) = multishots.find(id) else { return NextItem::Gone };
        if op.state != MultishotState::Idle {
            return NextItem::Pending;
        }
        op.size = op.next_size;
        let (what, size) = (op.op, op.size);
        let ran_out = std::mem::take(&mut op.ran_out);
        if needs_buffers(what) {
            let kind = (size, self.features.has(Feature::IncrementalBuffers));
            let Buffers { pool, groups } = &mut self.reaper.buffers;
            if !groups.prepare(&self.queue.ring, pool, kind, ran_out) {
                return NextItem::NoBuffers;
            }
        }
        self.arm(id.index, what, size);
        NextItem::Pending
    }

    fn arm(&mut self, index: u32, op: MultishotOp, size: Size) {
        let group = size as u16;
        let entry = match op {
            MultishotOp::Receive { fd } if self.is_bundled(size) => {
                opcode::RecvMultiBundle::new(Fd(fd), group).build()
            }
            MultishotOp::Receive { fd } => opcode::RecvMulti::new(Fd(fd), group).build(),
            MultishotOp::ReceiveFrom { fd } => {
                let header = (&raw const *self.reaper.multishots.header).cast();
                opcode::RecvMsgMulti::new(Fd(fd), header, group).build()
            }
            MultishotOp::Accept { fd, flags } => {
                opcode::AcceptMulti::new(Fd(fd)).flags(flags).build()
            }
            MultishotOp::Poll { fd, events } => {
                opcode::PollAdd::new(Fd(fd), events).multi(true).build()
            }
        };
        if let Some(op) = self.reaper.multishots.at(index) {
            op.state = MultishotState::Armed;
        }
        self.reaper.multishots.armed += 1;
        self.push(&entry.user_data(sqe::of_multishot(index)));
    }

    /// Pauses the ops that the reaper has recorded, and offers returned buffers to the kernel.
    pub(super) fn tend_multishots(&mut self) {
        while let Some(index) = self.reaper.multishots.to_pause.pop() {
            if self.reaper.multishots.at(index).is_some_and(|op| op.is_to_pause()) {
                self.leave(index);
            }
        }
        self.reaper.buffers.reclaim();
    }

    /// Stops the ops whose stop other threads have requested. Called after a wake.
    pub(super) fn stop_as_requested(&mut self) {
        for id in self.reaper.multishots.requests.take() {
            self.begin_stop(id);
        }
    }

    /// Asks the kernel to cancel an armed op.
    fn leave(&mut self, index: u32) {
        if let Some(op) = self.reaper.multishots.at(index) {
            op.state = MultishotState::Leaving;
        }
        let cancel = opcode::AsyncCancel::new(sqe::of_multishot(index)).build();
        self.push(&cancel.user_data(sqe::of_leaving(index)));
    }

    fn begin_stop(&mut self, id: MultishotId) {
        let Some(op) = self.reaper.multishots.find(id) else { return };
        op.is_stopped = true;
        match op.state {
            MultishotState::Idle => self.reaper.multishots.remove(id.index),
            MultishotState::Armed => self.leave(id.index),
            MultishotState::Leaving => {}
        }
    }

    /// Stops an op and waits for its last completion; afterwards its items are in its inbox.
    /// Returns false if another driver has the op.
    pub(super) fn stop_multishot(&mut self, id: MultishotId) -> bool {
        if id.driver != self.reaper.multishots.requests.driver {
            return false;
        }
        self.begin_stop(id);
        if self.reaper.multishots.is_there(id) {
            // Completions that arrive meanwhile are reported by the next turn, which must not wait
            // therefore.
            self.reaper.wakes.note_woken();
        }
        while self.reaper.multishots.is_there(id) {
            self.wait_or_die(Wait::Until(Some(ROUND)));
            if self.reaper.multishots.is_there(id) {
                self.leave(id.index);
            }
        }
        if self.reaper.multishots.has_notices() {
            self.reaper.wakes.note_woken();
        }
        true
    }

    /// Stops every op. Called by the drain.
    pub(super) fn stop_all_multishots(&mut self) {
        for index in 0..self.reaper.multishots.ops.len() as u32 {
            let driver = self.reaper.multishots.requests.driver;
            let generation = self.reaper.multishots.ops[index as usize].0;
            self.begin_stop(MultishotId { driver, index, generation });
            if self.reaper.multishots.at(index).is_some() {
                self.leave(index);
            }
        }
    }

    /// Ensures that the kernel has looked up the op's descriptor, and takes an item if there is
    /// one.
    pub(super) fn settle_multishot(&mut self, id: MultishotId) -> Option<MultishotItem> {
        if self.reaper.multishots.is_armed(id) {
            self.flush();
        }
        self.reaper.multishots.take_item(id)
    }

    /// Ends an op without notice, as the kernel may do. An injected fault.
    pub(super) fn end_multishot_silently(&mut self, id: MultishotId) {
        if self.reaper.multishots.is_armed(id) {
            self.leave(id.index);
        }
    }
}

impl Multishot {
    /// Whether the op must be cancelled in the kernel: permanently, until its items are taken, or
    /// to be armed with another group.
    fn is_to_pause(&self) -> bool {
        let is_full = self.items.len() >= MAX_ITEMS || self.bytes >= MAX_BYTES;
        let is_to_leave = self.is_stopped || is_full || self.next_size != self.size;
        self.state == MultishotState::Armed && is_to_leave
    }

    fn take_in(&mut self, item: MultishotItem) {
        self.note_size(&item);
        self.bytes += item.bytes();
        // Readiness is a state, so the newest report replaces the one before it.
        if let (MultishotItem::Ready(mask), Some(MultishotItem::Ready(before))) =
            (&item, self.items.back_mut())
        {
            *before |= mask;
        } else {
            self.items.push_back(item);
        }
    }

    /// Chooses the buffer size for the next time that the op is armed.
    fn note_size(&mut self, item: &MultishotItem) {
        if self.size != Size::Small {
            return;
        }
        self.filled = if item.bytes() == Size::Small.bytes() { self.filled + 1 } else { 0 };
        if self.filled >= FULL_IN_A_ROW {
            self.next_size = Size::Large;
        }
    }
}
