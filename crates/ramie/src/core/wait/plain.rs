//! Plain waits: of a fiber for its own op alone.
//!
//! A fiber with no deadline and no scope around it has nothing to wait for but the completion of
//! its op, and that its own worker alone sees. So it begins no wait in its slot, which others may
//! look at: nobody could end it. The op's frame names the fiber's body ([`body_bits`]), and the
//! worker that pops the frame puts the body onto its queue. Such a wait costs neither a
//! compare-and-swap nor the slot's cache line. The record says of which kind it is, because the
//! worker that gives the fiber up asks for that.

use super::park::WaitRecord;
use crate::core::worker::{Body, Worker};

impl Worker {
    /// The fiber that runs, if nothing but the end of its op can end its wait for that: no limit
    /// and no scope is around it, and it does not unwind.
    #[inline(always)]
    pub(crate) fn plain_fiber(&self) -> Option<&Body> {
        let here = 0_u8;
        let body = self.running_fiber()?;
        let is_plain =
            body.strand.is_empty() && body.has_on_its_stack(&here) && !std::thread::panicking();
        is_plain.then_some(body)
    }
}

/// Suspends a fiber that its own worker, and nobody else, will put onto the run queue.
#[inline(always)]
pub(crate) fn suspend_plainly(body: &Body, record: &WaitRecord) {
    body.record.set(record);
    body.suspend();
    body.record.set(std::ptr::null());
}

/// What the driver knows a fiber in a plain wait by: where its body is. (The bits of a
/// [`WakeRef`](crate::core::strand::WakeRef) begin with a one, addresses do not; and a body lies on
/// its stack, not at 1.)
#[inline(always)]
pub(crate) fn body_bits(body: &Body) -> u64 {
    std::ptr::from_ref(body).expose_provenance() as u64
}

/// The body that [`body_bits`] has put down.
#[inline(always)]
pub(crate) fn body_of(bits: u64) -> *const Body {
    std::ptr::with_exposed_provenance(bits as usize)
}
