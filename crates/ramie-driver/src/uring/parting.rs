//! Closing a ring so that the kernel does not interrupt calls of the thread afterwards.
//!
//! When the last reference to a ring is dropped, the kernel takes the ring apart about 15 ms later,
//! on a thread of its own, and makes every thread that has used the ring take part. It interrupts
//! those threads as a signal does, so blocking calls that do not concern the ring, such as
//! `epoll_wait` or a receive with a timeout, return `EINTR`.
//!
//! To avoid this, a drained ring is *parked* instead of closed: it stays in the table of registered
//! rings of its thread ([`RegisteredRing`]), where it occupies no descriptor. The kernel takes it
//! apart when the thread ends and makes no more calls. That table is small: when [`MOST`] are
//! parked, the next drop closes these and the dropped one. If the thread is known to continue
//! ([`Driver::note_thread_goes_on`](crate::Driver::note_thread_goes_on)), the drop then waits until
//! the kernel has taken them apart, which takes 30 to 75 ms. Otherwise the drop returns at once.
//!
//! | a ring is | it leaves this state |
//! |---|---|
//! | open | when its driver is dropped: to parked; to closed if it cannot be parked |
//! | parked (80 KiB of kernel memory, no descriptor) | when a ring is dropped and [`MOST`] are parked: to closed; when its thread ends: to gone |
//! | closed | when the kernel has taken it apart: to gone |
//!
//! A ring cannot be parked if [`MOST`] are parked, if a kernel thread polls it, or before Linux
//! 5.18, where threads have no such table. There each drop on a thread that continues waits.
//!
//! To detect when a ring is gone, the writing end of a pipe is made its only registered file: the
//! kernel closes that end when it takes the ring apart.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::IoUring;

use super::registered_ring::RegisteredRing;
use crate::sys::fork::ForkMark;
use crate::sys::{self, raw};

/// The largest number of parked rings of a thread. The table has 16 entries, and the thread's open
/// rings need some of them.
const MOST: u32 = 8;

/// The longest wait for the kernel to take a ring apart.
const LIMIT: Duration = Duration::from_secs(1);

thread_local! {
    /// The indices of parked rings in the table of this thread, one bit each.
    static PARKED: Cell<u32> = const { Cell::new(0) };
    /// Whether a parked ring was dropped while the thread was known to continue.
    static GOES_ON: Cell<bool> = const { Cell::new(false) };
}

/// Its drop waits until the ring that was dropped before it, and the rings that were closed with
/// that one, are gone.
#[derive(Debug, Default)]
pub(super) struct Parting(Option<OwnedFd>);

impl Drop for Parting {
    fn drop(&mut self) {
        if let Some(reader) = self.0.take() {
            sys::await_hang_up(reader.as_fd(), LIMIT);
        }
    }
}

/// The facts that decide how a ring is left.
#[derive(Clone, Copy)]
pub(super) struct Prospect {
    /// Whether the ring may be parked, because no kernel thread polls it.
    pub(super) may_park: bool,
    /// Whether the ring's thread continues, and so makes calls that can be interrupted.
    pub(super) thread_goes_on: bool,
}

/// Parks a drained ring that is about to be dropped, or prepares the wait for its end. The caller
/// drops the result after the ring.
pub(super) fn part(
    ring: &IoUring,
    registered_ring: &mut RegisteredRing,
    prospect: Prospect,
) -> Parting {
    let parked = PARKED.get();
    let has_room = parked.count_ones() < MOST;
    if prospect.may_park
        && has_room
        && let Some(index) = registered_ring.index()
    {
        PARKED.set(parked | 1 << index);
        GOES_ON.set(GOES_ON.get() || prospect.thread_goes_on);
        registered_ring.stay();
        return Parting::default();
    }
    // In the child of a fork the table is empty: the parent's parked rings are not in it.
    let is_full = !has_room && !ForkMark::get().is_child();
    let waits = prospect.thread_goes_on || is_full && GOES_ON.get();
    let ends = waits.then(sys::pipe).and_then(Result::ok);
    let (reader, writer) = ends.unzip();
    if let Some(writer) = &writer {
        // If the registration fails, the drop does not wait.
        let _ = ring.submitter().register_files(&[writer.as_raw_fd()]);
    }
    if is_full {
        PARKED.set(0);
        GOES_ON.set(false);
        for index in (0..u32::BITS).filter(|index| parked & 1 << index != 0) {
            if let Some(writer) = &writer {
                // Works since Linux 6.3. Before, the drop waits only for the ring that is closed
                // last.
                let _ = raw::register_file_of_ring(index, writer.as_raw_fd());
            }
            raw::unregister_ring(ring.as_raw_fd(), index);
        }
    }
    registered_ring.give_back();
    Parting(reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves a new ring; returns whether the drop waits, or `None` if rings cannot be parked here.
    fn leave(thread_goes_on: bool) -> Option<bool> {
        let ring = IoUring::new(1).ok()?;
        let mut registered_ring = RegisteredRing::new(ring.as_raw_fd());
        registered_ring.register().ok()?;
        let parting =
            part(&ring, &mut registered_ring, Prospect { may_park: true, thread_goes_on });
        let waits = parting.0.is_some();
        drop((ring, parting));
        Some(waits)
    }

    #[test]
    fn rings_are_waited_for_only_by_a_thread_that_is_known_to_go_on() {
        let on_a_thread = || {
            if leave(false).is_none() {
                return println!("skipped: no ring can be parked here");
            }
            for _ in 1..MOST {
                assert_eq!(leave(false), Some(false), "it is parked");
            }
            assert_eq!(leave(false), Some(false), "nobody has said that the thread goes on");
            for at in 0..MOST {
                assert_eq!(leave(at == 3), Some(false), "it is parked");
            }
            assert_eq!(leave(false), Some(true), "one of those that were parked interrupts it");
            for _ in 0..MOST {
                assert_eq!(leave(false), Some(false), "it is parked");
            }
            assert_eq!(leave(true), Some(true));
        };
        std::thread::spawn(on_a_thread).join().unwrap();
    }
}
