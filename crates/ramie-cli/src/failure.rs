//! How the program fails: one sentence that names the cause and the cure, and an exit code.

use std::{any::Any, fmt, io, process::ExitCode};

/// Why the program ends, other than by having done its work.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    sentence: String,
}

impl Failure {
    /// The command line or an environment variable is wrong: exit code 2.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Failure { code: 2, sentence: sentence.into() }
    }

    /// Anything else: exit code 1.
    pub(crate) fn other(sentence: impl Into<String>) -> Self {
        Failure { code: 1, sentence: sentence.into() }
    }

    /// Ends with `code` and says nothing, because somebody else has said it.
    pub(crate) fn already_said(code: u8) -> Self {
        Failure { code, sentence: String::new() }
    }

    /// Nobody reads our output any more: there is nothing to say, and nothing went wrong.
    pub(crate) fn unread() -> Self {
        Failure::already_said(0)
    }

    /// An error of the runtime's builder: `InvalidInput` is the caller's fault.
    pub(crate) fn of_runtime(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidInput => Failure::usage(error.to_string()),
            _ => Failure::other(format!("the runtime cannot start: {error}")),
        }
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.sentence.is_empty()
    }

    /// Says it on stderr, if there is something to say, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        ExitCode::from(self.report_as_code())
    }

    /// The same for those who end a process by the number.
    pub(crate) fn report_as_code(&self) -> u8 {
        if !self.sentence.is_empty() {
            crate::output::complain(&self.sentence);
        }
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// Says what a panic's payload says.
pub(crate) fn payload_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
}
