//! A ring of buffers that the kernel uses piece by piece (`IOU_PBUF_RING_INC`).
#![allow(unsafe_code)]

use std::{
    alloc::{Layout, alloc_zeroed, handle_alloc_error},
    io,
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
};

use io_uring::{Submitter, cqueue, types::BufRingEntry};

pub const GROUP: u16 = 0;
const COUNT: u16 = 64;
const BYTES: usize = 16 * 1024;
const INCREMENTAL: u16 = 2;
const PAGE: usize = 4096;

pub struct BufferRing {
    /// `COUNT` entries, which the kernel reads; the first holds the tail as well.
    entries: NonNull<BufRingEntry>,
    /// `COUNT` buffers of `BYTES`, which the kernel writes.
    memory: NonNull<u8>,
    tail: u16,
    /// The used part of each buffer.
    used: [usize; COUNT as usize],
}

impl BufferRing {
    /// Its memory is never freed, because the kernel may use it as long as the ring lives.
    pub fn new() -> io::Result<Self> {
        let entries = allocate(usize::from(COUNT) * size_of::<BufRingEntry>())?.cast();
        let memory = allocate(usize::from(COUNT) * BYTES)?;
        let mut ring = BufferRing { entries, memory, tail: 0, used: [0; COUNT as usize] };
        for id in 0..COUNT {
            ring.put_back(id);
        }
        Ok(ring)
    }

    /// # Safety
    /// It is not dropped before the ring; memory that the kernel has is used as the kernel allows.
    pub unsafe fn register(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        let address = self.entries.as_ptr() as u64;
        // SAFETY: entries and buffers are never freed.
        unsafe { submitter.register_buf_ring_with_flags(address, COUNT, GROUP, INCREMENTAL) }
            .map_err(|error| io::Error::other(format!("incremental buffers (Linux 6.12): {error}")))
    }

    /// The `count` bytes of a completion with these flags.
    pub fn taken(&mut self, count: usize, flags: u32) -> &[u8] {
        let id = usize::from(cqueue::buffer_select(flags).expect("a receive takes a buffer"));
        let start = id * BYTES + self.used[id];
        self.used[id] += count;
        // SAFETY: within `memory`, as the kernel does not write past a buffer's end.
        let first = unsafe { self.memory.add(start) };
        // SAFETY: the kernel has written them, and does not again before the buffer is put back.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), count) }
    }

    /// Called when the bytes of a completion with these flags, and all before them, are used up.
    pub fn put_back_if_used_up(&mut self, flags: u32) {
        if let Some(id) = cqueue::buffer_select(flags)
            && !cqueue::buffer_more(flags)
        {
            self.put_back(id);
        }
    }

    fn put_back(&mut self, id: u16) {
        self.used[usize::from(id)] = 0;
        // SAFETY: within `memory`.
        let buffer = unsafe { self.memory.add(usize::from(id) * BYTES) };
        // SAFETY: within the entries.
        let mut entry = unsafe { self.entries.add(usize::from(self.tail % COUNT)) };
        // SAFETY: only this code writes it until the tail has moved past it; then the kernel reads
        // it.
        let entry = unsafe { entry.as_mut() };
        entry.set_addr(buffer.as_ptr() as u64);
        entry.set_len(BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the entries begin there.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: aligned and alive; only this line writes it, and the kernel only reads it.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

fn allocate(bytes: usize) -> io::Result<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, PAGE).map_err(io::Error::other)?;
    // SAFETY: the size is not 0.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).map_or_else(|| handle_alloc_error(layout), Ok)
}
