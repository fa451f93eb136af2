//! Errors, each one sentence that names the cause and the remedy.

use std::{any::Any, error::Error, fmt};

/// The reason why a workload did not run to its end, or that its result is wrong.
#[derive(Debug)]
pub struct WorkloadError(String);

impl WorkloadError {
    /// An error of one sentence that names the cause and the remedy.
    pub fn new(sentence: impl Into<String>) -> Self {
        WorkloadError(sentence.into())
    }

    /// An error of a workload whose result is wrong.
    pub(crate) fn wrong(problem: impl fmt::Display) -> Self {
        WorkloadError(format!("{problem}; please report this"))
    }
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for WorkloadError {}

/// The message of a panic.
pub fn payload_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}
