//! The calls that every backend of a driver has: io_uring, polling, and the wrapper that injects
//! faults.
//!
//! [`Driver`](crate::Driver) has one of them and calls it by a `match` (`driver/any_backend.rs`),
//! so that each call inlines. A default body is that of a backend without the feature: no multishot
//! ops, no file table, no registered memory.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::buffer::{Lease, Pool};
use crate::caps::Caps;
use crate::fixed::FixedFile;
use crate::multishot::{
    MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem, NoBytes,
};
use crate::op::{Op, OpFrame};
use crate::region::Region;
use crate::remote::RemoteHandle;
use crate::wake::Waker;

/// The state of an op after its submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Submitted {
    /// It will come out of [`Driver::pop_complete`](crate::Driver::pop_complete).
    InFlight,
    /// The result is in the frame, which will *not* come out of `pop_complete`.
    Complete,
}

/// How long [`Driver::turn`](crate::Driver::turn) may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Never,
    /// Until something completes or a wake arrives; at most this long if a duration is given.
    Until(Option<Duration>),
}

/// A backend. Each method is documented at the method of the same name of
/// [`Driver`](crate::Driver), which has checked that this process is not the child of a fork.
pub(crate) trait Backend {
    fn caps(&self) -> &Caps;

    /// The frame is alive until it is popped or complete (contract of `Driver::submit`).
    fn submit(&mut self, frame: &OpFrame) -> Submitted;

    /// As [`submit`](Self::submit); `op` is the frame's op.
    #[inline]
    fn submit_known(&mut self, frame: &OpFrame, _op: Op) -> Submitted {
        self.submit(frame)
    }

    /// Notes, in a frame that is submitted next, the index or the registration that the backend
    /// keeps beside the op's descriptor.
    fn attach(&mut self, frame: &OpFrame, file: &FixedFile);

    /// Asks that an op in flight be cancelled. Called once for a frame.
    fn cancel(&mut self, frame: &OpFrame);

    /// Asks that an op be cancelled, unless it is complete or was asked for before.
    fn cancel_once(&mut self, frame: &OpFrame) {
        if !frame.is_complete() && !frame.cancel_asked.replace(true) {
            self.cancel(frame);
        }
    }

    /// Cancels every op for which `is_meant` returns true, and returns their number.
    fn cancel_all(&mut self, is_meant: impl Fn(&OpFrame) -> bool) -> usize;

    fn close_later(&mut self, fd: OwnedFd) {
        drop(fd);
    }

    fn needs_turn(&self) -> bool;

    fn turn(&mut self, wait: Wait) -> io::Result<()>;

    fn pop_complete(&mut self) -> Option<NonNull<OpFrame>>;

    fn in_flight(&self) -> usize;

    fn has_armed_multishots(&self) -> bool {
        false
    }

    fn waker(&self) -> Waker;

    fn wake(&mut self, target: &Waker) {
        target.wake();
    }

    fn drain(&mut self);

    fn pollable(&mut self) -> io::Result<OwnedFd>;

    fn turn_to_poll(&mut self) -> io::Result<bool>;

    /// How long a wait elsewhere may last although no event arrives.
    fn poll_limit(&self) -> Option<Duration> {
        None
    }

    fn remote(&self) -> RemoteHandle {
        RemoteHandle(None)
    }

    fn note_thread_goes_on(&mut self) {}

    // Multishot ops.

    fn start_multishot(
        &mut self,
        _op: MultishotOp,
        _inbox: &Arc<MultishotInbox>,
    ) -> Option<MultishotId> {
        None
    }

    fn next_item(&mut self, _id: MultishotId) -> NextItem {
        NextItem::Gone
    }

    /// As `Driver::next_bytes_or_await`; by default the caller asks `next_item`.
    fn next_bytes_or_await(&mut self, _id: MultishotId, _user: u64) -> Result<Lease, NoBytes> {
        Err(NoBytes::Other)
    }

    fn settle_multishot(&mut self, _id: MultishotId) -> Option<MultishotItem> {
        None
    }

    fn await_item(&mut self, _id: MultishotId, _user: u64) -> bool {
        false
    }

    fn stop_multishot(&mut self, _id: MultishotId) -> bool {
        false
    }

    fn pop_notice(&mut self) -> Option<u64> {
        None
    }

    /// Lets an op end without notice, as the kernel may.
    fn end_multishot_silently(&mut self, _id: MultishotId) {}

    // Buffers and memory.

    fn pool(&mut self) -> &mut Pool;

    fn has_surplus(&self) -> bool;

    fn give_back_surplus(&mut self);

    fn register(&mut self, _region: &Arc<Region>) -> Option<u16> {
        None
    }

    /// Whether it is known, without a system call, that a receive would find nothing.
    fn is_known_to_wait(&self, _fd: RawFd, _file: &FixedFile) -> bool {
        false
    }

    /// Notes the result of a receive into `len` bytes that the caller made itself.
    fn note_received(&mut self, _fd: RawFd, _file: &FixedFile, _result: i32, _len: u32) {}

    // The table of files.

    /// Releases the file's index. False: it has none here.
    fn release_file(&mut self, _file: &FixedFile) -> bool {
        false
    }

    fn reserve_index(&mut self, _file: &FixedFile) -> bool {
        false
    }

    fn install_file(&mut self, _file: &FixedFile) -> io::Result<RawFd> {
        Err(Errno::BADF.into())
    }
}
