//! The io_uring backend: one ring per driver.
//!
//! Ops become SQEs at once and are submitted at the next turn, or before it when the submission
//! queue is full or the worker often sleeps ([`early`]). Completions are read until the
//! overflow bit is clear, so the size of the completion queue does not limit the ops in flight.
//!
//! # Parts
//! ```text
//!   Uring   one method per call of the driver (this file), and what a ring has beside its ops
//!     ├─ files, regions       tables of the kernel's: files, registered memory
//!     └─ Ring (ring.rs)       a turn; pushing an entry; ops, cancels, multishot ops handed over
//!          ├─ Early           when ops enter the kernel before the turn (early.rs)
//!          ├─ Queue           entries, and entering the kernel (queue.rs)
//!          └─ Reaper          what completions mean (reap.rs); cannot submit
//!               └─ in_flight, cancels, multishots, buffers, wakes, installs, completed
//! ```
//!
//! **Drop order**: [`Drop`] (drain.rs) waits for the last completion of every op, the eventfd's
//! read included. Then the fields are dropped: the ring before the memory to which its ops write,
//! and last [`parting`], which waits if necessary until the kernel has taken the ring apart.

mod buffer_ring;
mod buffers;
mod bundle;
mod cancel;
mod counts;
mod drain;
mod early;
mod files;
mod handshake;
mod in_flight;
mod item_queue;
mod multishot;
mod multishot_item;
mod parting;
mod queue;
mod reap;
mod regions;
mod registered_ring;
mod ring;
mod setup;
mod sidecar;
mod sqe;
mod submit;
mod submitter_thread;
#[cfg(test)]
pub(crate) mod tests;
mod wakes;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fmt, io};

use io_uring::opcode;
use rustix::io::Errno;

use crate::backend::{Backend, Submitted, Wait};
use crate::buffer::{Lease, Pool};
use crate::caps::Caps;
use crate::config::Config;
use crate::feature::Feature;
use crate::fixed::FixedFile;
use crate::multishot::{
    MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem, NoBytes,
};
use crate::op::{Op, OpFrame, OpState};
use crate::region::Region;
use crate::submitter::Submitter;
use crate::wake::{WakeTarget, Waker, Way};
use crate::{say, sys};
use buffer_ring::Groups;
use buffers::Buffers;
use early::Early;
use files::Files;
use parting::Parting;
use queue::Queue;
use reap::Reaper;
use regions::Regions;
use ring::Ring;
use submitter_thread::SubmitterThread;
use wakes::Wakes;

pub use counts::RingTotals;
pub(crate) use counts::ring_totals;

/// A ring and its tables.
pub(crate) struct Uring {
    ring: Ring,
    files: Files,
    regions: Regions,
    caps: Caps,
    /// Whether the ring's thread makes other calls after the drop. It also does after the drop of a
    /// ring that could not be set up as requested.
    thread_goes_on: bool,
    /// INVARIANT: dropped last.
    parting: Parting,
}

impl Uring {
    /// Makes a ring and tests it with one op.
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        let eventfd = sys::eventfd()?;
        let (ring, mut caps) = setup::ring(config)?;
        let way = Way::Ring { eventfd, ring: Mutex::new(Some(ring.as_raw_fd())) };
        let wakes = Wakes::new(WakeTarget::new(way));
        let registered_ring = setup::registered_ring(&ring, &mut caps);
        let features = caps.features;
        let buffers = Buffers::new(Groups::new(features.has(Feature::BufferRing)));
        let mut uring = Uring {
            ring: Ring {
                queue: Queue::new(ring, registered_ring, &caps),
                reaper: Reaper::new(wakes, buffers),
                early: Early::new(),
                features,
            },
            files: Files::new(config.fixed_files && features.has(Feature::FixedFiles)),
            regions: Regions::default(),
            caps,
            thread_goes_on: true,
            parting: Parting::default(),
        };
        setup::require_ops(&uring.caps)?;
        uring.trial()?;
        uring.thread_goes_on = false;
        Ok(uring)
    }

    /// Tests whether an op goes through the ring.
    fn trial(&mut self) -> io::Result<()> {
        let nop = opcode::Nop::new().build().user_data(sqe::TAG_IGNORE);
        self.ring.push(&nop);
        self.ring.enter(Wait::Until(Some(Duration::from_secs(1))))?;
        if !self.ring.queue.has_completions() {
            return Err(Errno::TIMEDOUT.into());
        }
        self.ring.reap();
        Ok(())
    }

    /// Makes a ring with the submitter that `config` names, or with the worker if that fails.
    /// Unless `config` names the worker, also returns a sentence that names the submitter.
    pub(crate) fn open_submitted(config: &Config) -> io::Result<(Self, Option<String>)> {
        let who = config.submitter.described();
        if config.submitter == Submitter::Worker {
            return Ok((Uring::open(config)?, None));
        }
        match Uring::open_with_thread(config) {
            Ok(uring) => Ok((uring, Some(format!("{who} submits the ops")))),
            Err(error) => {
                let uring =
                    Uring::open(&Config { submitter: Submitter::Worker, ..config.clone() })?;
                let why = format!("the worker submits its ops, because {who} cannot ({error})");
                say!(Warn, "{why}");
                Ok((uring, Some(why)))
            }
        }
    }

    /// Makes a ring with the submitter that `config` names, which must not be the worker.
    pub(crate) fn open_with_thread(config: &Config) -> io::Result<Self> {
        let mut uring = Uring::open(config)?;
        uring.thread_goes_on = true;
        let Ring { queue, features, .. } = &mut uring.ring;
        queue.submitter_thread = SubmitterThread::start(config.submitter, queue, *features)?;
        uring.thread_goes_on = false;
        Ok(uring)
    }
}

#[cfg(test)]
impl Uring {
    pub(crate) fn completed(&mut self) -> &mut crate::completed::Completed {
        &mut self.ring.reaper.completed
    }
}

impl Backend for Uring {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn submit(&mut self, frame: &OpFrame) -> Submitted {
        self.submit_known(frame, frame.op)
    }

    #[inline(always)]
    fn submit_known(&mut self, frame: &OpFrame, op: Op) -> Submitted {
        debug_assert_eq!(frame.state.get(), OpState::New, "a frame is submitted once");
        self.ring.queue.counts.worker.ops.add_one();
        self.ring.reaper.in_flight.add(frame);
        self.ring.hand_over(frame, op);
        if self.ring.early.note_op() {
            self.ring.submit_early();
        }
        Submitted::InFlight
    }

    #[inline]
    fn attach(&mut self, frame: &OpFrame, file: &FixedFile) {
        frame.fixed_file_index.set(self.files.index_of(&self.ring, file, &frame.op));
    }

    fn cancel(&mut self, frame: &OpFrame) {
        self.ring.cancel(frame);
    }

    fn cancel_all(&mut self, is_meant: impl Fn(&OpFrame) -> bool) -> usize {
        self.ring.cancel_all(is_meant)
    }

    fn close_later(&mut self, fd: OwnedFd) {
        self.ring.close_later(fd);
    }

    #[inline]
    fn needs_turn(&self) -> bool {
        self.ring.needs_turn()
    }

    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        self.ring.queue.forget_gathering();
        self.ring.reaper.completed.give_back_surplus();
        self.files.heed_notes(&self.ring.queue.ring);
        self.ring.turn(wait)
    }

    #[inline]
    fn pop_complete(&mut self) -> Option<NonNull<OpFrame>> {
        self.ring.reaper.completed.pop()
    }

    fn in_flight(&self) -> usize {
        self.ring.reaper.in_flight.len()
    }

    fn has_armed_multishots(&self) -> bool {
        self.ring.reaper.multishots.armed() > 0
    }

    fn waker(&self) -> Waker {
        self.ring.reaper.wakes.waker()
    }

    fn wake(&mut self, target: &Waker) {
        self.ring.wake(target);
    }

    fn drain(&mut self) {
        self.ring.drain();
    }

    fn pollable(&mut self) -> io::Result<OwnedFd> {
        sys::dup_cloexec(sys::raw::borrow(&self.ring.queue.fd()))
    }

    fn turn_to_poll(&mut self) -> io::Result<bool> {
        self.turn(Wait::Never)?;
        Ok(self.ring.is_settled())
    }

    fn note_thread_goes_on(&mut self) {
        self.thread_goes_on = true;
    }

    fn start_multishot(
        &mut self,
        op: MultishotOp,
        inbox: &Arc<MultishotInbox>,
    ) -> Option<MultishotId> {
        let started = self.ring.reaper.multishots.start(op, inbox, self.ring.features);
        if started.is_some() {
            self.ring.queue.counts.worker.ops.add_one();
        }
        started
    }

    fn next_item(&mut self, id: MultishotId) -> NextItem {
        self.ring.next_item(id)
    }

    #[inline]
    fn next_bytes_or_await(&mut self, id: MultishotId, user: u64) -> Result<Lease, NoBytes> {
        self.ring.reaper.multishots.next_bytes_or_await(id, user)
    }

    fn settle_multishot(&mut self, id: MultishotId) -> Option<MultishotItem> {
        self.ring.settle_multishot(id)
    }

    fn await_item(&mut self, id: MultishotId, user: u64) -> bool {
        self.ring.reaper.multishots.await_item(id, user)
    }

    fn stop_multishot(&mut self, id: MultishotId) -> bool {
        self.ring.stop_multishot(id)
    }

    #[inline]
    fn pop_notice(&mut self) -> Option<u64> {
        self.ring.reaper.multishots.pop_notice()
    }

    fn end_multishot_silently(&mut self, id: MultishotId) {
        self.ring.end_multishot_silently(id);
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.ring.reaper.buffers.pool
    }

    fn has_surplus(&self) -> bool {
        self.ring.reaper.buffers.have_surplus() || self.regions.has_dead()
    }

    fn give_back_surplus(&mut self) {
        self.ring.give_back_surplus();
        self.regions.give_back(&self.ring.queue.ring);
    }

    fn register(&mut self, region: &Arc<Region>) -> Option<u16> {
        self.regions.register(&mut self.ring, region)
    }

    fn release_file(&mut self, file: &FixedFile) -> bool {
        self.files.release(&self.ring.queue.ring, file)
    }

    fn reserve_index(&mut self, file: &FixedFile) -> bool {
        self.files.reserve(&self.ring, file)
    }

    fn install_file(&mut self, file: &FixedFile) -> io::Result<RawFd> {
        self.files.install(&mut self.ring, file)
    }
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring")
            .field("in_flight", &self.in_flight())
            .field("features", &self.caps.features)
            .finish_non_exhaustive()
    }
}
