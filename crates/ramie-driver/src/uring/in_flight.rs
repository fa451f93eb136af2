//! Which frames are in flight, so that a drain can ask for each to be cancelled.
//!
//! The kernel can cancel "everything" in one request, but walks all that is in flight once for
//! each op it cancels (75 s for 100,000). By name it finds each at once.

use std::ptr;

use crate::op::OpFrame;

/// As many places are kept however little is in flight.
const KEPT_PLACES: usize = 1024;

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
        if self.places.len() > KEPT_PLACES && self.len() < self.places.len() / 16 {
            self.close_ranks();
        }
    }

    /// Moves the few frames that are left together and gives back what a busy time has taken.
    #[cold]
    #[allow(unsafe_code)]
    fn close_ranks(&mut self) {
        // A new table: glibc would leave a large one that shrinks in a mapping of its own.
        self.places = self.places.iter().copied().filter(|frame| !frame.is_null()).collect();
        self.free = Vec::new();
        for (place, frame) in self.places.iter().enumerate() {
            // SAFETY: a frame stays where it is while it is in flight, which it is as long as it
            // is in this table (`Backend::submit`).
            unsafe { &**frame }.place.set(place as u32);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;

    #[test]
    fn places_are_given_back_when_little_is_in_flight() {
        let mut in_flight = InFlight::default();
        let frames: Vec<_> = (0..100_000).map(|_| OpFrame::new(Op::Nop)).collect();
        let (stay, go) = frames.split_at(3);
        for frame in go.iter().chain(stay) {
            in_flight.add(frame);
        }
        go.iter().for_each(|frame| in_flight.remove(frame));
        assert_eq!(in_flight.len(), stay.len());
        assert!(in_flight.places.capacity() <= 16 * KEPT_PLACES);
        for frame in stay {
            let place = frame.place.get() as usize;
            assert_eq!(in_flight.at(place), Some(ptr::from_ref(frame)));
            in_flight.remove(frame);
        }
        assert_eq!(in_flight.len(), 0);
    }
}
