//! Ending the I/O calls of other strands, and messages to other rings.
#![allow(unsafe_code)]

use std::{io, os::fd::AsFd};

use ramie_driver::Call;

use crate::{
    core::{wait::park::WaitKind, worker},
    op::call::{make_at_once, raw},
};

static MESSAGE: WaitKind = WaitKind::of_op("a message to be in another ring");

/// Ends every call that waits for this descriptor on this worker, and returns their number:
/// `async_cancel` by descriptor, since Linux 5.19; before that, one op at a time.
///
/// Such a call fails with `ECANCELED`, unless it has its result already. Calls on other workers
/// continue, so use [`shutdown`](super::shutdown) for a connection that several workers use. To end
/// one call, or all calls in a closure, use a scope around it
/// ([`cancel::scope`](crate::cancel::scope)).
///
/// # Blocking
/// Never. The other strands return when they run next.
///
/// # Examples
/// ```
/// use ramie::{fiber, ring};
///
/// ramie::run(|| {
///     let (from, _to) = ring::pipe()?;
///     fiber::scope(|s| {
///         let reader = s.spawn_local(|| ring::read(&from, &mut [0], None));
///         while ring::cancel_fd(&from) == 0 {
///             fiber::yield_now();
///         }
///         assert_eq!(reader.join().unwrap().unwrap_err().raw_os_error(), Some(125));
///     });
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn cancel_fd(fd: impl AsFd) -> usize {
    cancel_on(Some(raw(&fd)))
}

/// Ends every call of any strand that waits in the driver of this worker, and returns their number:
/// `async_cancel`, one op at a time.
///
/// The calls fail with `ECANCELED`, as for [`cancel_fd`]. Waits within the program (locks,
/// channels, sleeps) continue.
///
/// # Blocking
/// Never. The other strands return when they run next.
pub fn cancel_all() -> usize {
    cancel_on(None)
}

fn cancel_on(fd: Option<i32>) -> usize {
    // Without a driver there is no op to end.
    worker::current().io.with_driver(|driver| driver.cancel_on(fd)).unwrap_or(0)
}

/// Posts a completion with the given result and user data to another ring: `msg_ring`, a ring's op
/// since Linux 5.18. If this worker has no ring, the call makes one for the message.
///
/// # Blocking
/// Parks the strand until the completion has been posted.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of the op, among them `EBADF` and `EBADFD`: the descriptor is no ring; `EOVERFLOW`: the
/// ring is full.
///
/// # Safety
/// The owner of the ring must accept `data`. If the owner converts user data to pointers, as Ramie
/// does, `data` must be a value that the owner expects.
#[track_caller]
pub unsafe fn msg_ring(ring: impl AsFd, result: i32, data: u64) -> io::Result<()> {
    // SAFETY: the call points to nothing; the caller promises that the ring's owner accepts the
    // data.
    unsafe { make_at_once(&MESSAGE, &Call::Message { ring: raw(&ring), result, data }) }.map(drop)
}
