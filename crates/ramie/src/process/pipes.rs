//! The ends of the pipes to and from a child.

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd},
    process::{self, Stdio},
};

use crate::{
    fs::File,
    op::forward::{read_by_field, write_by_field},
};

/// Makes the types of the ends, with all their methods except reading and writing.
macro_rules! ends {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Blocking
        /// Parks the strand until the pipe is ready.
        ///
        /// # Cancellation
        /// A cancel point.
        pub struct $name {
            pipe: File,
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.pipe.as_fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.pipe.as_raw_fd()
            }
        }

        impl IntoRawFd for $name {
            fn into_raw_fd(self) -> RawFd {
                self.pipe.into_raw_fd()
            }
        }

        impl From<OwnedFd> for $name {
            fn from(fd: OwnedFd) -> Self {
                $name { pipe: fd.into() }
            }
        }

        impl From<$name> for OwnedFd {
            fn from(end: $name) -> Self {
                end.pipe.into()
            }
        }

        impl From<process::$name> for $name {
            fn from(end: process::$name) -> Self {
                OwnedFd::from(end).into()
            }
        }

        impl From<$name> for process::$name {
            fn from(end: $name) -> Self {
                OwnedFd::from(end).into()
            }
        }

        impl From<$name> for Stdio {
            fn from(end: $name) -> Self {
                OwnedFd::from(end).into()
            }
        }
    )*};
}

ends! {
    /// The writing end of a child's standard input; twin of [`std::process::ChildStdin`].
    ChildStdin;
    /// The reading end of a child's standard output; twin of [`std::process::ChildStdout`].
    ChildStdout;
    /// The reading end of a child's standard error; twin of [`std::process::ChildStderr`].
    ChildStderr;
}

read_by_field!(pipe: ChildStdout, ChildStderr);
write_by_field!(pipe: ChildStdin, &ChildStdin);
