//! The ring as a backend of a driver.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use super::Uring;
use crate::backend::{Backend, Submitted, Wait};
use crate::buffer::Pool;
use crate::caps::Caps;
use crate::fixed::FixedFile;
use crate::multishot::{MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem};
use crate::op::OpFrame;
use crate::region::Region;
use crate::wake::Waker;

impl Backend for Uring {
    fn caps(&self) -> &Caps {
        self.caps()
    }

    #[inline]
    fn submit(&mut self, frame: &OpFrame) -> Submitted {
        self.submit(frame)
    }

    #[inline]
    fn attach(&mut self, frame: &OpFrame, file: &FixedFile) {
        frame.slot.set(self.slot_of(file, &frame.op));
    }

    fn cancel(&mut self, frame: &OpFrame) {
        self.cancel(frame);
    }

    fn cancel_all(&mut self, is_meant: impl Fn(&OpFrame) -> bool) -> usize {
        self.cancel_all(is_meant)
    }

    fn close_later(&mut self, fd: OwnedFd) {
        self.close_later(fd);
    }

    #[inline]
    fn needs_turn(&self) -> bool {
        self.needs_turn()
    }

    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        self.turn(wait)
    }

    #[inline]
    fn pop_complete(&mut self) -> Option<NonNull<OpFrame>> {
        self.completed.pop()
    }

    fn in_flight(&self) -> usize {
        self.in_flight()
    }

    fn has_armed_multishots(&self) -> bool {
        self.has_armed_multishots()
    }

    fn waker(&self) -> Waker {
        self.waker()
    }

    fn wake(&mut self, target: &Waker) {
        self.wake(target);
    }

    fn drain(&mut self) {
        self.drain();
    }

    fn note_thread_goes_on(&mut self) {
        self.note_thread_goes_on();
    }

    fn start_multishot(
        &mut self,
        op: MultishotOp,
        inbox: &Arc<MultishotInbox>,
    ) -> Option<MultishotId> {
        self.start_multishot(op, inbox)
    }

    fn next_item(&mut self, id: MultishotId) -> NextItem {
        self.next_item(id)
    }

    fn settle_multishot(&mut self, id: MultishotId) -> Option<MultishotItem> {
        self.settle_multishot(id)
    }

    fn await_item(&mut self, id: MultishotId, user: u64) -> bool {
        self.await_item(id, user)
    }

    fn stop_multishot(&mut self, id: MultishotId) -> bool {
        self.stop_multishot(id)
    }

    #[inline]
    fn pop_notice(&mut self) -> Option<u64> {
        self.pop_notice()
    }

    fn end_multishot_silently(&mut self, id: MultishotId) {
        self.end_multishot_silently(id);
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn has_surplus(&self) -> bool {
        self.has_surplus()
    }

    fn give_back_surplus(&mut self) {
        self.give_back_surplus();
    }

    fn register(&mut self, region: &Arc<Region>) -> Option<u16> {
        self.register(region)
    }

    fn release_file(&mut self, file: &FixedFile) -> bool {
        self.release(file)
    }

    fn reserve_place(&mut self, file: &FixedFile) -> bool {
        self.reserve(file)
    }

    fn install_file(&mut self, file: &FixedFile) -> io::Result<RawFd> {
        self.install(file)
    }
}
