//! Registered buffers: memory whose pages the kernel need not look up and pin for each op.
//!
//! | an entry of the table | changed by |
//! |---|---|
//! | empty | `register`, to taken |
//! | taken: the kernel has the region's pages | the region is dropped: to dead; `register` of another region when all entries are taken: to taken, by that region |
//! | dead: the pages are still pinned, but the region is gone | `register` or an idle driver: to empty or taken |
//!
//! *The race to fear* is an SQE that names an entry of the table, which another region takes before
//! the kernel reads the SQE. So queued SQEs are submitted before an entry is given to another
//! region; an op that the kernel has begun keeps the pages that it found. An op that is submitted
//! again names no region.
#![allow(unsafe_code)]

use std::slice;
use std::sync::{Arc, Weak};

use io_uring::IoUring;

use super::ring::Ring;
use crate::feature::Feature;
use crate::region::Region;
use crate::sys::abi::IoVec;

/// The largest number of regions that are registered with a ring at a time.
const MOST_REGIONS: usize = 64;

/// The regions that are registered with a ring.
#[derive(Default)]
pub(super) struct Regions {
    /// Empty until the first is registered.
    known: Vec<Weak<Region>>,
    /// The entry that the next region gets when all are taken.
    next: usize,
    /// Whether the kernel has refused the table, so that no region can be registered.
    refused: bool,
}

impl Regions {
    fn find(&self, region: &Arc<Region>) -> Option<usize> {
        self.known.iter().position(|known| known.as_ptr() == Arc::as_ptr(region))
    }

    /// Returns the index for a new region.
    fn choose(&mut self) -> usize {
        if let Some(free) = self.known.iter().position(|known| known.strong_count() == 0) {
            return free;
        }
        self.next = (self.next + 1) % MOST_REGIONS;
        self.next
    }

    /// Registers the region with the ring unless it is registered; returns its index. None if the
    /// kernel refuses, or the limit of locked memory is reached.
    pub(super) fn register(&mut self, ring: &mut Ring, region: &Arc<Region>) -> Option<u16> {
        if let Some(index) = self.find(region) {
            return Some(index as u16);
        }
        if self.refused || !ring.features.has(Feature::Regions) {
            return None;
        }
        if self.known.is_empty() {
            let submitter = ring.queue.ring.submitter();
            if submitter.register_buffers_sparse(MOST_REGIONS as u32).is_err() {
                self.refused = true;
                return None;
            }
            self.known = (0..MOST_REGIONS).map(|_| Weak::new()).collect();
        }
        let index = self.choose();
        if !ring.queue.is_empty() {
            ring.flush();
        }
        let part = IoVec { base: region.start().as_ptr(), len: region.len() };
        if !update(&ring.queue.ring, index, part) {
            return None;
        }
        self.known[index] = Arc::downgrade(region);
        Some(index as u16)
    }

    /// Whether pages of dropped regions are still pinned.
    pub(super) fn has_dead(&self) -> bool {
        self.known.iter().any(is_dead)
    }

    /// Unpins all pages. Dropping the ring might not, because it may be parked (parting.rs).
    pub(super) fn close(&mut self, ring: &IoUring) {
        if !std::mem::take(&mut self.known).is_empty() {
            let _ = ring.submitter().unregister_buffers();
        }
    }

    /// Unpins the pages of dropped regions.
    pub(super) fn give_back(&mut self, ring: &IoUring) {
        for (index, known) in self.known.iter_mut().enumerate().filter(|(_, known)| is_dead(known))
        {
            if update(ring, index, IoVec { base: std::ptr::null_mut(), len: 0 }) {
                *known = Weak::new();
            }
        }
    }
}

/// Whether the region of an entry was dropped. An entry made by `Weak::new` never had one.
fn is_dead(known: &Weak<Region>) -> bool {
    known.strong_count() == 0 && !known.ptr_eq(&Weak::new())
}

/// Updates an entry of the kernel's table.
fn update(ring: &IoUring, index: usize, part: IoVec) -> bool {
    // SAFETY: `IoVec` is laid out as `iovec`, and outlives the call.
    let parts = unsafe { slice::from_raw_parts((&raw const part).cast(), 1) };
    // SAFETY: the pages belong to the region, which is alive; the kernel keeps them pinned from
    // here on.
    unsafe { ring.submitter().register_buffers_update(index as u32, parts, None) }.is_ok()
}
