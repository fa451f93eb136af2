//! A ring: its submission queue, and the ops to which its completions belong.
//!
//! When the queue is full, its entries are submitted to the kernel; while the kernel is busy,
//! completions are read to make room. So pushing an entry may reap, and needs both parts of the
//! ring. Reaping never pushes, and needs only the [`Reaper`].
#![allow(unsafe_code)]

use std::io;
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use rustix::io::Errno;

use super::early::Early;
use super::queue::Queue;
use super::reap::Reaper;
use super::sqe;
use crate::backend::Wait;
use crate::feature::FeatureSet;
use crate::sys;

/// The largest number of times that a turn asks for more deferred completions.
const MAX_ROUNDS: usize = 8;

/// A year; longer waits are shortened to it.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// A ring and its ops in flight.
pub(super) struct Ring {
    pub(super) queue: Queue,
    pub(super) reaper: Reaper,
    pub(super) early: Early,
    /// The features of the kernel that this ring uses.
    pub(super) features: FeatureSet,
}

impl Ring {
    /// Puts an entry into the submission queue; if the queue is full, submits all entries first.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: &Entry) {
        let mut entries = self.queue.ring.submission();
        // Before the push, so that the push cannot fail and the entry need not be kept for another
        // attempt.
        if entries.is_full() {
            drop(entries);
            self.flush();
            entries = self.queue.ring.submission();
        }
        // SAFETY: entries are built from ops whose memory the submitter keeps valid (contract of
        // `Driver::submit`), or from the count of `Wakes`, which outlives its read.
        let pushed = unsafe { entries.push(entry) };
        // Dropping the handle to the entries writes the tail of the queue.
        drop(entries);
        if pushed.is_err() {
            sys::fatal("a submission queue that was emptied has no room");
        }
        if self.queue.submitter_thread.is_some() {
            self.queue.wake_submitter_thread();
        }
    }

    /// Submits all entries of the queue, however often the kernel is busy.
    #[cold]
    pub(super) fn flush(&mut self) {
        while !self.queue.is_empty() {
            if self.queue.is_emptied_by_kernel() {
                self.queue.wake_kernel_thread();
                // Before Linux 5.15, the thread takes no entries while completions overflow.
                self.reap();
                // The kernel thread may need this CPU.
                rustix::thread::sched_yield();
                continue;
            }
            if let Err(error) = self.enter(Wait::Never) {
                sys::fatal(&format!("the ring takes no more ops ({error})"));
            }
        }
    }

    /// Reads every completion that is in the queue. Returns whether there was one.
    pub(super) fn reap(&mut self) -> bool {
        self.reaper.reap(&mut self.queue.ring)
    }

    /// Submits, and waits if `wait` says so. An interruption and a timeout count as success; a busy
    /// kernel is asked again.
    ///
    /// The retries end: `EBUSY` means that the completion queue is full, so reading it finds
    /// completions, and the call returns. `EAGAIN` means that the kernel could not allocate the few
    /// KiB of a request. The kernel waits for memory before it returns `EAGAIN`, and each retry
    /// lets other threads run.
    pub(super) fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let mut busy_since = None;
        let was_idle = self.reaper.is_idle();
        loop {
            self.queue.counts.worker.enters.add_one();
            let entered = match wait {
                Wait::Never => self.queue.enter(0, None),
                Wait::Until(None) => self.queue.enter(1, None),
                Wait::Until(Some(limit)) => self.enter_for(limit.min(LONGEST_WAIT), was_idle),
            };
            let Err(error) = entered else { return Ok(()) };
            match error {
                Errno::INTR | Errno::TIME => return Ok(()),
                // Reading completions makes room. One of them, even a mere wake, may be the event
                // that the caller waits for.
                Errno::BUSY | Errno::AGAIN => {
                    if self.reap() {
                        return Ok(());
                    }
                    rustix::thread::sched_yield();
                    if !self.reaper.completed.is_empty() || self.reaper.has_event(was_idle) {
                        return Ok(());
                    }
                    let since = *busy_since.get_or_insert_with(Instant::now);
                    if matches!(wait, Wait::Until(Some(limit)) if since.elapsed() >= limit) {
                        return Ok(());
                    }
                }
                Errno::BADR => sys::fatal("the kernel has lost a completion (EBADR)"),
                _ => return Err(error.into()),
            }
        }
    }

    fn enter_for(&mut self, limit: Duration, was_idle: bool) -> Result<u32, Errno> {
        if self.queue.takes_timeouts {
            return self.queue.enter(1, Some(&limit.into()));
        }
        // With a count of 1, the timeout op also ends with the next completion, so it does not stay
        // in flight. The kernel copies the time when it takes the entry, while `limit` is alive.
        let limit = types::Timespec::from(limit);
        let timeout = opcode::Timeout::new(&limit).count(1).build();
        self.push(&timeout.user_data(sqe::TAG_IGNORE));
        // If the queue was full and the kernel busy, the push has read completions.
        let least = u32::from(!self.reaper.has_event(was_idle));
        self.queue.enter(least, None)
    }

    #[inline]
    pub(super) fn needs_turn(&self) -> bool {
        self.queue.has_completions() || self.reaper.has_notes() || self.queue.needs_enter()
    }

    /// Whether a turn would find nothing to do before the next completion arrives.
    pub(super) fn is_settled(&mut self) -> bool {
        let Ring { queue, reaper, .. } = self;
        let is_handed_over = queue.submitter_thread.is_some() || !queue.kernel_has_work();
        let is_read = !queue.has_completions() && !queue.has_overflowed();
        is_handed_over && is_read && reaper.is_idle() && reaper.wakes.is_armed()
    }

    pub(super) fn turn(&mut self, wait: Wait) -> io::Result<()> {
        self.reap();
        self.push_noted();
        let wait = if self.reaper.is_idle() { wait } else { Wait::Never };
        if self.queue.submitter_thread.is_some() {
            self.enter_beside(wait)?;
        } else if wait != Wait::Never || self.queue.kernel_has_work() {
            self.enter(wait)?;
            self.reap();
            self.enter_until_reaped()?;
        }
        self.early.end_turn();
        if self.reaper.wakes.take_woken() && self.reaper.multishots.are_used() {
            self.stop_as_requested();
        }
        Ok(())
    }

    /// Enters the kernel until all entries are submitted and the kernel holds back no completion.
    /// Deferred completions come 20 at a time, and new ones may arrive without end, so the number
    /// of rounds is bounded. The rounds end early if a multishot op delivers items faster than its
    /// strand takes them, so that the strand runs or the op is paused.
    fn enter_until_reaped(&mut self) -> io::Result<()> {
        for _ in 0..MAX_ROUNDS {
            if !self.queue.kernel_has_work() {
                return Ok(());
            }
            if self.reaper.multishots.are_too_fast() {
                break;
            }
            self.enter(Wait::Never)?;
            self.reap();
        }
        while self.queue.has_overflowed() || !self.queue.is_empty() {
            if self.reaper.multishots.are_too_fast() {
                self.tend_multishots();
            }
            self.enter(Wait::Never)?;
            self.reap();
        }
        Ok(())
    }

    /// Enters the kernel while another thread submits the queued entries: only to wait, or to get
    /// completions that the kernel has held back.
    fn enter_beside(&mut self, wait: Wait) -> io::Result<()> {
        if wait != Wait::Never {
            self.enter(wait)?;
            self.reap();
        }
        while self.queue.has_overflowed() {
            self.enter(Wait::Never)?;
            self.reap();
        }
        Ok(())
    }

    /// Enters and reaps. If the kernel refuses to wait, ends the process, because ops in flight use
    /// memory of callers.
    pub(super) fn wait_or_die(&mut self, wait: Wait) {
        let mut enter = wait;
        loop {
            if let Err(error) = self.enter(enter) {
                sys::fatal(&format!("ops in flight cannot be waited for ({error})"));
            }
            self.reap();
            if !self.queue.has_overflowed() {
                return;
            }
            enter = Wait::Never;
        }
    }
}
