//! Twins of `std::fs::{Metadata, FileTimes}`. They wrap std's types, and convert times to this
//! crate's [`SystemTime`].

use std::{
    fmt,
    fs::{self, FileType, Permissions},
    io,
    os::{linux, unix},
};

use crate::time::SystemTime;

/// Attributes of a file; twin of [`std::fs::Metadata`].
///
/// Implements both `MetadataExt` traits of std: that of Unix and that of Linux.
#[derive(Clone)]
pub struct Metadata(fs::Metadata);

impl Metadata {
    /// Returns the type of the file.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.0.file_type()
    }

    /// Returns whether the file is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.0.is_dir()
    }

    /// Returns whether the file is a regular one.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.0.is_file()
    }

    /// Returns whether the file is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.0.is_symlink()
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns the permissions of the file.
    #[must_use]
    pub fn permissions(&self) -> Permissions {
        self.0.permissions()
    }

    /// Returns when the contents of the file last changed.
    ///
    /// # Errors
    /// Those of std's method.
    pub fn modified(&self) -> io::Result<SystemTime> {
        self.0.modified().map(SystemTime::from)
    }

    /// Returns when the file was last read, if the file system records that.
    ///
    /// # Errors
    /// Those of std's method.
    pub fn accessed(&self) -> io::Result<SystemTime> {
        self.0.accessed().map(SystemTime::from)
    }

    /// Returns when the file was created.
    ///
    /// # Errors
    /// The file system does not record the time of creation.
    pub fn created(&self) -> io::Result<SystemTime> {
        self.0.created().map(SystemTime::from)
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<fs::Metadata> for Metadata {
    fn from(metadata: fs::Metadata) -> Self {
        Metadata(metadata)
    }
}

impl From<Metadata> for fs::Metadata {
    fn from(metadata: Metadata) -> Self {
        metadata.0
    }
}

macro_rules! passed_on {
    ($trait:path: $($name:ident -> $type:ty),+ $(,)?) => {
        $(
            fn $name(&self) -> $type {
                <fs::Metadata as $trait>::$name(&self.0)
            }
        )+
    };
}

impl unix::fs::MetadataExt for Metadata {
    passed_on! {
        unix::fs::MetadataExt:
        dev -> u64, ino -> u64, mode -> u32, nlink -> u64, uid -> u32, gid -> u32, rdev -> u64,
        size -> u64, atime -> i64, atime_nsec -> i64, mtime -> i64, mtime_nsec -> i64,
        ctime -> i64, ctime_nsec -> i64, blksize -> u64, blocks -> u64,
    }
}

impl linux::fs::MetadataExt for Metadata {
    #[allow(deprecated)]
    fn as_raw_stat(&self) -> &linux::raw::stat {
        self.0.as_raw_stat()
    }

    passed_on! {
        linux::fs::MetadataExt:
        st_dev -> u64, st_ino -> u64, st_mode -> u32, st_nlink -> u64, st_uid -> u32,
        st_gid -> u32, st_rdev -> u64, st_size -> u64, st_atime -> i64, st_atime_nsec -> i64,
        st_mtime -> i64, st_mtime_nsec -> i64, st_ctime -> i64, st_ctime_nsec -> i64,
        st_blksize -> u64, st_blocks -> u64,
    }
}

/// The times to set for a file; twin of [`std::fs::FileTimes`].
#[derive(Clone, Copy, Debug, Default)]
pub struct FileTimes(fs::FileTimes);

impl FileTimes {
    /// Makes a value that changes no time.
    #[must_use]
    pub fn new() -> Self {
        FileTimes::default()
    }

    /// Sets the time of the last read.
    #[must_use]
    pub fn set_accessed(self, t: SystemTime) -> Self {
        FileTimes(self.0.set_accessed(t.into()))
    }

    /// Sets the time of the last change of the contents.
    #[must_use]
    pub fn set_modified(self, t: SystemTime) -> Self {
        FileTimes(self.0.set_modified(t.into()))
    }
}

impl From<fs::FileTimes> for FileTimes {
    fn from(times: fs::FileTimes) -> Self {
        FileTimes(times)
    }
}

impl From<FileTimes> for fs::FileTimes {
    fn from(times: FileTimes) -> Self {
        times.0
    }
}
