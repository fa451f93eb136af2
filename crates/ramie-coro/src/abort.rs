//! Aborts the process with a message.

use crate::sys;

/// Aborts the process if continuing would break a guarantee that other code relies on.
#[cold]
pub(crate) fn abort_with(sentence: &str) -> ! {
    sys::write_stderr(b"fatal: ");
    sys::write_stderr(sentence.as_bytes());
    sys::write_stderr(b"\n");
    std::process::abort()
}
