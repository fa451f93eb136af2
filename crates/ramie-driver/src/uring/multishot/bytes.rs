//! The short way of a stream's bytes, from their completion to the strand.
//!
//! Most completions of multishot ops are a part of a large buffer, for an op that goes on, and
//! whose items have all been taken. Each step of the general way decides among many other cases,
//! and moves an item of three words through memory.

use io_uring::cqueue;

use super::{MultishotState, Multishots};
use crate::buffer::{Lease, Size};
use crate::multishot::{MAX_BYTES, MultishotId, MultishotOp, NoBytes};
use crate::uring::buffer_ring::Filled;
use crate::uring::reap::Reaper;

// An op whose only item is a part of a large buffer has less than MAX_BYTES, so it is not paused.
const _: () = assert!(Size::Large.bytes() < MAX_BYTES);

impl Reaper {
    /// Handles a completion of an op.
    #[inline(always)]
    pub(in crate::uring) fn on_completion(&mut self, index: u32, result: i32, flags: u32) {
        if !self.take_in_bytes(index, result, flags) {
            self.on_item(index, result, flags);
        }
    }

    /// Handles the usual completion. Returns false, and changes nothing, if this is another one.
    #[inline(always)]
    fn take_in_bytes(&mut self, index: u32, result: i32, flags: u32) -> bool {
        let Some(op) = self.multishots.at(index) else { return false };
        let Some(filled) = Filled::of(result, flags) else { return false };
        // An op with large buffers is never armed again with others (`note_size`).
        let is_usual = cqueue::more(flags)
            && matches!(op.op, MultishotOp::Receive { .. })
            && op.size == Size::Large
            && !op.is_stopped
            && op.items.is_empty();
        if !is_usual {
            return false;
        }
        let Some(lease) = self.buffers.groups.lease_part(op.size, filled) else { return false };
        op.bytes = lease.len();
        op.items.set_bytes(lease);
        let user = std::mem::take(&mut op.user);
        if user != 0 {
            self.multishots.notices.push_back(user);
        }
        true
    }
}

impl Multishots {
    /// Takes the oldest bytes; if nothing has arrived and the op is armed, records the wake word of
    /// the strand that waits.
    #[inline]
    pub(in crate::uring) fn next_bytes_or_await(
        &mut self,
        id: MultishotId,
        user: u64,
    ) -> Result<Lease, NoBytes> {
        let Some(op) = self.find(id) else { return Err(NoBytes::Other) };
        if let Some(bytes) = op.items.take_bytes() {
            op.bytes -= bytes.len();
            return Ok(bytes);
        }
        if !op.items.is_empty() || op.state == MultishotState::Idle {
            return Err(NoBytes::Other);
        }
        op.user = user;
        Err(NoBytes::Pending)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::*;
    use crate::backend::{Backend, Wait};
    use crate::config::Config;
    use crate::feature::{Feature, FeatureSet};
    use crate::multishot::NextItem;
    use crate::uring::Uring;
    use crate::uring::tests::{skipped, unless_refused};

    /// The wake word of the strand that waits.
    const STRAND: u64 = 7;
    /// Less than a small buffer.
    const PART: usize = Size::Small.bytes() / 4;

    #[test]
    fn bytes_that_are_taken_in_time_never_pause_an_op() {
        // Without incremental buffers, an op begins with small ones.
        let masked = FeatureSet::EMPTY.with(Feature::IncrementalBuffers);
        let config = Config { masked, ..Config::default() };
        let Some(mut uring) = unless_refused(Uring::open(&config)) else { return };
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let op = MultishotOp::Receive { fd: ours.as_raw_fd() };
        let Some(id) = uring.start_multishot(op, &Arc::default()) else {
            return skipped("this kernel has no such ops");
        };
        assert!(matches!(uring.next_bytes_or_await(id, STRAND), Err(NoBytes::Other)), "not armed");
        assert!(matches!(uring.next_item(id), NextItem::Pending), "armed");
        // Parts that do not fill a small buffer go the general way, and are taken by the short one.
        for sent in (0..8 * MAX_BYTES).step_by(PART) {
            let next = uring.next_bytes_or_await(id, STRAND);
            assert!(matches!(next, Err(NoBytes::Pending)), "after {sent} bytes: {next:?}");
            theirs.write_all(&[b'a'; PART]).unwrap();
            uring.turn(Wait::Never).unwrap();
            assert_eq!(uring.pop_notice(), Some(STRAND));
            let bytes = uring.next_bytes_or_await(id, STRAND).unwrap();
            assert_eq!(bytes.len(), PART);
            assert!(bytes.iter().all(|byte| *byte == b'a'));
        }
        assert!(uring.stop_multishot(id));
        let next = uring.next_bytes_or_await(id, STRAND);
        assert!(matches!(next, Err(NoBytes::Other)), "stopped: {next:?}");
    }
}
