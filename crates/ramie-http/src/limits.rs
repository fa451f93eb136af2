//! What a server accepts at most.

use std::time::Duration;

/// The limits on the head of a request. Larger heads are refused before a handler sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadLimits {
    /// Bytes of the whole head.
    pub(crate) bytes: usize,
    /// Bytes of the first line.
    pub(crate) line: usize,
    /// The number of fields.
    pub(crate) fields: usize,
    /// Bytes of the name and the value of one field.
    pub(crate) field: usize,
}
