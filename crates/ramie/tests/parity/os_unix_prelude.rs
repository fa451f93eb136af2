//! The items of `std::os::unix::prelude`, in use.

use super::std;
use std::os::unix::prelude::CommandExt;

traits! { CommandExt }

left_to_std! {
    std::os::unix::prelude {
        types: BorrowedFd['static], OwnedFd, RawFd;
        traits: OsStrExt, OsStringExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt,
            OpenOptionsExt, PermissionsExt, AsFd, AsRawFd, FromRawFd, IntoRawFd, ExitStatusExt;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    traits()
}
