//! The twin of `std::io::IsTerminal`, which only std may implement.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use super::{Stderr, StderrLock, Stdin, StdinLock, Stdout, StdoutLock};

/// Distinguishes terminals from other streams; twin of [`std::io::IsTerminal`].
///
/// Implemented for streams and files of std and of this crate, and for descriptors.
///
/// # Examples
/// ```
/// use ramie::io::{self, IsTerminal};
///
/// if !io::stdin().is_terminal() {
///     println!("reads from a file or a pipe");
/// }
/// ```
pub trait IsTerminal: sealed::Sealed {
    /// Returns whether it is a terminal.
    fn is_terminal(&self) -> bool;
}

mod sealed {
    // Same name as `process::Sealed`: the usual name of a private supertrait.
    pub trait Sealed {}
}

macro_rules! is_terminal {
    ($($stream:ty),* $(,)?) => {$(
        impl sealed::Sealed for $stream {}

        impl IsTerminal for $stream {
            fn is_terminal(&self) -> bool {
                io::IsTerminal::is_terminal(&self.as_fd())
            }
        }
    )*};
}

is_terminal! {
    BorrowedFd<'_>, OwnedFd, File, crate::fs::File,
    Stdin, StdinLock<'_>, Stdout, StdoutLock<'_>, Stderr, StderrLock<'_>,
    io::Stdin, io::StdinLock<'_>, io::Stdout, io::StdoutLock<'_>, io::Stderr, io::StderrLock<'_>,
}
