//! Repeated receives from one descriptor: bytes, connections, readiness.
//!
//! If the worker's driver has multishot ops, it runs one, and the op's items wait in the driver
//! until they are taken. The op belongs to the driver, and the items that it left belong to the
//! [`MultishotInbox`], which a socket keeps. So a [`MultishotSource`] may be forgotten, and nothing
//! is lost.
//!
//! The op's entry names a descriptor's number, which the kernel looks up when it takes the entry.
//! So `next` returns only after the kernel has taken it: with an item, or after `settle_multishot`.
//!
//! | the inbox of a source | meaning | changed by |
//! |---|---|---|
//! | quiet | no op and no item | `next`, on a runtime's worker whose driver has multishot ops, to busy |
//! | busy | one driver runs an op for it | [`release`], called by a receive that bypasses the source, or when the source is dropped: to left or quiet |
//! | left | no op, and items that the next receive takes first | `take_leftover`, to quiet |
//!
//! *The race to fear*: the op takes bytes that a plain read waits for. So every call that receives
//! from a descriptor looks at its inbox first, releases it if it is busy, and takes the leftover.
//! A source whose op is gone starts another one, a few times; afterwards its caller receives one by
//! one.
//!
//! An ordinary thread starts no op, because its driver runs only while the thread waits, and other
//! strands could wait for the op forever. `next` then returns None, and its caller receives one by
//! one, as it does without multishot ops.
//!
//! # Plain waits
//! A fiber that only its op can wake leaves the address of its stack with the driver, not the
//! reference of a wait. No epoch turns a late wake-up by that address away, so there must be no
//! late wake-up. The fiber therefore leaves the address in its last step before it suspends, and
//! the driver hands it out once, with an item or with the end of the op, whichever strand has
//! stopped that op. Until then the fiber does not run. If the fiber is abandoned, the op is
//! drained, and the word dropped (`core/worker/abandon.rs`).

use std::{os::fd::RawFd, sync::Arc};

use ramie_driver::{
    Lease, MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem, NoBytes, Wait,
};

use super::{OpError, UNWINDING_LIMIT};
use crate::core::{
    cancel,
    strand::Wake,
    time::Deadline,
    wait::{
        park::{self, Refused, WaitKind, WaitRecord},
        plain::suspend_plainly,
        record::NO_OFFSET,
        word::WakeWord,
    },
    worker::{self, Worker},
};

/// How many ops are started for one source, because other receives of its descriptor end them.
const MOST_STARTS: u8 = 4;

/// Receives from a descriptor repeatedly. INVARIANT: the descriptor in `op` is open as
/// long as this is used.
#[derive(Debug)]
pub(crate) struct MultishotSource {
    op: MultishotOp,
    inbox: Arc<MultishotInbox>,
    id: Option<MultishotId>,
    starts_left: u8,
}

impl MultishotSource {
    pub(crate) fn new(op: MultishotOp, inbox: Arc<MultishotInbox>) -> Self {
        MultishotSource { op, inbox, id: None, starts_left: MOST_STARTS }
    }

    /// The same source, but it never starts an op.
    pub(crate) fn one_by_one(mut self) -> Self {
        self.starts_left = 0;
        self
    }

    /// Waits for the next item. None: there is no op, so the caller must do a one-shot receive.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn next(
        &mut self,
        kind: &'static WaitKind,
        deadline: Deadline,
    ) -> Result<Option<MultishotItem>, OpError> {
        match self.next_plainly(kind, deadline) {
            Some(item) => Ok(Some(item)),
            None => self.next_bounded(kind, deadline),
        }
    }

    /// Takes the next item of a running op, by a plain wait (`core/wait/plain.rs`) if no limit,
    /// scope or unwinding forbids it.
    #[track_caller]
    #[inline(always)]
    fn next_plainly(&self, kind: &'static WaitKind, deadline: Deadline) -> Option<MultishotItem> {
        let id = self.id?;
        let worker = worker::current();
        let stack = worker.running.plain_fiber().filter(|_| deadline == Deadline::NEVER)?;
        let record = WaitRecord::plain(kind).with_detail(self.fd() as u64, NO_OFFSET);
        loop {
            match next_item_or_await(&worker, id, WakeWord::plain(stack)) {
                NextItem::Item(item) => {
                    worker.note_complete_at_once();
                    return Some(item);
                }
                NextItem::Pending => suspend_plainly(&worker.running, stack, &record),
                NextItem::NoBuffers | NextItem::Gone => return None,
            }
        }
    }

    /// As [`next`](Self::next), for the bytes of a stream that has no timeout, by a plain wait.
    /// None: `next` finds out the reason.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn next_bytes(&self, kind: &'static WaitKind) -> Option<Lease> {
        let id = self.id?;
        let worker = worker::current();
        let stack = worker.running.plain_fiber()?;
        let record = WaitRecord::plain(kind).with_detail(self.fd() as u64, NO_OFFSET);
        loop {
            match next_bytes_or_await(&worker, id, WakeWord::plain(stack)) {
                Ok(bytes) => {
                    worker.note_complete_at_once();
                    return Some(bytes);
                }
                Err(NoBytes::Pending) => suspend_plainly(&worker.running, stack, &record),
                Err(NoBytes::Other) => return None,
            }
        }
    }

    fn fd(&self) -> RawFd {
        match self.op {
            MultishotOp::Receive { fd } | MultishotOp::ReceiveFrom { fd } => fd,
            MultishotOp::Accept { fd, .. } | MultishotOp::Poll { fd, .. } => fd,
        }
    }

    /// As [`next`](Self::next), by a wait that a limit or a cancellation may end.
    #[track_caller]
    #[inline(never)]
    fn next_bounded(
        &mut self,
        kind: &'static WaitKind,
        deadline: Deadline,
    ) -> Result<Option<MultishotItem>, OpError> {
        let worker = worker::current();
        worker.running.check_may_switch();
        let fd = self.fd() as u64;
        let record = WaitRecord::new(kind).with_detail(fd, NO_OFFSET).until(deadline).cancellable();
        if cancel::is_cancelled_here() {
            return Err(OpError::Cancelled);
        }
        loop {
            if self.id.is_none() && self.inbox.is_in_use() {
                release(&worker, &self.inbox, &record)?;
            }
            if let Some(left) = self.inbox.take_leftover() {
                worker.note_complete_at_once();
                return Ok(Some(left));
            }
            let Some(id) = self.op_of(&worker) else { return Ok(None) };
            match next_item(&worker, id) {
                NextItem::Item(item) => {
                    worker.note_complete_at_once();
                    return Ok(Some(item));
                }
                NextItem::NoBuffers => return Ok(None),
                NextItem::Gone => {
                    self.id = None;
                    self.starts_left -= 1;
                }
                NextItem::Pending => match wait(&worker, id, &record) {
                    Ok(()) => {}
                    Err(error) => return last_look(&worker, id, error),
                },
            }
        }
    }

    /// Returns the op of this source; starts one if it has none.
    fn op_of(&mut self, worker: &Worker) -> Option<MultishotId> {
        if self.id.is_none() && worker.membership.is_some() && self.starts_left > 0 {
            let started =
                worker.io.with_driver(|driver| driver.start_multishot(self.op, &self.inbox));
            self.id = started.ok().flatten();
        }
        self.id
    }

    /// Ends the op, as dropping does; its items go to the inbox.
    pub(crate) fn stop(&mut self) {
        if self.id.take().is_some() {
            stop(&self.inbox);
        }
    }
}

impl Drop for MultishotSource {
    fn drop(&mut self) {
        self.stop();
    }
}

#[inline(always)]
fn next_bytes_or_await(worker: &Worker, id: MultishotId, user: WakeWord) -> Result<Lease, NoBytes> {
    let next = worker.io.with_open_driver(|driver| driver.next_bytes_or_await(id, user.to_bits()));
    next.unwrap_or(Err(NoBytes::Other))
}

#[inline(never)]
fn next_item_or_await(worker: &Worker, id: MultishotId, user: WakeWord) -> NextItem {
    let next = worker.io.with_open_driver(|driver| driver.next_item_or_await(id, user.to_bits()));
    next.unwrap_or(NextItem::Gone)
}

fn next_item(worker: &Worker, id: MultishotId) -> NextItem {
    worker.io.with_driver(|driver| driver.next_item(id)).unwrap_or(NextItem::Gone)
}

/// Handles a wait that was ended from outside; returns an item that arrived nevertheless.
/// Afterwards the descriptor may be closed while the op continues, so the kernel must have looked
/// the file up.
#[cold]
fn last_look(
    worker: &Worker,
    id: MultishotId,
    error: OpError,
) -> Result<Option<MultishotItem>, OpError> {
    let item = worker.io.with_open_driver(|driver| driver.settle_multishot(id)).flatten();
    item.map_or(Err(error), |item| Ok(Some(item)))
}

fn wait(worker: &Worker, id: MultishotId, record: &WaitRecord) -> Result<(), OpError> {
    let prepared = match park::prepare(worker, record) {
        Ok(prepared) => prepared,
        Err(Refused::Cancelled) => return Err(OpError::Cancelled),
        Err(Refused::Unwinding) => return await_inline(worker, id),
    };
    let user = prepared.wake_word();
    let awaits = worker.io.with_open_driver(|driver| driver.await_item(id, user.to_bits()));
    if awaits != Some(true) {
        prepared.abort_or_suspend();
        return Ok(());
    }
    match prepared.suspend() {
        Wake::Woken => Ok(()),
        Wake::TimedOut => Err(OpError::Elapsed),
        Wake::Cancelled => Err(OpError::Cancelled),
    }
}

/// Awaits an item for a short time, without running other fibers, because the strand unwinds.
#[cold]
fn await_inline(worker: &Worker, id: MultishotId) -> Result<(), OpError> {
    let limit = Deadline::after(UNWINDING_LIMIT);
    // A word that wakes nobody: it is dropped where wake-ups are distributed.
    while worker.io.with_open_driver(|driver| driver.await_item(id, WakeWord::RELEASED.to_bits()))
        == Some(true)
    {
        if limit.has_passed() {
            return Err(OpError::Elapsed);
        }
        let longest = std::time::Duration::from_millis(1);
        worker.io.turn(Wait::Until(Some(longest)), &worker.scheduler, &worker.running);
    }
    Ok(())
}

/// Returns whether an op left an item, and ends the op, which would take what the caller waits for.
/// Takes nothing, so calls of other strands meanwhile miss nothing.
#[cold]
#[track_caller]
pub(crate) fn has_leftover(
    inbox: &MultishotInbox,
    kind: &'static WaitKind,
) -> Result<bool, OpError> {
    let worker = worker::current();
    worker.running.check_may_switch();
    if cancel::is_cancelled_here() {
        return Err(OpError::Cancelled);
    }
    let record = WaitRecord::new(kind).with_detail(u64::MAX, NO_OFFSET).cancellable();
    while !inbox.has_leftover() && inbox.op().is_some() {
        release(&worker, inbox, &record)?;
    }
    Ok(inbox.has_leftover())
}

/// Takes an item that an op left, and ends the op. None: no item was left, no op is running, and
/// all further data stays in the kernel.
#[track_caller]
pub(crate) fn take_leftover(
    inbox: &MultishotInbox,
    kind: &'static WaitKind,
    deadline: Deadline,
) -> Result<Option<MultishotItem>, OpError> {
    let mut taken = None;
    let mut look = || {
        taken = inbox.take_leftover();
        taken.is_some()
    };
    look_for_leftover(inbox, kind, deadline, &mut look)?;
    Ok(taken)
}

/// Calls `take` with an item that an op left, as [`MultishotInbox::with_oldest`] does, and ends the
/// op. Returns false where [`take_leftover`] returns none.
#[track_caller]
pub(crate) fn with_leftover(
    inbox: &MultishotInbox,
    kind: &'static WaitKind,
    deadline: Deadline,
    take: &mut dyn FnMut(&mut MultishotItem) -> bool,
) -> Result<bool, OpError> {
    look_for_leftover(inbox, kind, deadline, &mut || inbox.with_oldest(take))
}

#[track_caller]
fn look_for_leftover(
    inbox: &MultishotInbox,
    kind: &'static WaitKind,
    deadline: Deadline,
    look: &mut dyn FnMut() -> bool,
) -> Result<bool, OpError> {
    let worker = worker::current();
    worker.running.check_may_switch();
    if cancel::is_cancelled_here() {
        return Err(OpError::Cancelled);
    }
    let unknown = [u64::MAX, NO_OFFSET];
    let record =
        WaitRecord::new(kind).with_detail(unknown[0], unknown[1]).until(deadline).cancellable();
    loop {
        if look() {
            worker.note_complete_at_once();
            return Ok(true);
        }
        if inbox.op().is_none() {
            return Ok(false);
        }
        release(&worker, inbox, &record)?;
    }
}

/// Ends the op that a driver runs for `inbox`, and waits until it is gone if it is another
/// thread's.
pub(crate) fn release(
    worker: &Worker,
    inbox: &MultishotInbox,
    record: &WaitRecord,
) -> Result<(), OpError> {
    while let Some(id) = inbox.op() {
        if worker.io.with_driver(|driver| driver.stop_multishot(id)).unwrap_or(false) {
            continue;
        }
        let prepared = match park::prepare(worker, record) {
            Ok(prepared) => prepared,
            Err(Refused::Cancelled) => return Err(OpError::Cancelled),
            // The strand would have to wait for another thread.
            Err(Refused::Unwinding) => return Err(OpError::Elapsed),
        };
        if !inbox.request_stop(prepared.wake_word().to_bits()) {
            prepared.abort_or_suspend();
            continue;
        }
        match prepared.suspend() {
            Wake::Woken => {}
            Wake::TimedOut => return Err(OpError::Elapsed),
            Wake::Cancelled => return Err(OpError::Cancelled),
        }
    }
    Ok(())
}

/// Ends the op that a driver runs for `inbox`, without waiting for another thread.
pub(crate) fn stop(inbox: &MultishotInbox) {
    let Some(id) = inbox.op() else { return };
    let is_own = worker::with_existing(|worker| {
        worker.io.with_open_driver(|driver| driver.stop_multishot(id)).unwrap_or(false)
    });
    if is_own != Some(true) {
        inbox.request_stop(WakeWord::NOBODY.to_bits());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::{fd::AsRawFd, unix::net::UnixStream},
    };

    use ramie_driver::Feature;

    use super::*;
    use crate::{Driver, Runtime};

    static BYTES: WaitKind = WaitKind::new("bytes of a test");

    /// Prints that a test is skipped, past libtest, which shows only the output of failing tests.
    fn skipped(reason: &str) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a test");
        let _ = writeln!(std::io::stderr(), "skipped: {name}: {reason}");
    }

    fn are_faults_on() -> bool {
        std::env::var("RAMIE_FAULTS").is_ok_and(|seed| !seed.is_empty())
    }

    /// Runs `f` on a worker with a ring, with a source, the stream that it receives from and the
    /// peer that feeds it.
    fn on_a_ring(f: impl Fn(&mut MultishotSource, &mut UnixStream, &mut UnixStream)) {
        match Runtime::builder().driver(Driver::Uring).workers(1).build() {
            Ok(runtime) => runtime.run(|| {
                let (mut ours, mut theirs) = UnixStream::pair().unwrap();
                let op = MultishotOp::Receive { fd: ours.as_raw_fd() };
                f(&mut MultishotSource::new(op, Arc::default()), &mut ours, &mut theirs);
            }),
            Err(error) => skipped(&format!("no io_uring: {error}")),
        }
    }

    /// Each receive of another caller on the descriptor ends the op. With injected faults ops also
    /// end by themselves, and some are refused, so fewer ops bring bytes.
    #[test]
    fn an_intake_that_loses_its_op_again_and_again_begins_no_more() {
        const ROUNDS: u32 = 200;
        on_a_ring(|source, ours, theirs| {
            let (mut ops, mut last) = (0, None);
            for _ in 0..ROUNDS {
                theirs.write_all(b"x").unwrap();
                let item = source.next(&BYTES, Deadline::NEVER).unwrap();
                if source.id != last {
                    last = source.id;
                    ops += u8::from(last.is_some());
                }
                if item.is_none() {
                    ours.read_exact(&mut [0]).unwrap();
                }
                stop(&source.inbox);
            }
            if ops == 0 {
                return skipped("the driver begins no multishot op");
            }
            assert_eq!(source.starts_left, 0, "{ops} ops brought bytes in {ROUNDS} rounds");
            match are_faults_on() {
                true => assert!(ops <= MOST_STARTS, "{ops} ops brought bytes"),
                false => assert_eq!(ops, MOST_STARTS, "ops brought bytes"),
            }
        });
    }

    fn has_multishot() -> bool {
        let features = worker::current().io.with_driver(|driver| driver.caps().features).unwrap();
        features.has(Feature::Multishot) && features.has(Feature::BufferRing)
    }

    /// The same, with a source that has an op.
    fn with_source(f: impl Fn(&mut MultishotSource, &mut UnixStream)) {
        if are_faults_on() {
            return skipped("faults end its op");
        }
        on_a_ring(|source, _ours, theirs| {
            theirs.write_all(b"x").unwrap();
            match source.next(&BYTES, Deadline::NEVER).unwrap() {
                Some(_) => f(source, theirs),
                None if !has_multishot() => skipped("the ring has no multishot receives"),
                None => panic!("no op was begun"),
            }
        });
    }

    #[test]
    fn a_cancelled_call_takes_nothing_though_something_has_come() {
        with_source(|source, theirs| {
            theirs.write_all(b"y").unwrap();
            let worker = worker::current();
            worker.io.turn(Wait::Never, &worker.scheduler, &worker.running);
            crate::core::cancel::scope(|scope| {
                scope.cancel();
                let cancelled = source.next(&BYTES, Deadline::NEVER);
                assert!(matches!(cancelled, Err(OpError::Cancelled)));
            });
            assert!(source.next(&BYTES, Deadline::NEVER).unwrap().is_some(), "it is not lost");
        });
    }

    /// A fiber without a scope, which otherwise waits plainly.
    #[test]
    fn a_wait_with_a_deadline_ends() {
        with_source(|source, _| {
            let late = source.next(&BYTES, Deadline::after(std::time::Duration::from_millis(1)));
            assert!(matches!(late, Err(OpError::Elapsed)));
        });
    }
}
