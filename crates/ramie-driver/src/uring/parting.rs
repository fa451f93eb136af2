//! How a thread parts from its ring without being interrupted afterwards.
//!
//! When the last reference to a ring goes, the kernel takes the ring apart in a thread of its own,
//! some 15 ms later, and has each thread that used it take part. It interrupts that thread as a
//! signal does, and calls of the program that has long left the ring behind return `EINTR`:
//! `epoll_wait`, a receive with a time-out. So a ring that has nothing left to do is kept instead,
//! *parked*: in the table of rings of its thread ([`Doorway`]), where it takes no descriptor. There
//! it goes with the thread, which then makes no more calls. A thread that lives on and parks a ring
//! again and again closes them when they are [`MOST`], and waits until the kernel has taken them
//! apart.
//!
//! | a ring | left by |
//! |---|---|
//! | open | its driver is dropped, to parked, or to closed where there is no room or no table |
//! | parked: 80 KiB of the kernel's, no descriptor | as many as may be are parked: to closed; its thread ends: to gone |
//! | closed | the kernel has taken it apart: to gone. Whoever closed it waits for that, if its thread goes on |
//!
//! Before Linux 5.18 there is no table, and the ring is closed and waited for, which takes some
//! 30 ms. That holds for each ring of a thread that goes on, also for one that was made to try
//! whether rings can be had.
//!
//! How to know that it is gone: the ring is given the writing end of a pipe as its only registered
//! file, and that end is closed with the ring.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::IoUring;

use super::doorway::Doorway;
use crate::Driver;
use crate::sys::fork::ForkMark;
use crate::sys::{self, raw};

/// How many rings a thread parks. The table has 16 places, and the thread's other rings want some.
const MOST: u32 = 8;

/// The longest wait for the kernel to take a ring apart.
const LIMIT: Duration = Duration::from_secs(1);

thread_local! {
    /// The places of parked rings in the table of this thread, a bit each.
    static PARKED: Cell<u32> = const { Cell::new(0) };
}

/// Dropped after its ring: waits until that and others are gone, if somebody would notice.
#[derive(Debug, Default)]
pub(super) struct Parting(Option<OwnedFd>);

impl Drop for Parting {
    fn drop(&mut self) {
        if let Some(reader) = self.0.take() {
            sys::await_hang_up(reader.as_fd(), LIMIT);
        }
    }
}

impl Driver {
    /// Notes that this thread makes calls of its own after it has dropped the driver. Dropping a
    /// ring then waits, where it must, until the kernel has taken the ring apart: that interrupts
    /// calls of the thread (`EINTR`) some ms later.
    pub fn note_thread_goes_on(&mut self) {
        if let Some(ring) = self.ring() {
            ring.note_thread_goes_on();
        }
    }
}

/// What is to become of a ring.
#[derive(Clone, Copy)]
pub(super) struct Prospect {
    /// Nothing of it works on by itself.
    pub(super) may_park: bool,
    /// Its thread will make calls that can be interrupted.
    pub(super) thread_goes_on: bool,
}

/// Takes leave of a ring that is drained and about to be closed.
pub(super) fn part(ring: &IoUring, doorway: &mut Doorway, prospect: Prospect) -> Parting {
    let parked = PARKED.get();
    let has_room = parked.count_ones() < MOST;
    if prospect.may_park
        && has_room
        && let Some(place) = doorway.place()
    {
        PARKED.set(parked | 1 << place);
        doorway.stay();
        return Parting::default();
    }
    // The parked ones of a parent are not in the table of its child.
    let is_full = !has_room && !ForkMark::get().is_child();
    let ends = (prospect.thread_goes_on || is_full).then(sys::pipe).and_then(Result::ok);
    let (reader, writer) = ends.unzip();
    if let Some(writer) = &writer {
        // Where it cannot be, there is no wait.
        let _ = ring.submitter().register_files(&[writer.as_raw_fd()]);
    }
    if is_full {
        PARKED.set(0);
        for place in (0..u32::BITS).filter(|place| parked & 1 << place != 0) {
            if let Some(writer) = &writer {
                // Since Linux 6.3; before, the ring that is closed last stands for all.
                let _ = raw::register_file_of_place(place, writer.as_raw_fd());
            }
            raw::unregister_ring(ring.as_raw_fd(), place);
        }
    }
    doorway.give_back();
    Parting(reader)
}
