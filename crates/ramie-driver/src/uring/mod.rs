//! The io_uring backend: one ring per driver.
//!
//! Ops become SQEs at once and go to the kernel at the next [`turn`](Uring::turn), or when the
//! submission queue is full. Completions are read off until the overflow bit is clear, so that
//! ops in flight are not bounded by the completion queue.
//!
//! **Rule of the reaper**: reading completions ([`reap`](Uring::reap)) never submits. What must
//! be submitted in answer (an op that was interrupted, the next read of the eventfd) is noted,
//! and handed over by the next turn. So a full queue never recurses.
//!
//! **Drop order**: [`Drop`] drains to the last completion, the eventfd's read included; then the
//! fields go, the ring before the memory that its ops wrote to, and last, where need be, a wait for
//! the kernel to take the ring apart ([`parting`]).
#![allow(unsafe_code)]

mod backend;
mod buffer_ring;
mod bundle;
mod cancel;
mod drain;
mod files;
mod handshake;
mod in_flight;
mod multishot;
mod multishot_item;
mod parting;
mod reap;
mod regions;
mod registered_ring;
mod setup;
mod sidecar;
mod sqe;
mod submitter_thread;
#[cfg(test)]
pub(crate) mod tests;

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use io_uring::cqueue::CompletionStatus;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use crate::backend::{Submitted, Wait};
use crate::buffer::Pool;
use crate::caps::Caps;
use crate::completed::{Completed, FrameList};
use crate::config::Config;
use crate::feature::Feature;
use crate::op::{Manner, OpFrame, State};
use crate::sys;
use crate::wake::{WakeTarget, Waker, Way};
use buffer_ring::Groups;
use files::Files;
use in_flight::InFlight;
use multishot::Multishots;
use parting::Parting;
use regions::Regions;
use registered_ring::RegisteredRing;
use submitter_thread::SubmitterThread;

/// Ops that wait for others, so as to enter the kernel together. `len` 0: none do.
#[derive(Clone, Copy, Debug, Default)]
struct Gathering {
    since: u64,
    len: usize,
}

/// One ring and what is on its way through it.
pub(crate) struct Uring {
    ring: IoUring,
    registered_ring: RegisteredRing,
    /// INVARIANT: of `ring`, which outlives it.
    status: CompletionStatus,
    pub(crate) completed: Completed,
    /// Ops to hand to the kernel again.
    retries: FrameList,
    /// How many ops in flight are to be cancelled.
    asked: usize,
    /// The kernel has not found an op that it was asked to cancel.
    missed: bool,
    /// What such requests were, if not of ops that complete again and again.
    requests_missed: Vec<u64>,
    frames: InFlight,
    files: Files,
    target: Arc<WakeTarget>,
    /// A wake has arrived that no turn has reported yet.
    woken: bool,
    /// The eventfd's read is in the queue or in the kernel.
    wake_armed: bool,
    /// Where that read writes. INVARIANT: freed only while `wake_armed` is false.
    wake_count: Box<UnsafeCell<u64>>,
    /// The ops in the queue, as a busy worker was last told to let them gather.
    gathering: Cell<Gathering>,
    /// How often the kernel was entered.
    entered: u64,
    /// Messages sent to other rings whose own completion is not in yet.
    messages: usize,
    /// Descriptors that the kernel closes for nobody.
    closing: usize,
    /// `drain` is running: a cancelled op is an answer, and nothing is handed over again.
    draining: bool,
    caps: Caps,
    pub(crate) pool: Pool,
    groups: Groups,
    multishots: Multishots,
    regions: Regions,
    /// Who enters the kernel while the worker is busy, if it is not the worker.
    submitter_thread: Option<SubmitterThread>,
    /// Its thread makes other calls when this is dropped. That holds for a ring that is dropped
    /// because it could not be set up as asked for.
    thread_goes_on: bool,
    /// INVARIANT: dropped last.
    parting: Parting,
}

impl Uring {
    /// Makes a ring and sends one op through it.
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        let eventfd = sys::eventfd()?;
        let (mut ring, mut caps) = setup::ring(config)?;
        // SAFETY: kept beside the ring, in the same struct (invariant of the field).
        let status = unsafe { ring.completion().status() };
        let way = Way::Ring { eventfd, ring: Mutex::new(Some(ring.as_raw_fd())) };
        let target = WakeTarget::new(way);
        let mut uring = Uring {
            registered_ring: setup::registered_ring(&ring, &mut caps),
            ring,
            status,
            completed: Completed::default(),
            retries: FrameList::new(),
            asked: 0,
            missed: false,
            requests_missed: Vec::new(),
            frames: InFlight::default(),
            files: Files::new(config.fixed_files && caps.features.has(Feature::FixedFiles)),
            multishots: Multishots::new(Waker(Arc::clone(&target))),
            pool: Pool::new(),
            groups: Groups::new(caps.features.has(Feature::BufferRing)),
            regions: Regions::default(),
            target,
            woken: false,
            wake_armed: false,
            wake_count: Box::new(UnsafeCell::new(0)),
            gathering: Cell::default(),
            entered: 0,
            messages: 0,
            closing: 0,
            draining: false,
            caps,
            submitter_thread: None,
            thread_goes_on: true,
            parting: Parting::default(),
        };
        setup::require_ops(&uring.caps)?;
        uring.trial()?;
        uring.thread_goes_on = false;
        Ok(uring)
    }

    /// The real trial: an op goes round.
    fn trial(&mut self) -> io::Result<()> {
        let nop = opcode::Nop::new().build().user_data(sqe::TAG_IGNORE);
        self.push(&nop);
        self.enter(Wait::Until(Some(Duration::from_secs(1))))?;
        if self.status.is_empty() {
            return Err(Errno::TIMEDOUT.into());
        }
        self.reap();
        Ok(())
    }

    pub(crate) fn caps(&self) -> &Caps {
        &self.caps
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn has_armed_multishots(&self) -> bool {
        self.multishots.armed() > 0
    }

    pub(crate) fn note_thread_goes_on(&mut self) {
        self.thread_goes_on = true;
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.target))
    }

    #[inline]
    pub(crate) fn submit(&mut self, frame: &OpFrame) -> Submitted {
        debug_assert_eq!(frame.state.get(), State::New, "a frame is submitted once");
        self.frames.add(frame);
        self.hand_over(frame);
        Submitted::InFlight
    }

    /// Puts the op into the submission queue.
    #[inline]
    fn hand_over(&mut self, frame: &OpFrame) {
        frame.state.set(State::InFlight);
        let user_data = ptr::from_ref(frame) as u64 | sqe::TAG_FRAME;
        if frame.injected.is_due() {
            // Nothing is done, and `route` answers with the errno.
            return self.push(&opcode::Nop::new().build().user_data(user_data));
        }
        if frame.manner.get() != Manner::Plain
            && let Some(entry) = self.special_entry(frame)
        {
            return self.push(&entry.user_data(user_data));
        }
        let flags = if frame.in_background { Flags::ASYNC } else { Flags::empty() };
        sqe::with_entry(frame, user_data, flags, |entry| self.push(&entry));
    }

    /// Puts an entry into the submission queue, emptying the queue into the kernel if it is full.
    #[inline(always)]
    fn push(&mut self, entry: &Entry) {
        let mut queue = self.ring.submission();
        // First, so that the entry need not be kept for another attempt.
        if queue.is_full() {
            drop(queue);
            self.flush();
            queue = self.ring.submission();
        }
        // SAFETY: entries are built from ops whose memory the submitter keeps valid (contract of
        // `Driver::submit`), or from `wake_count`, which outlives its read.
        let pushed = unsafe { queue.push(entry) };
        // The tail is written as the queue is dropped.
        drop(queue);
        if pushed.is_err() {
            sys::fatal("a submission queue that was emptied has no room");
        }
        if self.submitter_thread.is_some() {
            self.tell_submitter_thread();
        }
    }

    /// Empties the submission queue into the kernel, however often it says that it is busy.
    #[cold]
    fn flush(&mut self) {
        if self.kernel_thread_empties_queue() {
            return;
        }
        while !self.ring.submission().is_empty() {
            if let Err(error) = self.enter(Wait::Never) {
                sys::fatal(&format!("the ring takes no more ops ({error})"));
            }
        }
    }

    #[inline]
    pub(crate) fn needs_turn(&self) -> bool {
        if !self.status.is_empty() || self.woken || !self.retries.is_empty() || self.missed {
            return true;
        }
        // SAFETY: `&self` is the only reference (the driver is not `Sync`), and every other use
        // of the queue is confined to a call with `&mut self`.
        let queue = unsafe { self.ring.submission_shared() };
        if queue.taskrun() || queue.cq_overflow() {
            return true;
        }
        !queue.is_empty() && (queue.len() * 2 >= queue.capacity() || self.has_gathered(queue.len()))
    }

    /// Whether the `len` ops in the queue need not wait for more: none has joined them since the
    /// last question (or there is one only), or they have waited for long enough.
    fn has_gathered(&self, len: usize) -> bool {
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

    pub(crate) fn turn(&mut self, wait: Wait) -> io::Result<()> {
        self.gathering.take();
        self.completed.give_back_surplus();
        self.heed_notes();
        self.reap();
        self.push_noted();
        let wait = if self.is_idle() { wait } else { Wait::Never };
        if self.submitter_thread.is_some() {
            self.enter_beside(wait)?;
        } else if wait != Wait::Never || self.kernel_has_work() {
            self.enter(wait)?;
            self.reap();
            self.enter_until_reaped()?;
        }
        if std::mem::take(&mut self.woken) && self.multishots.are_used() {
            self.stop_as_requested();
        }
        Ok(())
    }

    /// Whether nothing is to be done before something completes. (A full queue is emptied into the
    /// kernel, and what is read meanwhile may have left notes.)
    fn is_idle(&self) -> bool {
        let has_news = self.woken || !self.completed.is_empty();
        let has_notes = self.missed || !self.retries.is_empty();
        !has_news && !has_notes && self.multishots.notices.is_empty()
    }

    /// Enters until all is submitted and no completion is kept back. Deferred ones come 20 at a
    /// time, and new ones may arrive for ever, so it takes a bounded number of those. If a
    /// multishot op delivers faster than its strand takes, stop here so that the strand can run, or
    /// pause the op.
    fn enter_until_reaped(&mut self) -> io::Result<()> {
        for _ in 0..MAX_ROUNDS {
            if !self.kernel_has_work() {
                return Ok(());
            }
            if self.multishots.are_too_fast() {
                break;
            }
            self.enter(Wait::Never)?;
            self.reap();
        }
        while self.overflowed() || !self.ring.submission().is_empty() {
            if self.multishots.are_too_fast() {
                self.tend_multishots();
            }
            self.enter(Wait::Never)?;
            self.reap();
        }
        Ok(())
    }

    /// Whether an enter that does not wait would do anything.
    fn kernel_has_work(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    fn overflowed(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Queues what the reaper noted: ops to retry, and the eventfd's next read.
    fn push_noted(&mut self) {
        if !self.wake_armed {
            self.arm_wake();
        }
        while let Some(frame) = self.retries.pop() {
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
            let frame = unsafe { frame.as_ref() };
            self.hand_over_again(frame);
        }
        if self.missed {
            self.cancel_again();
        }
        if self.multishots.are_used() {
            self.tend_multishots();
        }
    }

    fn hand_over_again(&mut self, frame: &OpFrame) {
        if frame.state.get() == State::ToAwait {
            frame.state.set(State::AwaitingReadiness);
            let user_data = ptr::from_ref(frame) as u64 | sqe::TAG_FRAME;
            self.push(&sqe::readiness_entry(&frame.op).user_data(user_data));
        } else {
            self.hand_over(frame);
        }
        // A request that arrived in between must not be lost; data that is there still comes
        // first, since the op is tried before the request is looked at.
        if frame.cancel_asked.get() {
            self.push_cancel(frame);
        }
    }

    fn arm_wake(&mut self) {
        let Some(eventfd) = self.target.eventfd() else { return };
        let count = self.wake_count.get().cast();
        let read = opcode::Read::new(Fd(eventfd.as_raw_fd()), count, 8).offset(u64::MAX);
        self.wake_armed = true;
        self.push(&read.build().user_data(sqe::TAG_WAKE));
    }

    /// Wakes another driver, by a message if both are rings.
    pub(crate) fn wake(&mut self, waker: &Waker) {
        let target = &waker.0;
        if Arc::ptr_eq(target, &self.target) {
            self.woken = true;
            return;
        }
        if !target.claim() {
            return;
        }
        let sent = self.caps.msg_ring() && target.with_ring(|ring| self.send(ring, target));
        if !sent {
            target.notify();
        }
    }

    /// Sends a wake to another ring, and submits it.
    fn send(&mut self, ring: i32, target: &Arc<WakeTarget>) {
        let address = Arc::into_raw(Arc::clone(target)) as u64;
        debug_assert_eq!(address & sqe::TAG_BITS, 0);
        let message = opcode::MsgRingData::new(Fd(ring), 0, sqe::TAG_MESSAGE, None).build();
        self.messages += 1;
        self.push(&message.user_data(address | sqe::TAG_MESSAGE_SENT));
        self.flush();
    }
}

/// How often a turn asks for more deferred completions.
const MAX_ROUNDS: usize = 8;

/// How long ops may wait for others, while fibers run, to enter the kernel together: an enter
/// costs some 300 ns, and the fibers' caches.
const GATHERING: Duration = Duration::from_micros(20);

/// How often rings that are gone entered the kernel.
static ENTERED_BY_THE_DEAD: AtomicU64 = AtomicU64::new(0);

pub(crate) fn entered_so_far() -> u64 {
    ENTERED_BY_THE_DEAD.load(Ordering::Relaxed)
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring")
            .field("in_flight", &self.in_flight())
            .field("features", &self.caps.features)
            .finish_non_exhaustive()
    }
}
