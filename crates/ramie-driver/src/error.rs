//! The error of opening a driver.

use std::{error, fmt, io};

/// The reason why no driver could be opened: a sentence with the cause and the remedy.
#[derive(Clone, Debug)]
pub struct OpenError {
    errno: Option<i32>,
    sentence: String,
}

impl OpenError {
    pub(crate) fn new(errno: Option<i32>, sentence: String) -> Self {
        OpenError { errno, sentence }
    }

    /// Returns the kernel's error, if there was one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.errno
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl error::Error for OpenError {}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match error.errno {
            Some(errno) => io::Error::from_raw_os_error(errno).kind(),
            None => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}
