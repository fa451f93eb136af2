//! The ring's table of files; see [`fixed`](crate::fixed) for who uses it and when.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use io_uring::IoUring;

use super::Uring;
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
    /// What came of the last file that was to get a descriptor.
    installed: Option<i32>,
    /// How many ops that give a file a descriptor are in flight though their caller has given up.
    given_up: u32,
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

    /// Notes what came of the oldest op that was to give a file a descriptor: a ring does such ops
    /// in their order.
    pub(super) fn note_installed(&mut self, result: i32) {
        if self.given_up == 0 {
            self.installed = Some(result);
            return;
        }
        self.given_up -= 1;
        if result >= 0 {
            raw::close(result);
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
}

impl Uring {
    /// The slot by which an op on that file's descriptor may name it.
    #[inline]
    pub(crate) fn slot_of(&mut self, file: &FixedFile, op: &Op) -> u16 {
        match file.ring() {
            0 if !self.files.is_off => self.consider(file, op),
            ring if ring == self.files.ring => self.files.slot(file.place()),
            _ => NO_SLOT,
        }
    }

    #[cold]
    #[inline(never)]
    fn consider(&mut self, file: &FixedFile, op: &Op) -> u16 {
        let Some(fd) = op.fd() else { return NO_SLOT };
        if !file.claims_place() || !self.has_table() {
            return NO_SLOT;
        }
        match self.files.take_for(&self.ring, fd) {
            Some(place) => {
                file.set(self.files.ring, place);
                self.files.slot(place)
            }
            None => NO_SLOT,
        }
    }

    /// Takes an empty place for a file that is to get no descriptor; tells whether there is one.
    pub(crate) fn reserve(&mut self, file: &FixedFile) -> bool {
        let features = self.caps.features;
        let is_able = features.has(Feature::FixedFiles) && features.has(Feature::InstallFd);
        if self.files.is_off || !is_able || !self.has_table() {
            return false;
        }
        let place = self.files.take();
        if let Some(place) = place {
            file.set(self.files.ring, place);
        }
        place.is_some()
    }

    /// Gives a file in the table a descriptor: the op is done as it is submitted.
    pub(crate) fn install(&mut self, file: &FixedFile) -> io::Result<RawFd> {
        let slot = if file.ring() == self.files.ring { self.files.slot(file.place()) } else { 0 };
        if slot == NO_SLOT {
            return Err(rustix::io::Errno::BADF.into());
        }
        self.files.installed = None;
        self.push(&super::sqe::install_entry(slot));
        while self.files.installed.is_none() {
            if let Err(error) = self.enter(Wait::Until(Some(Duration::from_secs(1)))) {
                // The op may still complete, and must not be taken for the next one.
                self.files.given_up += 1;
                return Err(error);
            }
            self.reap();
        }
        match self.files.installed.take() {
            Some(fd) if fd >= 0 => Ok(fd),
            Some(error) => Err(io::Error::from_raw_os_error(-error)),
            None => Err(rustix::io::Errno::IO.into()),
        }
    }

    fn has_table(&mut self) -> bool {
        if self.files.ring == 0 {
            self.make_table();
        }
        !self.files.is_off
    }

    fn make_table(&mut self) {
        let submitter = self.ring.submitter();
        let made = |size: &u32| submitter.register_files_sparse(*size).is_ok();
        let Some(size) = SIZES.into_iter().find(made) else {
            self.files.is_off = true;
            return;
        };
        let Some((ring, notes)) = Notes::open(self.waker()) else {
            self.files.is_off = true;
            return;
        };
        (self.files.size, self.files.ring, self.files.notes) = (size, ring, Some(notes));
    }

    /// Gives the file's place back, if it is here.
    pub(crate) fn release(&mut self, file: &FixedFile) -> bool {
        let is_here = self.files.ring != 0 && file.ring() == self.files.ring;
        if is_here {
            self.files.give_back(&self.ring, file.place());
        }
        is_here
    }

    /// Gives back the places of files that other threads have closed.
    #[inline]
    pub(super) fn heed_notes(&mut self) {
        let Some(notes) = &self.files.notes else { return };
        for place in notes.take() {
            self.files.give_back(&self.ring, place);
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
        let mut files = Files::new(true);
        let (mut reader, writer) = std::io::pipe().unwrap();
        files.given_up = 2;
        files.note_installed(-9);
        files.note_installed(writer.into_raw_fd());
        assert_eq!(files.installed, None);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the writer is open");
        files.note_installed(77);
        assert_eq!(files.installed, Some(77));
    }
}
