//! Taking from a descriptor again and again: bytes, connections, readiness.
//!
//! Where the worker's driver can, it does an op that completes again and again, and what it brings
//! waits in the driver until it is taken. The op belongs to the driver and what it left behind to
//! the [`MultishotInbox`], which a socket keeps: so an [`Intake`] may be forgotten, and nothing is
//! lost.
//!
//! What the op's entry names is a number, which the kernel looks up when it takes the entry. So
//! `next` returns only when it has: with a shot, or after `settle_multishot`.
//!
//! | the home of an intake | meaning | left by |
//! |---|---|---|
//! | quiet | nothing is on its way | `next`, where a runtime's worker has a driver that can, to busy |
//! | busy | one driver does an op for it | [`release`], by whoever takes from the descriptor by other means, or drops the intake: to left or quiet |
//! | left | quiet, and what came is there to be taken first | `take_leftover`, to quiet |
//!
//! *The race to fear*: the op takes bytes that a plain read waits for. So every call that takes
//! from a descriptor looks at its home first, releases it if it is busy, and takes what is left.
//! An intake whose op is gone begins another, a few times; then it takes one by one.
//!
//! On an ordinary thread there is no op: its driver runs only while it waits, and others could wait
//! for it for ever. `next` then says so, and its caller takes one by one, as without the kernel's
//! help.
//!
//! # Plain waits
//! A fiber that nothing but its op can wake leaves the address of its body with the driver, not
//! the reference of a wait. No epoch turns a late wake-up by that away, so there must be none: the
//! fiber leaves it as its last step before it suspends, and the driver gives it out once, with a
//! shot, or the end of the op, whoever has stopped that. Until then the fiber does not run. If it
//! is given up, the op is drained, and the word dropped (`core/worker/abandon.rs`).

use std::{os::fd::RawFd, sync::Arc};

use ramie_driver::{MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem, Wait};

use super::{OpError, UNWINDING_LIMIT};
use crate::core::{
    cancel,
    strand::Wake,
    time::Deadline,
    wait::{
        park::{self, Refused, WaitKind, WaitRecord},
        plain::suspend_plainly,
        word::WakeWord,
    },
    worker::{self, Worker},
};

/// So many ops are begun for one intake, where others had to make room.
const MOST_STARTS: u8 = 4;

/// One who takes from a descriptor again and again. INVARIANT: the descriptor in `op` is open as
/// long as this is used.
#[derive(Debug)]
pub(crate) struct Intake {
    op: MultishotOp,
    home: Arc<MultishotInbox>,
    id: Option<MultishotId>,
    starts_left: u8,
}

impl Intake {
    pub(crate) fn new(op: MultishotOp, home: Arc<MultishotInbox>) -> Self {
        Intake { op, home, id: None, starts_left: MOST_STARTS }
    }

    /// The same, for which no op is begun.
    pub(crate) fn one_by_one(mut self) -> Self {
        self.starts_left = 0;
        self
    }

    /// Waits for what comes next. None: the caller is to take one by one, this time.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn next(
        &mut self,
        kind: &'static WaitKind,
        deadline: Deadline,
    ) -> Result<Option<MultishotItem>, OpError> {
        match self.next_plainly(kind, deadline) {
            Some(shot) => Ok(Some(shot)),
            None => self.next_bounded(kind, deadline),
        }
    }

    /// Takes the next shot of an op that is on its way, by a plain wait (`core/wait/plain.rs`) if
    /// that will do.
    #[track_caller]
    #[inline(always)]
    fn next_plainly(&self, kind: &'static WaitKind, deadline: Deadline) -> Option<MultishotItem> {
        let id = self.id?;
        let worker = worker::current();
        let body = worker.plain_fiber().filter(|_| deadline == Deadline::NEVER)?;
        let record = WaitRecord::plain(kind).with_detail(self.fd() as u64, 0);
        loop {
            match next_item_or_await(&worker, id, WakeWord::plain(body)) {
                NextItem::Item(shot) => {
                    worker.note_complete_at_once();
                    return Some(shot);
                }
                NextItem::Pending => suspend_plainly(body, &record),
                NextItem::NoBuffers | NextItem::Gone => return None,
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
        worker.check_may_switch();
        let fd = self.fd() as u64;
        let record = WaitRecord::new(kind).with_detail(fd, 0).until(deadline).cancellable();
        if cancel::is_cancelled_here() {
            return Err(OpError::Cancelled);
        }
        loop {
            if self.id.is_none() && self.home.is_in_use() {
                release(&worker, &self.home, &record)?;
            }
            if let Some(left) = self.home.take_leftover() {
                worker.note_complete_at_once();
                return Ok(Some(left));
            }
            let Some(id) = self.op_of(&worker) else { return Ok(None) };
            match next_item(&worker, id) {
                NextItem::Item(shot) => {
                    worker.note_complete_at_once();
                    return Ok(Some(shot));
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

    /// The op of this intake; if it has none, one that is begun now.
    fn op_of(&mut self, worker: &Worker) -> Option<MultishotId> {
        if self.id.is_none() && worker.runs_fibers() && self.starts_left > 0 {
            let started = worker.with_driver(|driver| driver.start_multishot(self.op, &self.home));
            self.id = started.ok().flatten();
        }
        self.id
    }

    /// Ends the op, as dropping does; what it left is in the home.
    pub(crate) fn stop(&mut self) {
        if self.id.take().is_some() {
            stop(&self.home);
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.stop();
    }
}

#[inline(never)]
fn next_item_or_await(worker: &Worker, id: MultishotId, user: WakeWord) -> NextItem {
    let next = worker.with_open_driver(|driver| driver.next_item_or_await(id, user.to_bits()));
    next.unwrap_or(NextItem::Gone)
}

fn next_item(worker: &Worker, id: MultishotId) -> NextItem {
    worker.with_driver(|driver| driver.next_item(id)).unwrap_or(NextItem::Gone)
}

/// The wait was ended from outside; what came nevertheless is returned. From here on the
/// descriptor may be closed though the op goes on: the kernel has to know it by its file.
#[cold]
fn last_look(
    worker: &Worker,
    id: MultishotId,
    error: OpError,
) -> Result<Option<MultishotItem>, OpError> {
    let shot = worker.with_open_driver(|driver| driver.settle_multishot(id)).flatten();
    shot.map_or(Err(error), |shot| Ok(Some(shot)))
}

fn wait(worker: &Worker, id: MultishotId, record: &WaitRecord) -> Result<(), OpError> {
    let prepared = match park::prepare(worker, record) {
        Ok(prepared) => prepared,
        Err(Refused::Cancelled) => return Err(OpError::Cancelled),
        Err(Refused::Unwinding) => return await_inline(worker, id),
    };
    let user = prepared.wake_word();
    let awaits = worker.with_open_driver(|driver| driver.await_item(id, user.to_bits()));
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

/// Awaits a shot with no other fiber running, for a little while: the strand unwinds.
#[cold]
fn await_inline(worker: &Worker, id: MultishotId) -> Result<(), OpError> {
    let limit = Deadline::after(UNWINDING_LIMIT);
    // Any word that is no wake-up: it is dropped where wake-ups are dealt out.
    while worker.with_open_driver(|driver| driver.await_item(id, WakeWord::RELEASED.to_bits()))
        == Some(true)
    {
        if limit.has_passed() {
            return Err(OpError::Elapsed);
        }
        worker.turn_inline(Wait::Until(Some(std::time::Duration::from_millis(1))));
    }
    Ok(())
}

/// Takes what came early, and sees to it that nothing comes by that way any more. None: nothing
/// did, and from here on what comes is in the kernel.
#[track_caller]
pub(crate) fn take_early(
    home: &MultishotInbox,
    kind: &'static WaitKind,
    deadline: Deadline,
) -> Result<Option<MultishotItem>, OpError> {
    let worker = worker::current();
    worker.check_may_switch();
    if cancel::is_cancelled_here() {
        return Err(OpError::Cancelled);
    }
    let record = WaitRecord::new(kind).until(deadline).cancellable();
    loop {
        if let Some(shot) = home.take_leftover() {
            worker.note_complete_at_once();
            return Ok(Some(shot));
        }
        if home.op().is_none() {
            return Ok(None);
        }
        release(&worker, home, &record)?;
    }
}

/// Sees to it that no driver does an op for `home`; waits for another thread's if need be.
pub(crate) fn release(
    worker: &Worker,
    home: &MultishotInbox,
    record: &WaitRecord,
) -> Result<(), OpError> {
    while let Some(id) = home.op() {
        if worker.with_driver(|driver| driver.stop_multishot(id)).unwrap_or(false) {
            continue;
        }
        let prepared = match park::prepare(worker, record) {
            Ok(prepared) => prepared,
            Err(Refused::Cancelled) => return Err(OpError::Cancelled),
            // It would have to wait for another thread.
            Err(Refused::Unwinding) => return Err(OpError::Elapsed),
        };
        if !home.request_stop(prepared.wake_word().to_bits()) {
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

/// Ends the op that a driver does for `home`, without waiting for another thread.
pub(crate) fn stop(home: &MultishotInbox) {
    let Some(id) = home.op() else { return };
    let is_own = worker::with_existing(|worker| {
        worker.with_open_driver(|driver| driver.stop_multishot(id)).unwrap_or(false)
    });
    if is_own != Some(true) {
        home.request_stop(WakeWord::NOBODY.to_bits());
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

    /// Says that a test is left out, past libtest, which shows only what failing tests print.
    fn skipped(reason: &str) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a test");
        let _ = writeln!(std::io::stderr(), "skipped: {name}: {reason}");
    }

    fn are_faults_on() -> bool {
        std::env::var("RAMIE_FAULTS").is_ok_and(|seed| !seed.is_empty())
    }

    /// Runs `f` on a worker with a ring, with an intake, the stream that it receives from and the
    /// peer that feeds it.
    fn on_a_ring(f: impl Fn(&mut Intake, &mut UnixStream, &mut UnixStream)) {
        match Runtime::builder().driver(Driver::Uring).workers(1).build() {
            Ok(runtime) => runtime.run(|| {
                let (mut ours, mut theirs) = UnixStream::pair().unwrap();
                let op = MultishotOp::Receive { fd: ours.as_raw_fd() };
                f(&mut Intake::new(op, Arc::default()), &mut ours, &mut theirs);
            }),
            Err(error) => skipped(&format!("no io_uring: {error}")),
        }
    }

    /// Where others take from the descriptor, too, each of their calls ends the op. Under faults
    /// ops end by themselves as well, and some are refused; then fewer come to bring bytes.
    #[test]
    fn an_intake_that_loses_its_op_again_and_again_begins_no_more() {
        const ROUNDS: u32 = 200;
        on_a_ring(|intake, ours, theirs| {
            let (mut ops, mut last) = (0, None);
            for _ in 0..ROUNDS {
                theirs.write_all(b"x").unwrap();
                let shot = intake.next(&BYTES, Deadline::NEVER).unwrap();
                if intake.id != last {
                    last = intake.id;
                    ops += u8::from(last.is_some());
                }
                if shot.is_none() {
                    ours.read_exact(&mut [0]).unwrap();
                }
                stop(&intake.home);
            }
            if ops == 0 {
                return skipped("the driver begins no multishot op");
            }
            assert_eq!(intake.starts_left, 0, "{ops} ops brought bytes in {ROUNDS} rounds");
            match are_faults_on() {
                true => assert!(ops <= MOST_STARTS, "{ops} ops brought bytes"),
                false => assert_eq!(ops, MOST_STARTS, "ops brought bytes"),
            }
        });
    }

    fn has_multishot() -> bool {
        let features = worker::current().with_driver(|driver| driver.caps().features).unwrap();
        features.has(Feature::Multishot) && features.has(Feature::BufferRing)
    }

    /// The same, with an intake that has an op.
    fn with_intake(f: impl Fn(&mut Intake, &mut UnixStream)) {
        if are_faults_on() {
            return skipped("faults end its op");
        }
        on_a_ring(|intake, _ours, theirs| {
            theirs.write_all(b"x").unwrap();
            match intake.next(&BYTES, Deadline::NEVER).unwrap() {
                Some(_) => f(intake, theirs),
                None if !has_multishot() => skipped("the ring has no multishot receives"),
                None => panic!("no op was begun"),
            }
        });
    }

    #[test]
    fn a_cancelled_call_takes_nothing_though_something_has_come() {
        with_intake(|intake, theirs| {
            theirs.write_all(b"y").unwrap();
            worker::current().turn_inline(Wait::Never);
            crate::core::cancel::scope(|scope| {
                scope.cancel();
                let cancelled = intake.next(&BYTES, Deadline::NEVER);
                assert!(matches!(cancelled, Err(OpError::Cancelled)));
            });
            assert!(intake.next(&BYTES, Deadline::NEVER).unwrap().is_some(), "it is not lost");
        });
    }

    /// A fiber without a scope, which otherwise waits plainly.
    #[test]
    fn a_wait_with_a_deadline_ends() {
        with_intake(|intake, _| {
            let late = intake.next(&BYTES, Deadline::after(std::time::Duration::from_millis(1)));
            assert!(matches!(late, Err(OpError::Elapsed)));
        });
    }
}
