//! The waiting ops, by descriptor.

use std::{
    ops::{Index, IndexMut},
    os::fd::RawFd,
    ptr::NonNull,
};

use super::vain::Vain;
use crate::{
    completed::FrameList,
    op::{Op, OpFrame},
    sys::{POLL_IN, POLL_OUT},
};

/// The ops that wait for one descriptor, and its registration in the epoll set.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) readers: FrameList,
    pub(super) writers: FrameList,
    /// Ops that only wait for readiness, of any kind.
    pub(super) pollers: FrameList,
    /// The number of times that the registration was deleted; part of the key of events.
    pub(super) generation: u32,
    /// Whether the kernel probably has a registration for the number. A guess, because another
    /// thread may have closed the descriptor.
    pub(super) registered: bool,
    /// The events for which the registration is armed, as bits of poll(2).
    pub(super) armed: u32,
    /// Whether the descriptor is *kept*: registered for edges, also between waits.
    pub(super) is_kept: bool,
    /// For a kept descriptor: the events that edges have reported and no call has contradicted
    /// since, as bits of poll(2).
    pub(super) ready: u32,
    /// For a kept descriptor: whether a receive that does not fill its buffer has emptied the
    /// socket.
    pub(super) is_drained_by_short: bool,
    /// For a kept descriptor: whether an edge has reported the end of the data to read.
    pub(super) has_ended: bool,
    pub(super) vain: Vain,
}

impl Slot {
    fn new() -> Self {
        Slot {
            readers: FrameList::new(),
            writers: FrameList::new(),
            pollers: FrameList::new(),
            generation: 0,
            registered: false,
            armed: 0,
            is_kept: false,
            ready: 0,
            is_drained_by_short: false,
            has_ended: false,
            vain: Vain::default(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.readers.is_empty() && self.writers.is_empty() && self.pollers.is_empty()
    }

    pub(super) fn queue(&mut self, op: &Op) -> &mut FrameList {
        match op {
            Op::Poll { .. } => &mut self.pollers,
            _ if op.readiness() == POLL_OUT => &mut self.writers,
            _ => &mut self.readers,
        }
    }

    /// Returns the events for which any op waits.
    pub(super) fn interests(&self) -> u32 {
        let polled = self.pollers.iter().fold(0, |all, frame| all | frame.op.readiness());
        let read = if self.readers.is_empty() { 0 } else { POLL_IN };
        let written = if self.writers.is_empty() { 0 } else { POLL_OUT };
        polled | read | written
    }

    /// Iterates over all waiting ops.
    pub(super) fn frames(&self) -> impl Iterator<Item = &OpFrame> {
        self.readers.iter().chain(self.writers.iter()).chain(self.pollers.iter())
    }

    pub(super) fn pop(&mut self) -> Option<NonNull<OpFrame>> {
        let first = self.readers.pop().or_else(|| self.writers.pop());
        first.or_else(|| self.pollers.pop())
    }
}

/// The number of slots in a page. A page is so small that the allocator takes it from its heap, not
/// from a mapping of its own.
const PAGE: usize = 64;

/// The slots, by descriptor number. They lie in pages, which do not move, because a single array
/// would be copied as it grows.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pages: Vec<Box<[Slot]>>,
}

impl Slots {
    /// Ensures that there is a slot for the descriptor.
    pub(super) fn reach(&mut self, fd: RawFd) {
        while self.len() <= fd as usize {
            self.pages.push((0..PAGE).map(|_| Slot::new()).collect());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len() * PAGE
    }

    pub(super) fn get(&self, fd: RawFd) -> Option<&Slot> {
        let at = usize::try_from(fd).ok()?;
        self.pages.get(at / PAGE).map(|page| &page[at % PAGE])
    }

    pub(super) fn get_mut(&mut self, fd: RawFd) -> Option<&mut Slot> {
        let at = usize::try_from(fd).ok()?;
        self.pages.get_mut(at / PAGE).map(|page| &mut page[at % PAGE])
    }
}

impl Index<RawFd> for Slots {
    type Output = Slot;

    fn index(&self, fd: RawFd) -> &Slot {
        &self.pages[fd as usize / PAGE][fd as usize % PAGE]
    }
}

impl IndexMut<RawFd> for Slots {
    fn index_mut(&mut self, fd: RawFd) -> &mut Slot {
        &mut self.pages[fd as usize / PAGE][fd as usize % PAGE]
    }
}
