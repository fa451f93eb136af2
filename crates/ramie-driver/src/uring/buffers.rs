//! The buffers of a ring: the pool that allocates them, and the groups that are on offer to the
//! kernel.

use super::buffer_ring::Groups;
use super::ring::Ring;
use crate::backend::Wait;
use crate::buffer::Pool;

/// A pool of buffers, and the groups that take buffers from it.
pub(super) struct Buffers {
    pub(super) pool: Pool,
    pub(super) groups: Groups,
}

impl Buffers {
    pub(super) fn new(groups: Groups) -> Self {
        Buffers { pool: Pool::new(), groups }
    }

    /// Takes back buffers that the program has returned, and offers buffers to the kernel up to the
    /// wanted number.
    pub(super) fn reclaim(&mut self) {
        if self.pool.has_returns() {
            self.pool.reclaim();
            self.groups.refill(&mut self.pool);
        }
    }

    /// Whether there are more buffers than an idle driver needs.
    pub(super) fn have_surplus(&self) -> bool {
        self.pool.has_surplus() || self.groups.has_surplus()
    }
}

impl Ring {
    /// Frees the buffers that an idle driver does not need.
    pub(super) fn give_back_surplus(&mut self) {
        let retired = self.reaper.buffers.groups.retire_surplus(&self.queue.ring);
        if !retired.is_empty() {
            // Buffers that the kernel had filled before: their completions are in the queue, or
            // follow as soon as there is room.
            self.reaper.wakes.note_woken();
            self.reap();
            while self.queue.has_overflowed() {
                self.wait_or_die(Wait::Never);
            }
            self.reaper.buffers.groups.free_retired(&retired);
        }
        self.reaper.buffers.pool.give_back_surplus();
    }
}
