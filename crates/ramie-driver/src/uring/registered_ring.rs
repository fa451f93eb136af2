//! Entering the ring from the worker's thread: by an index that the thread has registered, if
//! possible.
//!
//! For each enter by a descriptor the kernel looks up and reference-counts the file. A thread can
//! make it do so once (`IORING_REGISTER_RING_FDS`) and then enter by the index. This saves 30 ns,
//! of 150 for an enter that finds no work and 260 for one with an op.
//!
//! The index is valid only on the thread that registered it: a sidecar enters by the descriptor,
//! and the child of a fork has an empty table. An entry of the table keeps the ring open, so it is
//! removed before the ring is closed.

use std::os::fd::RawFd;

use io_uring::EnterFlags;
use rustix::io::Errno;

use crate::sys::abi::Timespec;
use crate::sys::raw;

/// The name by which a thread enters a ring: an index in the thread's table, or the descriptor.
#[derive(Debug)]
pub(super) struct RegisteredRing {
    ring: RawFd,
    index: Option<u32>,
}

impl RegisteredRing {
    /// Names the ring by its descriptor.
    pub(super) fn new(ring: RawFd) -> Self {
        RegisteredRing { ring, index: None }
    }

    /// Registers the ring in this thread's table.
    ///
    /// # Errors
    /// `INVAL`: the kernel is older than Linux 5.18. `BUSY`: the table, which has 16 entries, is
    /// full.
    pub(super) fn register(&mut self) -> Result<(), Errno> {
        self.index = Some(raw::register_ring(self.ring)?);
        Ok(())
    }

    /// Returns the ring's index in the table, if it has one.
    pub(super) fn index(&self) -> Option<u32> {
        self.index
    }

    /// Leaves the ring in the table when its descriptor is closed.
    pub(super) fn stay(&mut self) {
        self.index = None;
    }

    /// Takes the ring out of the table.
    pub(super) fn give_back(&mut self) {
        if let Some(index) = self.index.take() {
            raw::unregister_ring(self.ring, index);
        }
    }

    /// Submits `len` entries and waits for `least` completions, for at most `limit`. Also makes the
    /// kernel do its deferred work, which would otherwise take another enter.
    pub(super) fn enter(
        &self,
        (len, least): (u32, u32),
        mut flags: EnterFlags,
        limit: Option<&Timespec>,
    ) -> Result<u32, Errno> {
        flags |= EnterFlags::GETEVENTS;
        flags.set(EnterFlags::EXT_ARG, limit.is_some());
        flags.set(EnterFlags::REGISTERED_RING, self.index.is_some());
        let name = self.index.map_or(self.ring, |index| index as i32);
        raw::ring_enter(name, (len, least), flags.bits(), limit)
    }
}
