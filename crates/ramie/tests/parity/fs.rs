//! The items of `std::fs`, in use.

use super::std;
use std::{
    ffi::OsString,
    fmt::Debug,
    fs::{
        self, DirBuilder, DirEntry, File, FileTimes, FileType, Metadata, OpenOptions, Permissions,
        ReadDir, TryLockError,
    },
    io::{self, IsTerminal, Read, Seek, Write},
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd},
        unix::fs::{DirBuilderExt, DirEntryExt, FileExt, MetadataExt, OpenOptionsExt},
    },
    panic::{RefUnwindSafe, UnwindSafe},
    path::{Path, PathBuf},
    process::Stdio,
    time::SystemTime,
};

types! { DirBuilder, DirEntry, File, FileTimes, Metadata, OpenOptions, ReadDir }

functions! {
    fs;
    fn canonicalize[P: AsRef<Path>](path: P) -> io::Result<PathBuf>;
    fn copy[P: AsRef<Path>, Q: AsRef<Path>](from: P, to: Q) -> io::Result<u64>;
    fn create_dir[P: AsRef<Path>](path: P) -> io::Result<()>;
    fn create_dir_all[P: AsRef<Path>](path: P) -> io::Result<()>;
    fn exists[P: AsRef<Path>](path: P) -> io::Result<bool>;
    fn hard_link[P: AsRef<Path>, Q: AsRef<Path>](original: P, link: Q) -> io::Result<()>;
    fn metadata[P: AsRef<Path>](path: P) -> io::Result<Metadata>;
    fn read[P: AsRef<Path>](path: P) -> io::Result<Vec<u8>>;
    fn read_dir[P: AsRef<Path>](path: P) -> io::Result<ReadDir>;
    fn read_link[P: AsRef<Path>](path: P) -> io::Result<PathBuf>;
    fn read_to_string[P: AsRef<Path>](path: P) -> io::Result<String>;
    fn remove_dir[P: AsRef<Path>](path: P) -> io::Result<()>;
    fn remove_dir_all[P: AsRef<Path>](path: P) -> io::Result<()>;
    fn remove_file[P: AsRef<Path>](path: P) -> io::Result<()>;
    fn rename[P: AsRef<Path>, Q: AsRef<Path>](from: P, to: Q) -> io::Result<()>;
    fn set_permissions[P: AsRef<Path>](path: P, perm: Permissions) -> io::Result<()>;
    fn soft_link[P: AsRef<Path>, Q: AsRef<Path>](original: P, link: Q) -> io::Result<()>;
    fn symlink_metadata[P: AsRef<Path>](path: P) -> io::Result<Metadata>;
    fn write[P: AsRef<Path>, C: AsRef<[u8]>](path: P, contents: C) -> io::Result<()>;
}

methods! {
    DirBuilder {
        fn new() -> DirBuilder;
        fn recursive(this: &mut DirBuilder, recursive: bool) -> &mut DirBuilder;
        fn create[P: AsRef<Path>](this: &DirBuilder, path: P) -> io::Result<()>;
    }
    DirEntry {
        fn path(this: &DirEntry) -> PathBuf;
        fn metadata(this: &DirEntry) -> io::Result<Metadata>;
        fn file_type(this: &DirEntry) -> io::Result<FileType>;
        fn file_name(this: &DirEntry) -> OsString;
    }
    File {
        fn open[P: AsRef<Path>](path: P) -> io::Result<File>;
        fn create[P: AsRef<Path>](path: P) -> io::Result<File>;
        fn create_new[P: AsRef<Path>](path: P) -> io::Result<File>;
        fn options() -> OpenOptions;
        fn sync_all(this: &File) -> io::Result<()>;
        fn sync_data(this: &File) -> io::Result<()>;
        fn lock(this: &File) -> io::Result<()>;
        fn lock_shared(this: &File) -> io::Result<()>;
        fn try_lock(this: &File) -> Result<(), TryLockError>;
        fn try_lock_shared(this: &File) -> Result<(), TryLockError>;
        fn unlock(this: &File) -> io::Result<()>;
        fn set_len(this: &File, size: u64) -> io::Result<()>;
        fn metadata(this: &File) -> io::Result<Metadata>;
        fn try_clone(this: &File) -> io::Result<File>;
        fn set_permissions(this: &File, perm: Permissions) -> io::Result<()>;
        fn set_times(this: &File, times: FileTimes) -> io::Result<()>;
        fn set_modified(this: &File, time: SystemTime) -> io::Result<()>;
    }
    FileTimes {
        fn new() -> FileTimes;
        fn set_accessed(this: FileTimes, t: SystemTime) -> FileTimes;
        fn set_modified(this: FileTimes, t: SystemTime) -> FileTimes;
    }
    Metadata {
        fn file_type(this: &Metadata) -> FileType;
        fn is_dir(this: &Metadata) -> bool;
        fn is_file(this: &Metadata) -> bool;
        fn is_symlink(this: &Metadata) -> bool;
        fn len(this: &Metadata) -> u64;
        fn permissions(this: &Metadata) -> Permissions;
        fn modified(this: &Metadata) -> io::Result<SystemTime>;
        fn accessed(this: &Metadata) -> io::Result<SystemTime>;
        fn created(this: &Metadata) -> io::Result<SystemTime>;
    }
    OpenOptions {
        fn new() -> OpenOptions;
        fn read(this: &mut OpenOptions, read: bool) -> &mut OpenOptions;
        fn write(this: &mut OpenOptions, write: bool) -> &mut OpenOptions;
        fn append(this: &mut OpenOptions, append: bool) -> &mut OpenOptions;
        fn truncate(this: &mut OpenOptions, truncate: bool) -> &mut OpenOptions;
        fn create(this: &mut OpenOptions, create: bool) -> &mut OpenOptions;
        fn create_new(this: &mut OpenOptions, create_new: bool) -> &mut OpenOptions;
        fn open[P: AsRef<Path>](this: &OpenOptions, path: P) -> io::Result<File>;
    }
}

impls! {
    [] DirBuilder: [Debug] [DirBuilderExt] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] DirEntry: [Debug] [DirEntryExt] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] File: [AsFd] [AsRawFd] [Debug] [FileExt] [From<OwnedFd>] [FromRawFd] [IntoRawFd]
        [IsTerminal] [Read] [Seek] [Write] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<File>];
    [] Stdio: [From<File>];
    [] &File: [Read] [Seek] [Write];
    [] FileTimes: [Clone] [Debug] [Default] [Copy] [RefUnwindSafe] [Send] [Sync] [Unpin]
        [UnwindSafe];
    [] Metadata: [Clone] [Debug] [MetadataExt] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] OpenOptions: [Clone] [Debug] [OpenOptionsExt] [RefUnwindSafe] [Send] [Sync] [Unpin]
        [UnwindSafe];
    [] ReadDir: [Debug] [Iterator] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
}

left_to_std! {
    std::fs {
        types: FileType, Permissions, TryLockError;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [types(), functions(), methods(), impls()].concat()
}
