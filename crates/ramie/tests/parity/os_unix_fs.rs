//! The items of `std::os::unix::fs`, in use.

use super::std;
use std::{
    io,
    os::{fd::AsFd, unix::fs},
    path::Path,
};

functions! {
    fs;
    fn chown[P: AsRef<Path>](dir: P, uid: Option<u32>, gid: Option<u32>) -> io::Result<()>;
    fn chroot[P: AsRef<Path>](dir: P) -> io::Result<()>;
    fn fchown[F: AsFd](fd: F, uid: Option<u32>, gid: Option<u32>) -> io::Result<()>;
    fn lchown[P: AsRef<Path>](dir: P, uid: Option<u32>, gid: Option<u32>) -> io::Result<()>;
    fn symlink[P: AsRef<Path>, Q: AsRef<Path>](original: P, link: Q) -> io::Result<()>;
}

left_to_std! {
    std::os::unix::fs {
        traits: DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt,
            PermissionsExt;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    functions()
}
