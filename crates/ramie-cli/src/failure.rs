//! How the program fails: one sentence that names the cause and the remedy, and an exit code.

use std::{fmt, io, process::ExitCode};

use ramie_workloads::WorkloadError;

/// Why the program ends without having done its work.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    sentence: String,
}

impl Failure {
    /// An invalid command line or environment variable: exit code 2.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Failure { code: 2, sentence: sentence.into() }
    }

    /// Any other failure: exit code 1.
    pub(crate) fn other(sentence: impl Into<String>) -> Self {
        Failure { code: 1, sentence: sentence.into() }
    }

    /// Ends with `code` and prints nothing, because the reason is on stderr already.
    pub(crate) fn already_reported(code: u8) -> Self {
        Failure { code, sentence: String::new() }
    }

    /// The reader of stdout has closed it: nothing to print, and exit code 0.
    pub(crate) fn broken_pipe() -> Self {
        Failure::already_reported(0)
    }

    /// An error of the runtime's builder. `InvalidInput` means that the caller's input is invalid.
    pub(crate) fn of_runtime(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidInput => Failure::usage(error.to_string()),
            _ => Failure::other(format!("the runtime cannot start: {error}")),
        }
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.sentence.is_empty()
    }

    /// Prints the sentence on stderr, if there is one, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        ExitCode::from(self.report_as_code())
    }

    /// Like [`report`](Self::report), with the exit code as a number.
    pub(crate) fn report_as_code(&self) -> u8 {
        if !self.sentence.is_empty() {
            crate::output::warn(&self.sentence);
        }
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Self {
        Failure::other(error.to_string())
    }
}
