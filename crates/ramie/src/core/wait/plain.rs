//! Plain waits: of a fiber for its own op alone.
//!
//! If no deadline and no scope is around a fiber, only the completion of its op ends the wait, and
//! only the fiber's own worker sees that completion. So the fiber begins no wait in its header,
//! where others would look: nobody could end it. The op's frame names the fiber's stack
//! ([`WakeWord::plain`](super::word::WakeWord::plain)), and the worker that pops the frame puts the
//! stack onto its queue. Such a wait costs neither a compare-and-swap nor the header's cache line.
//! The record holds of which kind the wait is, because a worker that gives the fiber up asks for
//! that.

use super::record::WaitRecord;
use crate::core::worker::{FiberStack, Worker};

impl Worker {
    /// The fiber that runs, if only the completion of its op can end its wait for that: no limit
    /// and no scope is around it, and it does not unwind.
    #[inline(always)]
    pub(crate) fn plain_fiber(&self) -> Option<&FiberStack> {
        let here = 0_u8;
        let stack = self.running_fiber()?;
        let is_plain =
            stack.strand.is_empty() && stack.has_on_its_stack(&here) && !std::thread::panicking();
        is_plain.then_some(stack)
    }
}

/// Suspends a fiber in a plain wait. Its op names it to the driver, by
/// [`WakeWord::plain`](super::word::WakeWord::plain).
#[inline(always)]
pub(crate) fn suspend_plainly(stack: &FiberStack, record: &WaitRecord) {
    stack.record.set(record);
    stack.suspend();
    stack.record.set(std::ptr::null());
}
