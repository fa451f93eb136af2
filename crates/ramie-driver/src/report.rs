//! Why io_uring is refused, and what to do about it; and the report a doctor prints.
use std::io;

/// Names the likely cause of a refusal and its cure.
pub(crate) fn why_refused(_error: &io::Error) -> (String, String) {
    (String::new(), String::new())
}
