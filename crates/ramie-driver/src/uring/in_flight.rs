//! Which frames are in flight, so that a drain can ask for each to be cancelled.
//!
//! The kernel can cancel "everything" in one request, but walks all that is in flight once for
//! each op it cancels (75 s for 100,000). By name it finds each at once.

use std::ptr;

use crate::op::OpFrame;

/// A table of frames; each knows its place in it (`OpFrame::place`).
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Null in free places.
    places: Vec<*const OpFrame>,
    free: Vec<u32>,
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    #[inline]
    pub(super) fn add(&mut self, frame: &OpFrame) {
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = frame;
                place
            }
            None => {
                self.places.push(frame);
                // Frames are 64 bytes: memory ends before 2^32 of them.
                (self.places.len() - 1) as u32
            }
        };
        frame.place.set(place);
    }

    #[inline]
    pub(super) fn remove(&mut self, frame: &OpFrame) {
        let place = frame.place.get();
        debug_assert!(ptr::eq(self.places[place as usize], frame));
        self.places[place as usize] = ptr::null();
        self.free.push(place);
    }

    /// How far places go; some are free.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    /// The frame in a place, if one is there.
    pub(super) fn at(&self, place: usize) -> Option<*const OpFrame> {
        self.places.get(place).copied().filter(|frame| !frame.is_null())
    }
}
