//! Memory that is registered with rings once, instead of at each op.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ptr::NonNull;

/// Pages, all zero at first, that [`Driver::register`](crate::Driver::register) takes.
#[derive(Debug)]
pub struct Region {
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a region owns its memory, and returns nothing but the address.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// The most bytes of a region, which is the limit of Linux: 1 GiB.
    pub const MOST: usize = 1 << 30;

    /// Makes a region of `len` bytes, 1 to [`MOST`](Self::MOST).
    ///
    /// # Errors
    /// `InvalidInput`: `len` is 0 or too large. `OutOfMemory`.
    pub fn new(len: usize) -> io::Result<Region> {
        if len == 0 || len > Self::MOST {
            let text = format!("a region has 1 to {} bytes, not {len}", Self::MOST);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let layout = Layout::from_size_align(len, 4096).map_err(io::Error::other)?;
        // SAFETY: the layout's size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) });
        let memory = memory.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { memory, layout })
    }

    /// Returns the address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.memory
    }

    /// Returns the number of bytes.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout. A ring with which it is still registered
        // holds the pages themselves.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}
