//! The buffers of one driver: made when needed, kept when they come back, given back when idle.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Buffer, Lease, Returns, let_go};

/// If fewer bytes are left in a buffer that is filled part by part, they are not used.
const LEAST_PART: usize = 2048;

/// Free buffers of each size that an idle driver keeps.
const KEPT: usize = 4;

/// The result of a receive if there is no memory for a buffer.
const NO_MEMORY: i32 = -rustix::io::Errno::NOMEM.raw_os_error();

/// The sizes that buffers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Size {
    /// One receive each, if the kernel does not fill buffers part by part.
    Small,
    /// Bulk, and buffers filled part by part.
    Large,
    /// The longest datagram with the header that the kernel puts before it.
    Datagram,
}

impl Size {
    pub(crate) const ALL: [Size; 3] = [Size::Small, Size::Large, Size::Datagram];

    pub(crate) const fn bytes(self) -> usize {
        match self {
            Size::Small => 4 << 10,
            Size::Large => 32 << 10,
            Size::Datagram => (64 << 10) + 512,
        }
    }

    /// The length of its mapping: whole pages.
    pub(super) const fn mapped(self) -> usize {
        self.bytes().next_multiple_of(4096)
    }
}

/// A buffer that is being filled by the pool's own receives.
#[derive(Debug)]
struct Filling {
    buffer: NonNull<Buffer>,
    /// How far it is filled.
    cursor: usize,
}

/// The buffers of one driver.
#[derive(Debug)]
pub(crate) struct Pool {
    /// INVARIANT: nobody holds them.
    free: [Vec<NonNull<Buffer>>; Size::ALL.len()],
    filling: Option<Filling>,
    /// The bytes of buffers made here and not freed here; buffers that were lent when the pool
    /// closed are freed elsewhere.
    held: usize,
    returns: Arc<Returns>,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Pool { free: Default::default(), filling: None, held: 0, returns: Returns::new() }
    }

    /// Whether buffers have come back that [`reclaim`](Self::reclaim) has not seen.
    #[inline]
    pub(crate) fn has_returns(&self) -> bool {
        !self.returns.is_empty()
    }

    /// Takes in returned buffers.
    pub(crate) fn reclaim(&mut self) {
        for buffer in self.returns.take_all() {
            // SAFETY: taken off the stack, so it is alive and belongs to this call.
            let size = unsafe { buffer.as_ref() }.size();
            self.free[size as usize].push(buffer);
        }
    }

    /// Takes a buffer out with one hold, the caller's. None: there is no memory for one more.
    pub(crate) fn take(&mut self, size: Size) -> Option<NonNull<Buffer>> {
        if self.free[size as usize].is_empty() && self.has_returns() {
            self.reclaim();
        }
        if let Some(buffer) = self.free[size as usize].pop() {
            // SAFETY: free buffers are alive, and nobody holds them (invariant).
            unsafe { buffer.as_ref() }.holders.store(1, Ordering::Relaxed);
            return Some(buffer);
        }
        let buffer = Buffer::new(size, &self.returns)?;
        self.held += size.mapped();
        Some(buffer)
    }

    /// Calls `receive` with room, its address and length, and leases the bytes that it put there.
    ///
    /// # Errors
    /// The result of `receive` if it is below 0; `-ENOMEM` if there is no memory for a buffer.
    ///
    /// # Safety
    /// `receive` writes inside of the room only, and initializes as many bytes as it returns.
    pub(crate) unsafe fn fill(
        &mut self,
        receive: impl FnOnce(NonNull<u8>, usize) -> i32,
    ) -> Result<Lease, i32> {
        let size = Size::Large.bytes();
        let mut filling = match self.filling.take() {
            Some(filling) => filling,
            None => Filling { buffer: self.take(Size::Large).ok_or(NO_MEMORY)?, cursor: 0 },
        };
        // SAFETY: held by `filling`.
        let memory = unsafe { filling.buffer.as_ref() }.memory();
        // SAFETY: the cursor lies inside of the buffer.
        let room = unsafe { memory.add(filling.cursor) };
        let received = receive(room, size - filling.cursor);
        let Ok(len) = usize::try_from(received) else {
            self.filling = Some(filling);
            return Err(received);
        };
        let start = filling.cursor as u32;
        filling.cursor += len;
        // SAFETY: held by `filling`.
        unsafe { filling.buffer.as_ref() }.hold(1);
        // SAFETY: with the hold just made; the bytes were initialized by the caller's promise, and
        // the cursor has passed them.
        let lease = unsafe { Lease::new(filling.buffer, start, len as u32) };
        if size - filling.cursor < LEAST_PART {
            // SAFETY: the hold of `filling`, which is gone.
            unsafe { let_go(filling.buffer, 1) };
        } else {
            self.filling = Some(filling);
        }
        Ok(lease)
    }

    /// Calls `receive` with a whole buffer, and leases the bytes that it put there.
    ///
    /// # Errors
    /// The result of `receive` if it is below 0; `-ENOMEM` if there is no memory for a buffer.
    ///
    /// # Safety
    /// As [`fill`](Self::fill).
    pub(crate) unsafe fn fill_whole(
        &mut self,
        size: Size,
        receive: impl FnOnce(NonNull<u8>, usize) -> i32,
    ) -> Result<Lease, i32> {
        let buffer = self.take(size).ok_or(NO_MEMORY)?;
        // SAFETY: held since `take`.
        let memory = unsafe { buffer.as_ref() }.memory();
        let received = receive(memory, size.bytes());
        // SAFETY: with the hold of `take`; the bytes were initialized by the caller's promise.
        let lease = unsafe { Lease::new(buffer, 0, received.max(0) as u32) };
        if received < 0 { Err(received) } else { Ok(lease) }
    }

    /// Whether an idle driver has more than it needs.
    pub(crate) fn has_surplus(&self) -> bool {
        self.has_returns() || self.free.iter().any(|free| free.len() > KEPT)
    }

    /// Frees buffers that an idle driver does not need.
    pub(crate) fn give_back_surplus(&mut self) {
        self.reclaim();
        for (free, size) in self.free.iter_mut().zip(Size::ALL) {
            while free.len() > KEPT {
                let Some(buffer) = free.pop() else { break };
                self.held -= size.mapped();
                // SAFETY: free buffers are nobody's (invariant), and it is on no list any more.
                unsafe { Buffer::free(buffer) };
            }
            free.shrink_to(KEPT);
        }
    }

    /// The bytes of all buffers: free ones, those held by the kernel, and those lent out.
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(filling) = self.filling.take() {
            // SAFETY: the hold of `filling`, which is gone.
            unsafe { let_go(filling.buffer, 1) };
        }
        self.reclaim();
        let late = self.returns.close();
        for buffer in self.free.iter_mut().flat_map(std::mem::take).chain(late) {
            // SAFETY: nobody holds a buffer that is free or has come back, and it is on no list any
            // more.
            unsafe { Buffer::free(buffer) };
        }
    }
}
