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
    /// A frame, or of a free place the next free one: so each op touches one line of one table.
    places: Vec<Place>,
    /// The place that was freed last, as [`Place`] names it.
    free: Place,
    len: usize,
    /// How often frames have moved to other places.
    changes: u32,
}

/// A frame's address, or twice the number of a place plus 1, or null: no more free places. (Frames
/// are aligned.)
#[derive(Clone, Copy, Debug)]
struct Place(*const OpFrame);

impl Default for Place {
    fn default() -> Self {
        Place(ptr::null())
    }
}

impl Place {
    #[inline]
    fn of(number: u32) -> Self {
        Place(ptr::without_provenance(number as usize * 2 + 1))
    }

    /// The number, if it is one.
    #[inline]
    fn number(self) -> Option<u32> {
        (self.0.addr() & 1 == 1).then_some((self.0.addr() / 2) as u32)
    }

    fn frame(self) -> Option<*const OpFrame> {
        (!self.0.is_null() && self.number().is_none()).then_some(self.0)
    }
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn add(&mut self, frame: &OpFrame) {
        self.len += 1;
        let number = match self.free.number() {
            Some(number) => {
                let place = &mut self.places[number as usize];
                self.free = *place;
                *place = Place(frame);
                number
            }
            None => self.add_place(frame),
        };
        frame.place.set(number);
    }

    #[cold]
    fn add_place(&mut self, frame: &OpFrame) -> u32 {
        self.places.push(Place(frame));
        // Frames are 64 bytes: memory ends before 2^32 of them.
        (self.places.len() - 1) as u32
    }

    #[inline]
    pub(super) fn remove(&mut self, frame: &OpFrame) {
        let number = frame.place.get();
        let place = &mut self.places[number as usize];
        debug_assert!(ptr::eq(place.0, frame));
        *place = self.free;
        self.free = Place::of(number);
        self.len -= 1;
        if self.places.len() > KEPT_PLACES && self.len < self.places.len() / 16 {
            self.close_ranks();
        }
    }

    /// Moves the few frames that are left together and gives back what a busy time has taken.
    #[cold]
    #[allow(unsafe_code)]
    fn close_ranks(&mut self) {
        // A new table: glibc would leave a large one that shrinks in a mapping of its own.
        self.places = self.places.iter().copied().filter(|place| place.frame().is_some()).collect();
        self.free = Place::default();
        self.changes = self.changes.wrapping_add(1);
        for (number, place) in self.places.iter().enumerate() {
            // SAFETY: a frame stays where it is while it is in flight (contract of
            // `Driver::submit`), which it is as long as it is in this table.
            unsafe { &*place.0 }.place.set(number as u32);
        }
    }

    /// How often frames have moved to other places, which they seldom do.
    pub(super) fn changes(&self) -> u32 {
        self.changes
    }

    /// How far places go; some are free.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    /// The frame in a place, if one is there.
    pub(super) fn at(&self, place: usize) -> Option<*const OpFrame> {
        self.places.get(place)?.frame()
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
        assert!(in_flight.changes() > 0, "frames are in other places now");
        for frame in stay {
            let place = frame.place.get() as usize;
            assert_eq!(in_flight.at(place), Some(ptr::from_ref(frame)));
            in_flight.remove(frame);
        }
        assert_eq!(in_flight.len(), 0);
    }
}
