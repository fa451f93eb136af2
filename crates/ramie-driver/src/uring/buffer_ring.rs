//! Buffer rings: buffers among which the kernel chooses when bytes arrive.
//!
//! There is one ring of buffers, a *group*, for each size. The kernel holds the buffers on offer;
//! each completion names a buffer and the number of bytes that the kernel has written to it, and
//! that part becomes a lease. With incremental consumption (`IOU_PBUF_RING_INC`, 6.12) the kernel
//! fills a buffer part by part until it is full; otherwise one completion uses up one buffer.
//!
//! *The trap*: the kernel also reports by the flag `F_BUF_MORE` that it will continue to fill a
//! buffer. But before 6.12.94, 6.18.36 and 7.0.13 it omits the flag from a bundle that combines
//! several receives (CVE-2026-53191), and some of these kernels omit it at the end of a stream,
//! too. A driver that relied on the flag would free a buffer to which the kernel writes. So this
//! driver computes from the room left in the buffer whether the kernel continues.
//!
//! A bundle (`IORING_RECVSEND_BUNDLE`, 6.10) is one completion for the bytes of several buffers:
//! the buffer that it names, filled to its end, and the next ones in the order in which they were
//! offered. Bundles use only groups with incremental consumption, because the kernel shortens some
//! buffers of other groups when it bundles them, without a report.
//!
//! | a buffer ID of a group | changed by |
//! |---|---|
//! | free | `offer`, to on offer |
//! | on offer: the kernel has its buffer, filled up to `cursor` | a completion that fills it to its end, or any if it is not filled part by part, to free |
//!
//! A group begins with few buffers. Whenever the kernel has run out of buffers (`ENOBUFS`), the
//! wanted number doubles, unless memory was short. A used buffer is replaced when the next op is
//! armed. When the driver is idle, a group that has grown is unregistered as a whole, because a
//! single buffer cannot be taken back from the kernel. Ops that are armed with the old group then
//! end with `ENOBUFS` when bytes arrive, and are armed with a new one.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue};

use crate::buffer::{Buffer, Lease, Pool, Size, let_go};
use crate::feature::{Feature, FeatureSet};
use crate::logging;

#[cfg(test)]
mod tests;

/// The largest number of buffers of a group: a page of entries.
const MOST_BUFFERS: u16 = 256;
/// The number of buffers with which a group begins.
const FIRST: u16 = 8;
/// The largest number of parts of a buffer that are not empty, without the last one. (Only large
/// buffers are filled part by part.) The group makes as many holds when it offers the buffer, so
/// that leasing such a part needs no locked instruction, which takes about 20 cycles.
const MOST_PARTS: u16 = (Size::Large.bytes() - 1) as u16;
/// `IOU_PBUF_RING_INC`.
const INCREMENTAL: u16 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct OfferedBuffer {
    /// Set while the buffer is on offer. INVARIANT: this group owns a hold on the buffer, and
    /// `MOST_PARTS - parts` more if it is filled part by part.
    buffer: Option<NonNull<Buffer>>,
    cursor: u32,
    /// The parts that are leased and are not empty, without the last one.
    parts: u16,
    /// The index of the ring's entry in which the buffer was offered.
    at: u16,
}

impl OfferedBuffer {
    /// Ends the offer, in the books of the group and of the buffer. Returns the number of holds
    /// that the group has, and of those that leases have released and nobody has subtracted.
    fn withdraw(&self, is_incremental: bool, buffer: NonNull<Buffer>) -> u32 {
        if !is_incremental {
            return 1;
        }
        // SAFETY: the group has a hold on the buffer (invariant of the field).
        let released = unsafe { buffer.as_ref() }.withdraw();
        1 + u32::from(MOST_PARTS - self.parts) + released
    }
}

/// The buffers that a completion reports as filled.
pub(super) struct Filled {
    /// The ID of the first buffer.
    id: u16,
    len: u32,
}

impl Filled {
    /// Returns None if the completion uses no buffer.
    pub(super) fn of(result: i32, flags: u32) -> Option<Self> {
        let id = cqueue::buffer_select(flags)?;
        Some(Filled { id, len: result.max(0) as u32 })
    }
}

/// The group of one size of buffers.
struct Group {
    entries: NonNull<BufRingEntry>,
    tail: u16,
    is_incremental: bool,
    buffers: Box<[OfferedBuffer]>,
    /// For each entry of the ring, the ID of the buffer that it offers.
    offered: Box<[u16]>,
    free: Vec<u16>,
    /// The wanted number of buffers on offer.
    wanted: u16,
    /// Whether `wanted` buffers were on offer when the group was last filled up. If not, memory was
    /// short.
    was_full: bool,
}

fn layout() -> Layout {
    let bytes = usize::from(MOST_BUFFERS) * size_of::<BufRingEntry>();
    Layout::from_size_align(bytes, 4096).expect("a page")
}

impl Group {
    /// Registers a group with the kernel.
    fn register(ring: &IoUring, size: Size, is_incremental: bool) -> io::Result<Group> {
        // SAFETY: the layout's size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout()) }) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let flags = if is_incremental { INCREMENTAL } else { 0 };
        let submitter = ring.submitter();
        let address = memory.as_ptr() as u64;
        // SAFETY: the entries are freed after the group was unregistered, or the ring closed
        // (`Groups::close`).
        let done = unsafe {
            submitter.register_buf_ring_with_flags(address, MOST_BUFFERS, size as u16, flags)
        };
        if let Err(error) = done {
            // SAFETY: allocated above with this layout; the kernel has refused it.
            unsafe { dealloc(memory.as_ptr(), layout()) };
            return Err(error);
        }
        Ok(Group {
            entries: memory.cast(),
            tail: 0,
            is_incremental,
            buffers: (0..MOST_BUFFERS).map(|_| OfferedBuffer::default()).collect(),
            offered: (0..MOST_BUFFERS).collect(),
            free: (0..MOST_BUFFERS).rev().collect(),
            wanted: FIRST,
            was_full: false,
        })
    }

    fn on_offer(&self) -> u16 {
        MOST_BUFFERS - self.free.len() as u16
    }

    /// Offers buffers until the wanted number is on offer.
    fn fill_up(&mut self, pool: &mut Pool, size: Size) {
        if self.on_offer() >= self.wanted {
            self.was_full = true;
            return;
        }
        while self.on_offer() < self.wanted {
            let Some(buffer) = pool.take(size) else { break };
            let Some(id) = self.free.pop() else {
                crate::sys::fatal("a group that wants more buffers than it has IDs")
            };
            self.offer(id, buffer);
        }
        self.was_full = self.on_offer() >= self.wanted;
        // SAFETY: `entries` points to the first entry.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: the tail is an aligned `u16` in the page of entries; only this thread writes it.
        let tail = unsafe { &*tail.cast::<AtomicU16>() };
        // Release: the kernel sees the entries before the tail.
        tail.store(self.tail, Ordering::Release);
    }

    fn offer(&mut self, id: u16, buffer: NonNull<Buffer>) {
        let at = self.tail & (MOST_BUFFERS - 1);
        // SAFETY: the index is inside the page of entries.
        let entry = unsafe { self.entries.add(usize::from(at)) };
        // SAFETY: the pool has passed its hold on the buffer to this group.
        let head = unsafe { buffer.as_ref() };
        // SAFETY: the entry is behind the tail, so the kernel does not read it yet. These writes do
        // not change the tail, which is a field of the first entry.
        let entry = unsafe { &mut *entry.as_ptr() };
        entry.set_addr(head.memory().as_ptr() as u64);
        entry.set_len(head.size().bytes() as u32);
        entry.set_bid(id);
        if self.is_incremental {
            head.offer(u32::from(MOST_PARTS));
        }
        self.buffers[usize::from(id)] =
            OfferedBuffer { buffer: Some(buffer), cursor: 0, parts: 0, at };
        self.offered[usize::from(at)] = id;
        self.tail = self.tail.wrapping_add(1);
    }

    /// Leases the bytes of a completion, buffer by buffer.
    fn lease_each(&mut self, size: Size, filled: Filled, mut take: impl FnMut(Lease)) {
        let Filled { mut id, len: mut left } = filled;
        loop {
            let OfferedBuffer { cursor, at, .. } = self.buffers[usize::from(id)];
            let room = size.bytes() as u32 - cursor;
            let part = left.min(room);
            left -= part;
            take(self.lease(id, part, self.is_incremental && part < room));
            if left == 0 {
                return;
            }
            id = self.offered[usize::from((at + 1) & (MOST_BUFFERS - 1))];
        }
    }

    /// As [`Groups::lease_part`].
    #[inline]
    fn lease_part(&mut self, size: Size, Filled { id, len }: Filled) -> Option<Lease> {
        let room = size.bytes() as u32 - self.buffers.get(usize::from(id))?.cursor;
        let is_part = self.is_incremental && len > 0 && len < room;
        is_part.then(|| self.lease(id, len, true))
    }

    /// Leases the next `len` bytes of the buffer `id`. If `goes_on`, the kernel continues to fill
    /// the buffer.
    #[inline]
    fn lease(&mut self, id: u16, len: u32, goes_on: bool) -> Lease {
        let offered = &mut self.buffers[usize::from(id)];
        let Some(buffer) = offered.buffer else {
            crate::sys::fatal("the kernel has filled a buffer that was not on offer")
        };
        let start = offered.cursor;
        if goes_on && len > 0 {
            // One of the holds that `offer` made passes to the lease. They suffice, because each
            // of these parts has a byte, and the last part has one, too.
            offered.cursor += len;
            offered.parts += 1;
        } else if goes_on {
            // SAFETY: held by the entry of `buffers`.
            unsafe { buffer.as_ref() }.hold(1);
        } else {
            // One of the group's holds passes to the lease.
            let others = offered.withdraw(self.is_incremental, buffer) - 1;
            offered.buffer = None;
            self.free.push(id);
            // SAFETY: these are the group's other holds and released ones, not used again.
            unsafe { let_go(buffer, others) };
        }
        // SAFETY: the lease gets a hold, as above. The kernel has written these bytes, and from now
        // on writes only to the bytes after them (module documentation).
        unsafe { Lease::new(buffer, start, len) }
    }

    /// Releases the buffers on offer, and frees the entries.
    ///
    /// # Safety
    /// The kernel does not use the group any more.
    unsafe fn free(self) {
        for offered in self.buffers {
            if let Some(buffer) = offered.buffer {
                let holds = offered.withdraw(self.is_incremental, buffer);
                // SAFETY: these are the group's holds and released ones, not used again.
                unsafe { let_go(buffer, holds) };
            }
        }
        // SAFETY: allocated in `register` with this layout; the kernel no longer uses it (the
        // caller's promise).
        unsafe { dealloc(self.entries.as_ptr().cast(), layout()) };
    }
}

/// The groups of one ring.
#[derive(Default)]
pub(super) struct Groups {
    /// The groups by size; None if a group is not registered now.
    groups: [Option<Group>; Size::ALL.len()],
    /// Whether no group will be registered, because the kernel has refused one or the options
    /// forbid groups.
    refused: bool,
    /// Whether an op that must be submitted again has found no buffer.
    is_short: bool,
    /// By size: whether there was no memory for a single buffer at the last request.
    has_no_memory: [bool; Size::ALL.len()],
}

impl Groups {
    pub(super) fn new(are_to_be_had: bool) -> Self {
        Groups { refused: !are_to_be_had, ..Groups::default() }
    }

    /// Records that the kernel has run out of buffers of a size. Returns whether the op that found
    /// none should be submitted again: not if there will be no more buffers, or no memory for them.
    pub(super) fn note_shortage(&mut self, size: Size) -> bool {
        let are_to_be_had = !self.refused && !self.has_no_memory[size as usize];
        self.is_short |= are_to_be_had;
        are_to_be_had
    }

    pub(super) fn take_shortage(&mut self) -> bool {
        std::mem::take(&mut self.is_short)
    }

    /// Ensures that buffers of a size are on offer, and more than before if the kernel ran out of
    /// them. Returns false if there is no memory for buffers, or the kernel has refused groups.
    pub(super) fn prepare(
        &mut self,
        ring: &IoUring,
        pool: &mut Pool,
        (size, is_incremental): (Size, bool),
        ran_out: bool,
    ) -> bool {
        let group = &mut self.groups[size as usize];
        if group.is_none() && !self.refused {
            // Only for large buffers: a datagram, for example, would be cut off if little room were
            // left in its buffer.
            let is_incremental = is_incremental && size == Size::Large;
            match Group::register(ring, size, is_incremental) {
                Ok(new) => *group = Some(new),
                Err(error) => {
                    // Queued and logged later, because the logger is user code and the driver is in
                    // the middle of an op.
                    let line = format!(
                        "the ring cannot register receive buffers ({error}): receives take one each"
                    );
                    logging::later(log::Level::Warn, module_path!(), line);
                    self.refused = true;
                }
            }
        }
        let Some(group) = group else { return false };
        // If memory was short, wanting more buffers would make it shorter.
        if ran_out && group.on_offer() == 0 && group.was_full {
            group.wanted = (group.wanted * 2).min(MOST_BUFFERS);
        }
        group.fill_up(pool, size);
        let are_there = group.on_offer() > 0;
        self.has_no_memory[size as usize] = !are_there;
        are_there
    }

    /// Leases the bytes of a completion, if there are some and they are a part of one buffer that
    /// the kernel continues to fill. Otherwise returns None and changes nothing.
    #[inline]
    pub(super) fn lease_part(&mut self, size: Size, filled: Filled) -> Option<Lease> {
        self.groups[size as usize].as_mut()?.lease_part(size, filled)
    }

    /// Leases the bytes of a completion.
    pub(super) fn lease_each(&mut self, size: Size, filled: Filled, take: impl FnMut(Lease)) {
        match &mut self.groups[size as usize] {
            Some(group) => group.lease_each(size, filled, take),
            None => crate::sys::fatal("the kernel has filled a buffer of no group"),
        }
    }

    /// Offers new buffers in place of those that became leases.
    pub(super) fn refill(&mut self, pool: &mut Pool) {
        for (group, size) in self.groups.iter_mut().zip(Size::ALL) {
            if let Some(group) = group {
                group.fill_up(pool, size);
            }
        }
    }

    /// Whether a group has grown beyond its first size.
    pub(super) fn has_surplus(&self) -> bool {
        self.groups.iter().flatten().any(|group| group.wanted > FIRST)
    }

    /// Unregisters the groups that have grown. The caller then reaps the completions of bytes that
    /// arrived before, and calls [`free_retired`](Self::free_retired).
    pub(super) fn retire_surplus(&mut self, ring: &IoUring) -> Retired {
        let mut retired = Retired::default();
        for size in Size::ALL {
            let group = &self.groups[size as usize];
            if group.as_ref().is_some_and(|group| group.wanted > FIRST)
                && ring.submitter().unregister_buf_ring(size as u16).is_ok()
            {
                retired.0[size as usize] = true;
            }
        }
        retired
    }

    /// Frees unregistered groups. The caller has reaped all their completions.
    pub(super) fn free_retired(&mut self, retired: &Retired) {
        for (group, is_retired) in self.groups.iter_mut().zip(retired.0) {
            if is_retired && let Some(group) = group.take() {
                // SAFETY: unregistered in `retire_surplus`.
                unsafe { group.free() };
            }
        }
    }

    /// Unregisters every group. Called when no op is armed any more.
    pub(super) fn close(&mut self, ring: &IoUring) {
        for (group, size) in self.groups.iter_mut().zip(Size::ALL) {
            let Some(group) = group.take() else { continue };
            if ring.submitter().unregister_buf_ring(size as u16).is_ok() {
                // SAFETY: unregistered.
                unsafe { group.free() };
            } else {
                // Leaked, because the kernel may still use the group.
                std::mem::forget(group);
            }
        }
    }
}

/// The groups that `retire_surplus` has unregistered, by size.
#[derive(Default)]
pub(super) struct Retired([bool; Size::ALL.len()]);

impl Retired {
    pub(super) fn is_empty(&self) -> bool {
        !self.0.contains(&true)
    }
}

/// Returns the features of buffer rings that the kernel lacks, which registering a group shows.
pub(super) fn lacking(ring: &IoUring) -> FeatureSet {
    let takes = |is_incremental| match Group::register(ring, Size::Small, is_incremental) {
        Err(_) => false,
        Ok(group) => {
            let gone = ring.submitter().unregister_buf_ring(Size::Small as u16).is_ok();
            if gone {
                // SAFETY: unregistered.
                unsafe { group.free() };
            } else {
                std::mem::forget(group);
            }
            gone
        }
    };
    if takes(true) {
        return FeatureSet::EMPTY;
    }
    let lacking = FeatureSet::EMPTY.with(Feature::IncrementalBuffers);
    if takes(false) { lacking } else { lacking.with(Feature::BufferRing) }
}
