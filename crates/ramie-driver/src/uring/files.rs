//! The ring's table of files; see [`fixed`](crate::fixed) for its use.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use io_uring::IoUring;
use rustix::io::Errno;

use super::ring::Ring;
use super::sqe;
use crate::backend::Wait;
use crate::feature::Feature;
use crate::fixed::{FixedFile, NO_SLOT, Notes};
use crate::op::Op;
use crate::sys::raw;

/// How many places a table has; the smaller one where `ulimit -n` does not allow the other.
const SIZES: [u32; 2] = [8192, 256];

/// The table, made when the first stream takes a place.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The ring's number; 0: it has no table.
    ring: u32,
    /// No table will be made.
    is_off: bool,
    size: u32,
    /// Of the places that have been used.
    generations: Vec<u16>,
    free: Vec<u16>,
    notes: Option<Arc<Notes>>,
}

/// Descriptors that files of the table get.
#[derive(Debug, Default)]
pub(super) struct Installs {
    /// The result of the last op that was to give a file a descriptor.
    installed: Option<i32>,
    /// How many ops that give a file a descriptor are in flight though their caller has given up.
    given_up: u32,
}

impl Installs {
    /// Notes the result of the oldest op that was to give a file a descriptor: a ring does such ops
    /// in their order.
    pub(super) fn note(&mut self, result: i32) {
        if self.given_up == 0 {
            self.installed = Some(result);
            return;
        }
        self.given_up -= 1;
        if result >= 0 {
            raw::close(result);
        }
    }
}

impl Files {
    pub(super) fn new(is_on: bool) -> Self {
        Files { is_off: !is_on, ..Files::default() }
    }

    /// Takes a place that is empty; none when all are taken.
    fn take(&mut self) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.generations.len() < self.size as usize => {
                self.generations.push(0);
                (self.generations.len() - 1) as u16
            }
            None => return None,
        };
        Some(u32::from(self.generations[usize::from(slot)]) << 16 | u32::from(slot))
    }

    /// Takes a place and puts a descriptor's file there.
    fn take_for(&mut self, ring: &IoUring, fd: RawFd) -> Option<u32> {
        let place = self.take()?;
        let slot = place as u16;
        match ring.submitter().register_files_update(u32::from(slot), &[fd]) {
            Ok(_) => Some(place),
            Err(_) => {
                self.free.push(slot);
                None
            }
        }
    }

    fn slot(&self, place: u32) -> u16 {
        let slot = place as u16;
        match self.generations.get(usize::from(slot)) {
            Some(generation) if u32::from(*generation) == place >> 16 => slot + 1,
            _ => NO_SLOT,
        }
    }

    fn give_back(&mut self, ring: &IoUring, place: u32) {
        let slot = self.slot(place);
        if slot == NO_SLOT {
            return;
        }
        let slot = slot - 1;
        let generation = &mut self.generations[usize::from(slot)];
        *generation = generation.wrapping_add(1);
        // A place that could not be emptied is not used again.
        if ring.submitter().register_files_update(u32::from(slot), &[-1]).is_ok() {
            self.free.push(slot);
        }
    }

    /// Empties the table: the ring itself may stay for a while after it is closed.
    pub(super) fn close(&self, ring: &IoUring) {
        if self.ring != 0 {
            Notes::close(self.ring);
            let _ = ring.submitter().unregister_files();
        }
    }

    /// The index by which an op on that file's descriptor may name it.
    #[inline]
    pub(super) fn index_of(&mut self, ring: &Ring, file: &FixedFile, op: &Op) -> u16 {
        match file.ring() {
            0 if !self.is_off => self.consider(ring, file, op),
            number if number == self.ring => self.slot(file.place()),
            _ => NO_SLOT,
        }
    }

    #[cold]
    #[inline(never)]
    fn consider(&mut self, ring: &Ring, file: &FixedFile, op: &Op) -> u16 {
        let Some(fd) = op.fd() else { return NO_SLOT };
        if !file.claims_place() || !self.make_table(ring) {
            return NO_SLOT;
        }
        match self.take_for(&ring.queue.ring, fd) {
            Some(place) => {
                file.set(self.ring, place);
                self.slot(place)
            }
            None => NO_SLOT,
        }
    }

    /// Takes an empty place for a file that is to get no descriptor. False: there is none.
    pub(super) fn reserve(&mut self, ring: &Ring, file: &FixedFile) -> bool {
        let has = |feature| ring.features.has(feature);
        let is_able = has(Feature::FixedFiles) && has(Feature::InstallFd);
        if self.is_off || !is_able || !self.make_table(ring) {
            return false;
        }
        let place = self.take();
        if let Some(place) = place {
            file.set(self.ring, place);
        }
        place.is_some()
    }

    /// Gives a file in the table a descriptor: the op is done as it is submitted.
    pub(super) fn install(&self, ring: &mut Ring, file: &FixedFile) -> io::Result<RawFd> {
        let slot = if file.ring() == self.ring { self.slot(file.place()) } else { 0 };
        if slot == NO_SLOT {
            return Err(Errno::BADF.into());
        }
        ring.reaper.installs.installed = None;
        ring.push(&sqe::install_entry(slot));
        while ring.reaper.installs.installed.is_none() {
            if let Err(error) = ring.enter(Wait::Until(Some(Duration::from_secs(1)))) {
                // The op may be done yet, and must not pass for the next one.
                ring.reaper.installs.given_up += 1;
                return Err(error);
            }
            ring.reap();
        }
        match ring.reaper.installs.installed.take() {
            Some(fd) if fd >= 0 => Ok(fd),
            Some(error) => Err(io::Error::from_raw_os_error(-error)),
            None => Err(Errno::IO.into()),
        }
    }

    /// Makes the table, unless there is one. False: it cannot be made.
    fn make_table(&mut self, ring: &Ring) -> bool {
        if self.ring != 0 || self.is_off {
            return !self.is_off;
        }
        let submitter = ring.queue.ring.submitter();
        let made = |size: &u32| submitter.register_files_sparse(*size).is_ok();
        let size = SIZES.into_iter().find(made);
        let notes = size.and_then(|_| Notes::open(ring.reaper.wakes.waker()));
        match size.zip(notes) {
            Some((size, (number, notes))) => {
                (self.size, self.ring, self.notes) = (size, number, Some(notes));
            }
            None => self.is_off = true,
        }
        !self.is_off
    }

    /// Gives the file's place back. False: it is not here.
    pub(super) fn release(&mut self, ring: &IoUring, file: &FixedFile) -> bool {
        let is_here = self.ring != 0 && file.ring() == self.ring;
        if is_here {
            self.give_back(ring, file.place());
        }
        is_here
    }

    /// Gives back the places of files that other threads have closed.
    #[inline]
    pub(super) fn heed_notes(&mut self, ring: &IoUring) {
        let Some(notes) = &self.notes else { return };
        for place in notes.take() {
            self.give_back(ring, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::IntoRawFd;

    use super::*;

    /// A descriptor that comes after its call has failed is closed, and is not the next call's.
    #[test]
    fn a_descriptor_that_nobody_waits_for_is_closed() {
        let mut installs = Installs::default();
        let (mut reader, writer) = std::io::pipe().unwrap();
        installs.given_up = 2;
        installs.note(-9);
        installs.note(writer.into_raw_fd());
        assert_eq!(installs.installed, None);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the writer is open");
        installs.note(77);
        assert_eq!(installs.installed, Some(77));
    }
}
