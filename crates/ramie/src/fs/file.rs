//! The twin of `std::fs::File`.

use std::{
    fs::{self, Permissions, TryLockError},
    io::{self, Seek},
    path::Path,
};

use ramie_driver::sys::FileKind;

use super::{FileTimes, Metadata, OpenOptions, lock, transfer::Transfer};
use crate::{
    core::cancel,
    op::{blocking, blocking_io},
    ring,
    time::SystemTime,
};

/// An open file; twin of [`std::fs::File`].
///
/// `File` and `&File` implement [`Read`](io::Read), [`Write`](io::Write) and [`Seek`]. `File`
/// implements std's [`FileExt`](std::os::unix::fs::FileExt), for reads and writes at a position.
/// The descriptor is closed when the file is dropped.
///
/// # Blocking
/// A call that would wait for a disk parks the fiber, or the thread outside one. A read of cached
/// bytes is made at once, 64 KiB at a time; other fibers run in between.
///
/// On the polling driver, a write to a named pipe or terminal that was opened without `O_NONBLOCK`
/// writes at most 4,096 bytes, because the kernel guarantees no more room than that. std and the
/// ring write all bytes. `write_all` continues with the rest.
///
/// # Cancellation
/// Calls that may wait are cancel points; `seek`, `try_lock` and `unlock` are none. A call on the
/// blocking pool runs to its end once it has begun. The error of a cancelled `write_all` or
/// `read_exact` holds the number of bytes moved ([`bytes_moved`](crate::cancel::bytes_moved)).
///
/// # Errors
/// Those of std's methods, but never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
///
/// # Examples
/// ```
/// use std::io::{Read, Write};
/// use ramie::fs::{self, File};
/// # let path = std::env::temp_dir().join(format!("ramie-doc-file-{}", std::process::id()));
/// ramie::run(|| {
///     File::create(&path)?.write_all(b"text")?;
///     let mut text = String::new();
///     File::open(&path)?.read_to_string(&mut text)?;
///     assert_eq!(text, "text");
///     fs::remove_file(&path)
/// })
/// # .unwrap()
/// ```
pub struct File {
    pub(super) transfer: Transfer,
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Blocking
    /// As [`OpenOptions::open`].
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    #[track_caller]
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing; truncates an existing file, creates a missing one.
    ///
    /// # Blocking
    /// As [`OpenOptions::open`].
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    #[track_caller]
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Creates a new file for reading and writing; fails if it exists.
    ///
    /// # Blocking
    /// As [`OpenOptions::open`].
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// `AlreadyExists`: the path exists. Otherwise as [`OpenOptions::open`].
    #[track_caller]
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Returns options for opening a file.
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Waits until contents and attributes have reached the disk.
    ///
    /// # Blocking
    /// Parks the fiber meanwhile.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// The disk refused bytes that were written before, or this is no file on a disk.
    #[track_caller]
    pub fn sync_all(&self) -> io::Result<()> {
        self.sync(false)
    }

    /// Waits until the contents have reached the disk.
    ///
    /// # Blocking
    /// Parks the fiber meanwhile.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As [`File::sync_all`].
    #[track_caller]
    pub fn sync_data(&self) -> io::Result<()> {
        self.sync(true)
    }

    #[track_caller]
    fn sync(&self, data_only: bool) -> io::Result<()> {
        ring::fsync(self, data_only)
    }

    /// Takes the file's exclusive lock.
    ///
    /// # Blocking
    /// Parks the fiber while another handle holds a lock of the file. Up to 32 waiters of the
    /// process occupy a thread of the blocking pool each; further waiters try again every 50 ms or
    /// sooner.
    ///
    /// # Cancellation
    /// A cancel point, on a fiber.
    ///
    /// # Errors
    /// Those of [`std::fs::File::lock`].
    #[track_caller]
    pub fn lock(&self) -> io::Result<()> {
        lock::lock(self, fs::File::lock, fs::File::try_lock)
    }

    /// Takes a shared lock of the file, which other handles may hold at the same time.
    ///
    /// # Blocking
    /// Parks the fiber while another handle holds the exclusive lock; otherwise as [`File::lock`].
    ///
    /// # Cancellation
    /// A cancel point, on a fiber.
    ///
    /// # Errors
    /// Those of [`std::fs::File::lock_shared`].
    #[track_caller]
    pub fn lock_shared(&self) -> io::Result<()> {
        lock::lock(self, fs::File::lock_shared, fs::File::try_lock_shared)
    }

    /// Takes the file's exclusive lock if no other handle holds a lock now.
    ///
    /// # Errors
    /// `WouldBlock`: another handle holds a lock. Otherwise those of [`std::fs::File::try_lock`].
    #[track_caller]
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.attributes(|file| file.try_lock())
    }

    /// Takes a shared lock of the file if no other handle holds the exclusive lock now.
    ///
    /// # Errors
    /// `WouldBlock`: another handle holds the exclusive lock. Otherwise as [`File::try_lock`].
    #[track_caller]
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.attributes(|file| file.try_lock_shared())
    }

    /// Releases the locks taken through this file.
    ///
    /// # Errors
    /// Those of [`std::fs::File::unlock`].
    #[track_caller]
    pub fn unlock(&self) -> io::Result<()> {
        self.attributes(|file| file.unlock())
    }

    /// Truncates or extends the file to `size` bytes; an extension reads as zeros.
    ///
    /// # Blocking
    /// Parks the fiber until the call is complete.
    ///
    /// # Cancellation
    /// A cancel point. Once the call has begun, the fiber waits for its end.
    ///
    /// # Errors
    /// `InvalidInput`: the file is not open for writing, or the size is above the file system's
    /// limit.
    #[track_caller]
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        // The same error as std's.
        let size = i64::try_from(size)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        ring::ftruncate(self, size.cast_unsigned())
    }

    /// Reads the file's attributes.
    ///
    /// # Blocking
    /// Parks the fiber for a file on a network file system. For a file on a local disk the call
    /// never waits, because the kernel keeps the attributes of an open file in memory.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// Those of [`std::fs::File::metadata`].
    #[track_caller]
    pub fn metadata(&self) -> io::Result<Metadata> {
        cancel::check_io()?;
        self.attributes(|file| file.metadata()).map(Metadata::from)
    }

    /// Makes a call about attributes or locks: at once, except on a network file system.
    #[track_caller]
    fn attributes<T: Send>(&self, call: impl FnOnce(&fs::File) -> T + Send) -> T {
        match self.transfer.kind() {
            FileKind::Local | FileKind::Stream => call(self.as_std()),
            FileKind::Remote => blocking(|| call(self.as_std())),
        }
    }

    /// Makes a second handle of the same open file; both share the position.
    ///
    /// # Errors
    /// The process has no free descriptor.
    pub fn try_clone(&self) -> io::Result<File> {
        Ok(File { transfer: self.transfer.try_clone()? })
    }

    /// Changes the file's permissions.
    ///
    /// # Blocking
    /// Parks the fiber until the call is complete.
    ///
    /// # Cancellation
    /// A cancel point. Once the call has begun, the fiber waits for its end.
    ///
    /// # Errors
    /// `PermissionDenied`: the file belongs to another user.
    #[track_caller]
    pub fn set_permissions(&self, perm: Permissions) -> io::Result<()> {
        blocking_io(|| self.as_std().set_permissions(perm))
    }

    /// Changes the file's times.
    ///
    /// # Blocking
    /// Parks the fiber until the call is complete.
    ///
    /// # Cancellation
    /// A cancel point. Once the call has begun, the fiber waits for its end.
    ///
    /// # Errors
    /// `PermissionDenied`: the file belongs to another user.
    #[track_caller]
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        blocking_io(|| self.as_std().set_times(times.into()))
    }

    /// Changes the file's time of last modification.
    ///
    /// # Blocking
    /// As [`File::set_times`].
    ///
    /// # Cancellation
    /// A cancel point. Once the call has begun, the fiber waits for its end.
    ///
    /// # Errors
    /// As [`File::set_times`].
    #[track_caller]
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }

    pub(super) fn as_std(&self) -> &fs::File {
        &self.transfer.file
    }

    pub(super) fn is_stream(&self) -> bool {
        self.transfer.kind() == FileKind::Stream
    }

    /// Returns the number of bytes from the current position to the end; 0 if finding it might
    /// wait.
    pub(super) fn rest(&self) -> usize {
        if self.transfer.kind() != FileKind::Local {
            return 0;
        }
        let len = self.as_std().metadata().map_or(0, |metadata| metadata.len());
        let at = self.as_std().stream_position().unwrap_or(0);
        usize::try_from(len.saturating_sub(at)).unwrap_or(0)
    }
}
