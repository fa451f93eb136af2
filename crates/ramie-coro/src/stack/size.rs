//! How large a stack is.

use super::StackError;
use crate::sys;

/// The usable bytes of a stack when nothing else is asked for: 256 KiB.
pub const DEFAULT_USABLE_BYTES: usize = 256 * 1024;
/// The bytes of the guard below each stack: C code, whose frames are not probed, may jump over a
/// guard of one page.
pub const GUARD_BYTES: usize = 64 * 1024;

/// Says how many bytes of a stack can be used, its guard not counted.
///
/// Memory is committed page by page at first touch, so that a large stack costs address space and
/// nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackSize {
    /// INVARIANT: whole pages, and in range.
    usable_bytes: usize,
}

impl StackSize {
    /// The smallest: 32 KiB. A panic with its message and the unwinding takes up to 24.
    pub const MIN_BYTES: usize = 32 * 1024;
    /// The largest: 1 GiB.
    pub const MAX_BYTES: usize = 1024 * 1024 * 1024;

    /// Checks a size in bytes and rounds it up to whole pages.
    ///
    /// # Errors
    /// The caller's fault: less than [`MIN_BYTES`](Self::MIN_BYTES) or more than
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
