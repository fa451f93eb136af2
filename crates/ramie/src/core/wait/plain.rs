//! Plain waits: a fiber waits for its own op alone.
//!
//! If no deadline and no scope is around a fiber, only the completion of its op ends the wait, and
//! only the fiber's own worker sees that completion. So the fiber does not begin a wait in its
//! header, because no other thread could end it. The op's frame names the fiber's stack
//! ([`WakeWord::plain`](super::word::WakeWord::plain)), and the worker that pops the frame puts the
//! stack onto its queue. Such a wait costs neither a compare-and-swap nor the header's cache line.
//! The record holds the kind of the wait, because a worker that abandons the fiber needs it.

use super::record::WaitRecord;
use crate::core::worker::{FiberStack, RunningStrand};

impl RunningStrand {
    /// The running fiber, if only the completion of its op can end its wait: no limit and no scope
    /// is around the fiber, and it does not unwind.
    #[inline(always)]
    pub(crate) fn plain_fiber(&self) -> Option<&FiberStack> {
        let here = 0_u8;
        let stack = self.fiber()?;
        let is_plain =
            stack.strand.is_empty() && stack.has_on_its_stack(&here) && !std::thread::panicking();
        is_plain.then_some(stack)
    }
}

/// Suspends a fiber in a plain wait. Its op names the fiber to the driver by
/// [`WakeWord::plain`](super::word::WakeWord::plain).
#[inline(always)]
pub(crate) fn suspend_plainly(running: &RunningStrand, stack: &FiberStack, record: &WaitRecord) {
    record.since_ms.set(running.now_ms());
    stack.record.set(record);
    running.recorder.note_waits(stack, record);
    stack.suspend();
    running.recorder.note_op_awaited(stack, record);
    stack.record.set(std::ptr::null());
}
