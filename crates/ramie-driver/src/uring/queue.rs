//! A ring's submission queue, and the ways to enter the kernel for it.
//!
//! This module handles entries and the threads that submit them. [`Ring`](super::ring::Ring) and
//! [`Reaper`](super::reap::Reaper) know the op of an entry and of a completion.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::cqueue::CompletionStatus;
use io_uring::{EnterFlags, IoUring};
use rustix::io::Errno;

use super::counts::RingCounts;
use super::registered_ring::RegisteredRing;
use super::submitter_thread::SubmitterThread;
use crate::caps::Caps;
use crate::submitter::Submitter;
use crate::sys;
use crate::sys::abi::Timespec;

/// The time for which ops wait for further ops while fibers run, so that one enter submits them
/// all, unless [`early`](super::early) submits them before. An enter costs some 300 ns, and evicts
/// cache lines that the fibers use.
const GATHERING: Duration = Duration::from_micros(20);

/// Ops that wait for further ops in order to enter the kernel together; none if `len` is 0.
#[derive(Clone, Copy, Debug, Default)]
struct Gathering {
    since: u64,
    len: usize,
}

/// A ring's queues, and the ways into the kernel.
pub(super) struct Queue {
    pub(super) ring: IoUring,
    pub(super) registered_ring: RegisteredRing,
    /// INVARIANT: belongs to `ring`, which is dropped later.
    status: CompletionStatus,
    /// The thread that submits while the worker is busy, if it is not the worker.
    pub(super) submitter_thread: Option<SubmitterThread>,
    /// Whether a kernel thread empties the queue, and may have to be woken.
    has_kernel_thread: bool,
    /// Whether a wait takes its timeout as an argument.
    pub(super) takes_timeouts: bool,
    /// The ops that were in the queue at the last call of `needs_enter`.
    gathering: Cell<Gathering>,
    pub(super) counts: Arc<RingCounts>,
}

impl Queue {
    pub(super) fn new(mut ring: IoUring, registered_ring: RegisteredRing, caps: &Caps) -> Self {
        // SAFETY: the status is stored in the same struct as the ring, which is dropped later
        // (invariant of the field).
        let status = unsafe { ring.completion().status() };
        Queue {
            ring,
            registered_ring,
            status,
            submitter_thread: None,
            has_kernel_thread: matches!(caps.submitter, Submitter::KernelThread { .. }),
            takes_timeouts: caps.ext_arg(),
            gathering: Cell::default(),
            counts: RingCounts::of_new_ring(),
        }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    #[inline]
    pub(super) fn has_completions(&self) -> bool {
        !self.status.is_empty()
    }

    pub(super) fn is_empty(&mut self) -> bool {
        self.ring.submission().is_empty()
    }

    /// Whether the kernel holds back completions because the queue was full.
    pub(super) fn has_overflowed(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Whether an enter that does not wait would have any effect.
    pub(super) fn kernel_has_work(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Whether a busy worker should enter the kernel now.
    #[inline]
    pub(super) fn needs_enter(&self) -> bool {
        // SAFETY: `&self` is the only reference (the driver is not `Sync`), and every other use
        // of the queue is confined to a call with `&mut self`.
        let queue = unsafe { self.ring.submission_shared() };
        if queue.taskrun() || queue.cq_overflow() {
            return true;
        }
        !queue.is_empty()
            && (queue.len() * 2 >= queue.capacity() || self.ends_gathering(queue.len()))
    }

    /// Records that `len` ops are in the queue, and returns whether they need not wait for more:
    /// because no op was added since the last call, or there is only one, or they have waited long
    /// enough.
    fn ends_gathering(&self, len: usize) -> bool {
        if self.submitter_thread.is_some() {
            return false;
        }
        let before = self.gathering.get();
        if len <= before.len.max(1) {
            return true;
        }
        let now = sys::monotonic_ns();
        let since = if before.len == 0 { now } else { before.since };
        self.gathering.set(Gathering { since, len });
        now - since >= GATHERING.as_nanos() as u64
    }

    /// Records that the ops in the queue are submitted; later ops start a new group.
    pub(super) fn forget_gathering(&self) {
        self.gathering.take();
    }

    /// Submits the queued entries and waits for `least` completions.
    pub(super) fn enter(&mut self, least: u32, limit: Option<&Timespec>) -> Result<u32, Errno> {
        let queue = self.ring.submission();
        let len = queue.len() as u32;
        let sleeps = self.has_kernel_thread && queue.need_wakeup();
        let flags = if sleeps { EnterFlags::SQ_WAKEUP } else { EnterFlags::empty() };
        self.registered_ring.enter((len, least), flags, limit)
    }

    /// Announces an entry to the thread that submits, and wakes that thread if it sleeps.
    #[cold]
    pub(super) fn wake_submitter_thread(&mut self) {
        match &self.submitter_thread {
            None => {}
            Some(SubmitterThread::Sidecar(sidecar)) => sidecar.post(),
            Some(SubmitterThread::Kernel) => self.wake_kernel_thread(),
        }
    }

    pub(super) fn wake_kernel_thread(&mut self) {
        // `need_wakeup` contains a fence, so either the thread sees the entry, or this worker sees
        // that the thread sleeps.
        if !self.ring.submission().need_wakeup() {
            return;
        }
        self.counts.worker.enters.add_one();
        if let Err(error) = self.ring.submit() {
            sys::fatal(&format!("the ring's kernel thread cannot be woken ({error})"));
        }
    }

    /// Whether a thread of the kernel submits the entries.
    pub(super) fn is_emptied_by_kernel(&self) -> bool {
        matches!(self.submitter_thread, Some(SubmitterThread::Kernel))
    }

    /// Ends the thread that submits; from then on the worker submits. Called when no op of a caller
    /// is in flight.
    pub(super) fn end_submitter_thread(&mut self) {
        if let Some(SubmitterThread::Sidecar(mut sidecar)) = self.submitter_thread.take() {
            sidecar.end();
        }
    }
}
