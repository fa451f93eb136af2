//! Frames in order: waiting frames are linked through `OpFrame::next`, complete frames lie in a
//! ring buffer.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ptr::{self, NonNull};

use crate::op::{OpFrame, OpState};

/// Frames in order of arrival. INVARIANT: every linked frame is alive, by the contract of
/// `Driver::submit`, and is in one list only.
#[derive(Debug)]
pub(crate) struct FrameList {
    head: *const OpFrame,
    tail: *const OpFrame,
}

impl FrameList {
    pub(crate) const fn new() -> Self {
        FrameList { head: ptr::null(), tail: ptr::null() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    #[inline]
    pub(crate) fn push(&mut self, frame: &OpFrame) {
        frame.next.set(ptr::null());
        // SAFETY: a linked frame is alive (invariant of the list).
        match unsafe { self.tail.as_ref() } {
            Some(tail) => tail.next.set(frame),
            None => self.head = frame,
        }
        self.tail = frame;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<NonNull<OpFrame>> {
        // SAFETY: a linked frame is alive (invariant of the list).
        let frame = unsafe { self.head.as_ref() }?;
        self.head = frame.next.get();
        if self.head.is_null() {
            self.tail = ptr::null();
        }
        Some(NonNull::from(frame))
    }

    /// The frames in order, none taken out.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &OpFrame> {
        // SAFETY: a linked frame is alive (invariant of the list).
        let first = unsafe { self.head.as_ref() };
        // SAFETY: as above.
        std::iter::successors(first, |frame| unsafe { frame.next.get().as_ref() })
    }

    /// Takes `frame` out, wherever it is; returns whether it was there. Walks the list.
    pub(crate) fn remove(&mut self, frame: &OpFrame) -> bool {
        let mut before: Option<&OpFrame> = None;
        let mut at = self.head;
        // SAFETY: a linked frame is alive (invariant of the list).
        while let Some(current) = unsafe { at.as_ref() } {
            if ptr::eq(current, frame) {
                match before {
                    Some(before) => before.next.set(current.next.get()),
                    None => self.head = current.next.get(),
                }
                if ptr::eq(self.tail, frame) {
                    self.tail = before.map_or(ptr::null(), ptr::from_ref);
                }
                return true;
            }
            before = Some(current);
            at = current.next.get();
        }
        false
    }
}

/// The frames whose ops are complete, until they are popped.
///
/// A ring buffer of their addresses: a list linked through them would make the CPU wait for each
/// frame, which lies on a stack of its own, before it can load the next.
#[derive(Debug, Default)]
pub(crate) struct Completed(VecDeque<NonNull<OpFrame>>);

/// The room that is kept even if few ops complete.
const KEPT: usize = 16_384;

impl Completed {
    /// Records the result of `frame` and appends it: the one way for an op to become complete.
    #[inline]
    pub(crate) fn complete(&mut self, frame: &OpFrame, result: i32) {
        debug_assert!(!frame.is_complete(), "an op completes once");
        frame.result.set(result);
        frame.state.set(OpState::Complete);
        self.0.push_back(NonNull::from(frame));
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<NonNull<OpFrame>> {
        self.0.pop_front()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Releases memory that a busy time needed.
    #[inline]
    pub(crate) fn give_back_surplus(&mut self) {
        if self.0.is_empty() && self.0.capacity() > KEPT {
            self.0 = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, Wait};
    use crate::op::Op;
    use crate::poll::Poll;
    use crate::uring::tests::open;

    /// Completes many ops at once, pops them, and checks the room that is left after one more turn.
    fn room_after_a_busy_time(completed: &mut Completed, mut turn: impl FnMut(&mut Completed)) {
        let frames: Vec<_> = (0..KEPT * 4).map(|_| OpFrame::new(Op::Nop)).collect();
        frames.iter().for_each(|frame| completed.complete(frame, 0));
        assert!(completed.0.capacity() >= KEPT * 4);
        turn(completed);
        for frame in &frames {
            assert_eq!(completed.pop(), Some(NonNull::from(frame)), "in their order");
        }
        turn(completed);
        let room = completed.0.capacity();
        assert!(room <= KEPT, "room for {room} is kept");
    }

    #[test]
    fn a_turn_of_either_driver_gives_the_room_of_a_busy_time_back() {
        let mut completed = Completed::default();
        if let Some(mut uring) = open() {
            room_after_a_busy_time(&mut completed, |completed| {
                std::mem::swap(uring.completed(), completed);
                uring.turn(Wait::Never).expect("a turn");
                std::mem::swap(uring.completed(), completed);
            });
        }
        let mut poll = Poll::open().expect("epoll works everywhere");
        room_after_a_busy_time(&mut completed, |completed| {
            std::mem::swap(&mut poll.completed, completed);
            poll.turn(Wait::Never).expect("a turn");
            std::mem::swap(&mut poll.completed, completed);
        });
    }
}
