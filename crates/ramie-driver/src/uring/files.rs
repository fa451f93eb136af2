//! The ring's file table; see [`fixed`](crate::fixed) for its use.

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
use crate::fixed::{FixedFile, NO_INDEX, Notes};
use crate::op::Op;
use crate::sys::raw;

/// The number of entries of a table: the smaller one if `ulimit -n` does not allow the larger one.
const SIZES: [u32; 2] = [8192, 256];

/// The table, which is made when the first stream takes an index.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The ring's number; 0 if it has no table.
    ring: u32,
    /// Whether no table will be made.
    is_off: bool,
    size: u32,
    /// The generation of each index that has been used.
    generations: Vec<u16>,
    free: Vec<u16>,
    notes: Option<Arc<Notes>>,
}

/// The ops that give files of the table a descriptor.
#[derive(Debug, Default)]
pub(super) struct Installs {
    /// The result of the last such op.
    installed: Option<i32>,
    /// The number of such ops in flight whose caller has given up.
    given_up: u32,
}

impl Installs {
    /// Records the result of the oldest such op in flight; a ring completes them in order.
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

    /// Takes a free index; None when all are taken.
    fn take(&mut self) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.generations.len() < self.size as usize => {
                self.generations.push(0);
                (self.generations.len() - 1) as u16
            }
            None => return None,
        };
        Some(u32::from(self.generations[usize::from(index)]) << 16 | u32::from(index))
    }

    /// Takes an index and registers the file of a descriptor there.
    fn take_for(&mut self, ring: &IoUring, fd: RawFd) -> Option<u32> {
        let versioned_index = self.take()?;
        let index = versioned_index as u16;
        match ring.submitter().register_files_update(u32::from(index), &[fd]) {
            Ok(_) => Some(versioned_index),
            Err(_) => {
                self.free.push(index);
                None
            }
        }
    }

    fn fixed_file_index(&self, versioned_index: u32) -> u16 {
        let index = versioned_index as u16;
        match self.generations.get(usize::from(index)) {
            Some(generation) if u32::from(*generation) == versioned_index >> 16 => index + 1,
            _ => NO_INDEX,
        }
    }

    fn give_back(&mut self, ring: &IoUring, versioned_index: u32) {
        let fixed_file_index = self.fixed_file_index(versioned_index);
        if fixed_file_index == NO_INDEX {
            return;
        }
        let index = fixed_file_index - 1;
        let generation = &mut self.generations[usize::from(index)];
        *generation = generation.wrapping_add(1);
        // If the entry cannot be emptied, its index is not used again.
        if ring.submitter().register_files_update(u32::from(index), &[-1]).is_ok() {
            self.free.push(index);
        }
    }

    /// Empties the table, because the ring, and so the files in its table, may exist for a while
    /// after the close.
    pub(super) fn close(&self, ring: &IoUring) {
        if self.ring != 0 {
            Notes::close(self.ring);
            let _ = ring.submitter().unregister_files();
        }
    }

    /// Returns the index by which an op may name the file instead of its descriptor.
    #[inline]
    pub(super) fn index_of(&mut self, ring: &Ring, file: &FixedFile, op: &Op) -> u16 {
        match file.ring() {
            0 if !self.is_off => self.consider(ring, file, op),
            number if number == self.ring => self.fixed_file_index(file.versioned_index()),
            _ => NO_INDEX,
        }
    }

    #[cold]
    #[inline(never)]
    fn consider(&mut self, ring: &Ring, file: &FixedFile, op: &Op) -> u16 {
        let Some(fd) = op.fd() else { return NO_INDEX };
        if !file.claims_index() || !self.make_table(ring) {
            return NO_INDEX;
        }
        match self.take_for(&ring.queue.ring, fd) {
            Some(versioned_index) => {
                file.set(self.ring, versioned_index);
                self.fixed_file_index(versioned_index)
            }
            None => NO_INDEX,
        }
    }

    /// Takes an index for a file that gets no descriptor; returns false if none is free.
    pub(super) fn reserve(&mut self, ring: &Ring, file: &FixedFile) -> bool {
        let has = |feature| ring.features.has(feature);
        let is_able = has(Feature::FixedFiles) && has(Feature::InstallFd);
        if self.is_off || !is_able || !self.make_table(ring) {
            return false;
        }
        let versioned_index = self.take();
        if let Some(versioned_index) = versioned_index {
            file.set(self.ring, versioned_index);
        }
        versioned_index.is_some()
    }

    /// Gives a file in the table a descriptor. The kernel completes the op as it is submitted.
    pub(super) fn install(&self, ring: &mut Ring, file: &FixedFile) -> io::Result<RawFd> {
        let fixed_file_index = match file.ring() == self.ring {
            true => self.fixed_file_index(file.versioned_index()),
            false => NO_INDEX,
        };
        if fixed_file_index == NO_INDEX {
            return Err(Errno::BADF.into());
        }
        ring.reaper.installs.installed = None;
        ring.push(&sqe::install_entry(fixed_file_index));
        while ring.reaper.installs.installed.is_none() {
            if let Err(error) = ring.enter(Wait::Until(Some(Duration::from_secs(1)))) {
                // The op may complete later, and its result must not be taken for that of the next
                // op.
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

    /// Makes the table unless there is one; returns false if the kernel refuses.
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

    /// Releases the file's index; returns false if the file is not in the table of this ring.
    pub(super) fn release(&mut self, ring: &IoUring, file: &FixedFile) -> bool {
        let is_here = self.ring != 0 && file.ring() == self.ring;
        if is_here {
            self.give_back(ring, file.versioned_index());
        }
        is_here
    }

    /// Releases the indices of files that other threads have closed.
    #[inline]
    pub(super) fn heed_notes(&mut self, ring: &IoUring) {
        let Some(notes) = &self.notes else { return };
        for versioned_index in notes.take() {
            self.give_back(ring, versioned_index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::IntoRawFd;

    use super::*;

    /// A descriptor that arrives after its call has failed is closed, and the next call does not
    /// get it.
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
