//! Names of strands: a header's index with a generation, or with the epoch of one wait.

use std::{fmt, num::NonZero};

/// Identifies one strand for as long as the process runs; ids are not reused.
///
/// The low 32 bits are the index of the strand's header, the next 31 the header's generation, and
/// the top bit distinguishes an OS thread from a fiber.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FiberId(NonZero<u64>);

pub(super) const THREAD_TAG: u32 = 1 << 31;

impl FiberId {
    pub(crate) fn new(index: u32, generation: u32) -> Self {
        // A header in use has a generation of at least 1 (`StrandHeader::open`).
        FiberId(NonZero::new(Self::bits(index, generation)).unwrap_or(NonZero::<u64>::MIN))
    }

    /// The id as a word; never 0 for a strand.
    #[inline(always)]
    pub(crate) fn bits(index: u32, generation: u32) -> u64 {
        u64::from(generation) << 32 | u64::from(index)
    }

    pub(crate) fn index(self) -> u32 {
        self.as_u64() as u32
    }

    /// The generation with the thread tag, as it stands in the header's wait word.
    pub(crate) fn generation(self) -> u32 {
        (self.as_u64() >> 32) as u32
    }

    /// The two numbers of the text of the id: the index, and the generation without the tag.
    pub(crate) fn parts(self) -> (u32, u32) {
        (self.index(), self.generation() & !THREAD_TAG)
    }

    /// Returns whether the strand is an OS thread rather than a fiber.
    pub fn is_thread(self) -> bool {
        self.generation() & THREAD_TAG != 0
    }

    pub(crate) fn as_u64(self) -> u64 {
        self.0.get()
    }

    /// The id of a word that locks and records keep; none: 0.
    pub(crate) fn from_u64(id: u64) -> Option<FiberId> {
        NonZero::new(id).map(FiberId)
    }
}

/// Writes the index and the generation, as in `12.1`.
impl fmt::Display for FiberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, use_of_it) = self.parts();
        write!(f, "{index}.{use_of_it}")
    }
}

impl fmt::Debug for FiberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FiberId({self})")
    }
}

/// Names one wait of one strand: a header's index and the epoch of the wait.
///
/// Every thread that may end a wait keeps such a copy, never a pointer into the waiter's frame. A
/// reference whose wait is over is stale: [`StrandHeader::claim`](super::StrandHeader::claim)
/// refuses it. Epochs have 24 bits; if one is reached again while a waker is stalled, the waiter
/// wakes spuriously, which every wait tolerates because it re-checks its condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WakeRef(u64);

pub(super) const EPOCH_MASK: u64 = (1 << 24) - 1;

impl WakeRef {
    pub(super) fn new(index: u32, epoch: u64) -> Self {
        // Bit 63 is set so that a reference is never zero, 1 or 2: words that hold a reference or a
        // small constant can distinguish them.
        WakeRef(1 << 63 | u64::from(index) << 24 | (epoch & EPOCH_MASK))
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        (bits >> 63 == 1).then_some(WakeRef(bits))
    }

    /// The index of the header of the strand that waits.
    pub(crate) fn header_index(self) -> u32 {
        (self.0 >> 24) as u32
    }

    pub(super) fn epoch(self) -> u64 {
        self.0 & EPOCH_MASK
    }

    /// Ends the wait that this names, if it is not over; the caller then schedules the strand.
    ///
    /// At most one caller ever gets the strand of one wait.
    #[inline]
    pub(crate) fn claim(self, reason: super::Wake) -> Option<&'static super::StrandHeader> {
        let header = super::header_at(self.header_index());
        header.claim(self, reason).then_some(header)
    }

    /// Ends the wait that this names, if it is not over, and makes its strand runnable.
    #[inline]
    pub(crate) fn wake(self, reason: super::Wake) -> bool {
        let header = self.claim(reason);
        header.map(crate::core::worker::schedule).is_some()
    }
}
