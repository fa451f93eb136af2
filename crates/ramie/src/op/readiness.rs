//! Repeated waits for readiness, for calls that refuse to wait.
//!
//! Such a call is a loop: it tries, waits until the descriptor is ready, and tries again. The call
//! may still find nothing: another strand may have taken the data, or the descriptor may stay ready
//! for something that this call does not take. If it stays ready, each wait ends at once, and on
//! the polling driver without a switch, so the loop would keep its worker from its timers and its
//! other fibers. So each further wait first lets the others run, and after [`PATIENCE`] waits it
//! pauses, each time longer.
//!
//! An accept among several processes never pauses. A listener is ready only while a connection is
//! in its queue, so a wait that ends has not ended in vain: another process was faster. A pause
//! would leave the next connection waiting although this worker is idle.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    time::Duration,
};

use ramie_driver::{Op, sys::monotonic_ns};

use super::{OpError, fixed_file::FdName, request};
use crate::core::{cancel, time::Deadline, wait::park::WaitKind, worker};

/// The number of waits in a row that may be in vain before the strand pauses.
const PATIENCE: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);
/// A wait that took longer was not in vain.
const TRUE_WAIT_NS: u64 = 10_000_000;

/// The waits of one call.
#[derive(Default)]
pub(crate) struct Readiness {
    /// The number of waits in a row that have ended.
    waits: u32,
    /// The descriptor is ready only if there is something for this call.
    is_race: bool,
}

impl Readiness {
    /// The waits of a call that finds nothing only if another call was faster.
    pub(crate) fn of_race() -> Self {
        Readiness { waits: 0, is_race: true }
    }

    /// Returns the pause before the next wait; None: it is enough to let other fibers run.
    fn pause(&self) -> Option<Duration> {
        let doublings = self.waits.checked_sub(PATIENCE).filter(|_| !self.is_race)?;
        Some((FIRST_PAUSE * (1 << doublings.min(16))).min(LONGEST_PAUSE))
    }

    /// Waits until the descriptor may be ready for one of `events`.
    ///
    /// # Errors
    /// Those of an op; `Elapsed` also if the deadline has passed and the last wait was in vain.
    #[track_caller]
    pub(crate) fn wait(
        &mut self,
        kind: &'static WaitKind,
        fd: FdName<'_>,
        events: u32,
        deadline: Deadline,
    ) -> Result<(), OpError> {
        if self.waits == 0 {
            self.waits = 1;
            return await_readiness(kind, fd, events, deadline).map(drop);
        }
        self.let_others_run();
        if deadline.has_passed() {
            return Err(OpError::Elapsed);
        }
        let start = monotonic_ns();
        await_readiness(kind, fd, events, deadline)?;
        let was_true = monotonic_ns() - start > TRUE_WAIT_NS;
        self.waits = if was_true { 1 } else { self.waits.saturating_add(1) };
        Ok(())
    }

    #[cold]
    #[track_caller]
    fn let_others_run(&self) {
        match self.pause() {
            None => worker::yield_now(),
            Some(pause) => worker::pause(pause),
        }
    }

    /// Returns whether the socket is ready because it was shut down. The caller must then look once
    /// more for data that arrived before.
    pub(crate) fn is_end(&self, fd: impl AsFd) -> bool {
        self.waits > 0 && ramie_driver::sys::is_shut_down_for_reading(fd)
    }
}

/// Repeats a call that refuses to wait, each time the descriptor is ready, until the result is not
/// `WouldBlock`. If the descriptor is blocking, the first call, too, waits until it is ready.
///
/// # Cancellation
/// A cancel point.
#[track_caller]
pub(crate) fn call_until_done<R>(
    kind: &'static WaitKind,
    fd: BorrowedFd<'_>,
    events: u32,
    is_nonblocking: bool,
    mut call: impl FnMut() -> io::Result<R>,
) -> io::Result<R> {
    let mut may_call = is_nonblocking;
    let mut readiness = Readiness::default();
    loop {
        cancel::check_io()?;
        if may_call {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => {
                    worker::note_complete_at_once();
                    return result;
                }
            }
        }
        readiness.wait(kind, fd.into(), events, Deadline::NEVER)?;
        may_call = true;
    }
}

/// The frame of this function is the last one of an idle connection, whose stack should fit into
/// one page. The request is inlined, so it lies in this frame once.
#[track_caller]
#[inline(never)]
fn await_readiness(
    kind: &'static WaitKind,
    fd: FdName<'_>,
    events: u32,
    deadline: Deadline,
) -> Result<u32, OpError> {
    let op = Op::Poll { fd: fd.as_raw_fd(), events };
    // SAFETY: it points to nothing; the file is that of the stream with this descriptor.
    unsafe { request(kind, op).until(deadline).on(fd.fixed_file()).perform_inline() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_vain_are_followed_by_pauses_that_grow() {
        let pause = |waits| Readiness { waits, ..Readiness::default() }.pause();
        assert_eq!(pause(PATIENCE - 1), None);
        assert_eq!(pause(PATIENCE), Some(FIRST_PAUSE));
        assert_eq!(pause(PATIENCE + 1), Some(FIRST_PAUSE * 2));
        assert_eq!(pause(u32::MAX), Some(LONGEST_PAUSE));
    }

    #[test]
    fn lost_races_are_followed_by_no_pause() {
        let lost = Readiness { waits: u32::MAX, ..Readiness::of_race() };
        assert_eq!(lost.pause(), None);
    }
}
