//! The size of a stack.

use super::StackError;
use crate::sys;

/// The default for the usable bytes of a stack: 256 KiB.
pub const DEFAULT_USABLE_BYTES: usize = 256 * 1024;
/// The bytes of the guard below each stack. It is this large because C code, whose frames are not
/// probed, could jump over a guard of one page.
pub const GUARD_BYTES: usize = 64 * 1024;

/// The usable bytes of a stack, without its guard.
///
/// Memory is committed page by page at first touch, so a large stack costs only address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackSize {
    /// INVARIANT: whole pages, and in range.
    usable_bytes: usize,
}

impl StackSize {
    /// The smallest size: 32 KiB. A panic with its message and the unwinding takes up to 24 KiB.
    pub const MIN_BYTES: usize = 32 * 1024;
    /// The largest size: 1 GiB.
    pub const MAX_BYTES: usize = 1024 * 1024 * 1024;

    /// Checks a size in bytes and rounds it up to whole pages.
    ///
    /// # Errors
    /// If the size is less than [`MIN_BYTES`](Self::MIN_BYTES) or more than
    /// [`MAX_BYTES`](Self::MAX_BYTES).
    ///
    /// # Examples
    /// ```
    /// # use ramie_coro::StackSize;
    /// assert_eq!(StackSize::new(100_000).unwrap().usable_bytes(), 102_400);
    /// assert!(StackSize::new(1).is_err());
    /// ```
    pub fn new(usable_bytes: usize) -> Result<StackSize, StackError> {
        if !(Self::MIN_BYTES..=Self::MAX_BYTES).contains(&usable_bytes) {
            return Err(StackError::size(usable_bytes));
        }
        Ok(StackSize { usable_bytes: usable_bytes.next_multiple_of(sys::page_size()) })
    }

    /// Returns the usable bytes.
    #[must_use]
    #[inline]
    pub fn usable_bytes(self) -> usize {
        self.usable_bytes
    }
}

impl Default for StackSize {
    /// Returns [`DEFAULT_USABLE_BYTES`].
    fn default() -> Self {
        let usable_bytes = DEFAULT_USABLE_BYTES.next_multiple_of(sys::page_size());
        StackSize { usable_bytes }
    }
}

/// The bytes of a guard, in whole pages.
pub(crate) fn guard_bytes() -> usize {
    GUARD_BYTES.next_multiple_of(sys::page_size())
}
