//! The end of the process, with a sentence.

use crate::sys;

/// Aborts the process where going on would break a promise to code that relies on it.
#[cold]
pub(crate) fn abort_with(sentence: &str) -> ! {
    sys::write_stderr(b"fatal: ");
    sys::write_stderr(sentence.as_bytes());
    sys::write_stderr(b"\n");
    std::process::abort()
}
