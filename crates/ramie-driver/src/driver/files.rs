//! The driver's file table; see [`crate::fixed`] for its use.

use std::io;
use std::os::fd::RawFd;

use super::Driver;
use crate::backend::Backend;
use crate::fixed::FixedFile;

impl Driver {
    /// Releases a stream's index, if it is in this driver's table; the stream takes no other.
    /// Nothing is in flight on the stream.
    pub fn release_file(&mut self, file: &FixedFile) -> bool {
        // In the child of a fork the table is the parent's.
        let released = self.mark.is_child() || self.backend.release_file(file);
        if released {
            file.set_none();
        }
        released
    }

    /// Takes an index for a file that an accept will put there, and that gets no descriptor; false
    /// if this driver has none. The accept is submitted by [`submit_fixed`](Self::submit_fixed)
    /// with this file, its flags do not count, and its result is 0; later ops on the file name the
    /// descriptor -1.
    pub fn reserve_index(&mut self, file: &FixedFile) -> bool {
        !self.mark.is_child() && self.backend.reserve_index(file)
    }

    /// Gives a file of this driver's table a new descriptor, which is the caller's. The file need
    /// not have had one.
    ///
    /// # Errors
    /// The process is out of descriptors; `EBADF`: the file is not in this driver's table.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn install_file(&mut self, file: &FixedFile) -> io::Result<RawFd> {
        self.check_fork();
        self.backend.install_file(file)
    }
}
