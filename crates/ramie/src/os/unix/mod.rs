//! Twins of `std::os::unix`; items that cannot block are std's own.

#[allow(deprecated)]
#[doc(no_inline)]
pub use std::os::unix::raw;
pub use std::os::unix::{ffi, io};

pub mod fs;
pub mod net;
pub mod process;

/// Common items, as in [`std::os::unix::prelude`].
pub mod prelude {
    pub use super::{
        ffi::{OsStrExt, OsStringExt},
        fs::{DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        io::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
        process::{CommandExt, ExitStatusExt},
    };
}
