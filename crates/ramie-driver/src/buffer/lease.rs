//! A part of a buffer, lent out.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use super::{Buffer, let_go_of_lease};

/// Bytes that were received, in a buffer of the driver's: a `[u8]` that nobody else sees.
///
/// The buffer is returned when the last of its leases is dropped, on any thread, also after the
/// driver was dropped. A lease keeps its whole buffer (4 to 68 KiB) from being reused, so copy
/// (`to_vec`) bytes that you keep for long.
pub struct Lease {
    /// INVARIANT: the lease has a hold on it.
    pub(super) buffer: NonNull<Buffer>,
    /// The place of the first byte in the buffer, and in the high half the number of bytes. In one
    /// word, because a value of two words is returned in two registers. A value of three parts goes
    /// through memory, and a load of all of it right after the stores of its parts stalls the CPU
    /// for up to 15 cycles.
    ///
    /// INVARIANT: these bytes lie in the buffer, are initialized, and neither another lease nor the
    /// writer of the buffer has any of them.
    part: u64,
}

const LEN_SHIFT: u32 = u32::BITS;

fn part(start: u32, len: u32) -> u64 {
    u64::from(start) | u64::from(len) << LEN_SHIFT
}

// SAFETY: the bytes are the lease's own, and the buffer's head is made of atomics.
unsafe impl Send for Lease {}
// SAFETY: as above; a shared lease only reads.
unsafe impl Sync for Lease {}

impl Lease {
    /// # Safety
    /// The caller gives its hold on the buffer; the part is initialized, inside of the buffer and
    /// nobody else's.
    #[inline]
    pub(crate) unsafe fn new(buffer: NonNull<Buffer>, start: u32, len: u32) -> Self {
        Lease { buffer, part: part(start, len) }
    }

    #[inline]
    fn start(&self) -> u32 {
        self.part as u32
    }

    /// The number of bytes.
    #[inline]
    fn count(&self) -> u32 {
        (self.part >> LEN_SHIFT) as u32
    }

    /// Drops `count` bytes at the front.
    ///
    /// # Panics
    /// There are fewer.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.count() as usize, "a lease of {} bytes has no {count}", self.count());
        self.part = part(self.start() + count as u32, self.count() - count as u32);
    }

    /// Keeps `len` bytes and drops the rest; a shorter lease stays as it is.
    pub fn truncate(&mut self, len: usize) {
        self.part = part(self.start(), self.count().min(len.min(u32::MAX as usize) as u32));
    }

    /// Splits the bytes: this lease keeps those before `at`, the new one has those from there.
    ///
    /// # Panics
    /// There are fewer than `at`.
    #[must_use = "the bytes behind `at` are in the lease that is returned"]
    pub fn split_off(&mut self, at: usize) -> Lease {
        assert!(at <= self.count() as usize, "a lease of {} bytes has no byte {at}", self.count());
        let (start, len, at) = (self.start(), self.count(), at as u32);
        // SAFETY: held by this lease.
        unsafe { self.buffer.as_ref() }.hold(1);
        let rest = Lease { buffer: self.buffer, part: part(start + at, len - at) };
        self.part = part(start, at);
        rest
    }

    fn first(&self) -> NonNull<u8> {
        // SAFETY: held by this lease.
        let memory = unsafe { self.buffer.as_ref() }.memory();
        // SAFETY: inside of the buffer (invariant of the fields).
        unsafe { memory.add(self.start() as usize) }
    }
}

impl Deref for Lease {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: initialized, inside of the buffer and this lease's own (invariant of the fields).
        unsafe { slice::from_raw_parts(self.first().as_ptr(), self.count() as usize) }
    }
}

impl DerefMut for Lease {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`.
        unsafe { slice::from_raw_parts_mut(self.first().as_ptr(), self.count() as usize) }
    }
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("len", &self.count()).finish_non_exhaustive()
    }
}

impl Drop for Lease {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the lease's own hold (invariant of the field), not used again.
        unsafe { let_go_of_lease(self.buffer) }
    }
}
