//! Ending the waits of other strands, by descriptor or all; messages to rings of other code.
#![allow(unsafe_code)]

use std::{io, os::fd::AsFd};

use ramie_driver::Call;

use crate::{
    core::{wait::park::WaitKind, worker},
    op::call::{make_at_once, raw},
};

static MESSAGE: WaitKind = WaitKind::new("a message to be in another ring");

/// Ends every call that waits on this worker for that descriptor: `async_cancel` by descriptor, a
/// ring's since Linux 5.19, and one op at a time before. Returns their number.
///
/// Such a call fails with `ECANCELED`, unless it has its result already. Calls of other workers
/// continue, so a connection that several workers use is best ended by
/// [`shutdown`](super::shutdown). To end one call, or all calls in a closure, use a scope around it
/// ([`cancel::scope`](crate::cancel::scope)).
///
/// # Blocking
/// Never: the other strands return when they are scheduled.
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

/// Ends every call that waits in the driver of this worker, on any strand: `async_cancel` of all,
/// one op at a time. Returns their number.
///
/// They fail with `ECANCELED`, as for [`cancel_fd`]. Waits within the program (locks, channels,
/// sleeps) continue.
///
/// # Blocking
/// Never: the other strands return when they are scheduled.
pub fn cancel_all() -> usize {
    cancel_on(None)
}

fn cancel_on(fd: Option<i32>) -> usize {
    // No driver, no op.
    worker::current().io.with_driver(|driver| driver.cancel_on(fd)).unwrap_or(0)
}

/// Puts a completion with this result and this word into another ring: `msg_ring`, a ring's op
/// since Linux 5.18. Without it a ring is made for the one message.
///
/// # Blocking
/// Parks the strand until the completion has been posted.
///
/// # Cancellation
/// A cancel point before the start; once begun, the op is waited for, and its own result is
/// returned.
///
/// # Errors
/// Those of the op: among them `EBADF` and `EBADFD` if the descriptor is no ring, `EOVERFLOW` if
/// the ring is full.
///
/// # Safety
/// The ring's owner accepts any word: the ring is none of Ramie's, nor of an owner that converts
/// such words to pointers, unless the word is one that it expects.
#[track_caller]
pub unsafe fn msg_ring(ring: impl AsFd, result: i32, data: u64) -> io::Result<()> {
    // SAFETY: it points to nothing; the caller vouches for the meaning of the word.
    unsafe { make_at_once(&MESSAGE, &Call::Message { ring: raw(&ring), result, data }) }.map(drop)
}
