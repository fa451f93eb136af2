//! The frames that are in flight, so that a drain can cancel each.
//!
//! One request can make the kernel cancel all ops, but the kernel then searches all ops in flight
//! once for each op that it cancels (75 s for 100,000). If a request names the op by its user data,
//! the kernel finds it at once.

use std::ptr;

use crate::op::OpFrame;

/// The number of entries that are kept even if few ops are in flight.
const KEPT_ENTRIES: usize = 1024;

/// A table of frames; each frame contains its index in it (`OpFrame::in_flight_index`).
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Frames, and in free entries the index of the next free entry, so that each op accesses one
    /// cache line of one table.
    entries: Vec<InFlightEntry>,
    /// The entry that was freed last, as [`InFlightEntry`] names it.
    free: InFlightEntry,
    len: usize,
    /// The number of times that frames have moved to other entries.
    changes: u32,
}

/// A frame's address; or, for a free entry, twice the index of the next free entry plus 1, or null
/// if there is none. (The address of a frame is even, because frames are aligned.)
#[derive(Clone, Copy, Debug)]
struct InFlightEntry(*const OpFrame);

impl Default for InFlightEntry {
    fn default() -> Self {
        InFlightEntry(ptr::null())
    }
}

impl InFlightEntry {
    #[inline]
    fn of(index: u32) -> Self {
        InFlightEntry(ptr::without_provenance(index as usize * 2 + 1))
    }

    /// Returns the index of the next free entry, if this contains one.
    #[inline]
    fn index(self) -> Option<u32> {
        (self.0.addr() & 1 == 1).then_some((self.0.addr() / 2) as u32)
    }

    fn frame(self) -> Option<*const OpFrame> {
        (!self.0.is_null() && self.index().is_none()).then_some(self.0)
    }
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn add(&mut self, frame: &OpFrame) {
        self.len += 1;
        let index = match self.free.index() {
            Some(index) => {
                let entry = &mut self.entries[index as usize];
                self.free = *entry;
                *entry = InFlightEntry(frame);
                index
            }
            None => self.add_entry(frame),
        };
        frame.in_flight_index.set(index);
    }

    #[cold]
    fn add_entry(&mut self, frame: &OpFrame) -> u32 {
        self.entries.push(InFlightEntry(frame));
        // Fits into 32 bits: a frame has 64 bytes, and no memory has room for 2^32 frames.
        (self.entries.len() - 1) as u32
    }

    #[inline]
    pub(super) fn remove(&mut self, frame: &OpFrame) {
        let index = frame.in_flight_index.get();
        let entry = &mut self.entries[index as usize];
        debug_assert!(ptr::eq(entry.0, frame));
        *entry = self.free;
        self.free = InFlightEntry::of(index);
        self.len -= 1;
        if self.entries.len() > KEPT_ENTRIES && self.len < self.entries.len() / 16 {
            self.close_ranks();
        }
    }

    /// Moves the few remaining frames to the front of a smaller table, and frees the memory of the
    /// large one.
    #[cold]
    #[allow(unsafe_code)]
    fn close_ranks(&mut self) {
        // A new table, because glibc would leave a large table that shrinks in a mapping of its
        // own.
        self.entries =
            self.entries.iter().copied().filter(|entry| entry.frame().is_some()).collect();
        self.free = InFlightEntry::default();
        self.changes = self.changes.wrapping_add(1);
        for (index, entry) in self.entries.iter().enumerate() {
            // SAFETY: a frame does not move while it is in flight (contract of `Driver::submit`),
            // and frames in this table are in flight.
            unsafe { &*entry.0 }.in_flight_index.set(index as u32);
        }
    }

    /// Returns the number of times that frames have moved to other entries, which is rare.
    pub(super) fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns the number of entries, including free ones.
    pub(super) fn table_len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the frame at an index; None if the entry is free.
    pub(super) fn at(&self, index: usize) -> Option<*const OpFrame> {
        self.entries.get(index)?.frame()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;

    #[test]
    fn entries_are_given_back_when_little_is_in_flight() {
        let mut in_flight = InFlight::default();
        let frames: Vec<_> = (0..100_000).map(|_| OpFrame::new(Op::Nop)).collect();
        let (stay, go) = frames.split_at(3);
        for frame in go.iter().chain(stay) {
            in_flight.add(frame);
        }
        go.iter().for_each(|frame| in_flight.remove(frame));
        assert_eq!(in_flight.len(), stay.len());
        assert!(in_flight.entries.capacity() <= 16 * KEPT_ENTRIES);
        assert!(in_flight.changes() > 0, "frames are in other entries now");
        for frame in stay {
            let index = frame.in_flight_index.get() as usize;
            assert_eq!(in_flight.at(index), Some(ptr::from_ref(frame)));
            in_flight.remove(frame);
        }
        assert_eq!(in_flight.len(), 0);
    }
}
