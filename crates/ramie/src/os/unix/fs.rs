//! Twins of `std::os::unix::fs`. Its traits are std's own, which the types of
//! [`fs`](crate::fs) have.

#[doc(no_inline)]
pub use std::os::unix::fs::{
    DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};

pub use crate::fs::path::{chown, chroot, fchown, lchown, symlink};
