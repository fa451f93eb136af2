//! The twin of `std::fs::OpenOptions`.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, OpenOptionsExt},
        },
    },
    path::Path,
};

use ramie_driver::{
    Op,
    sys::{self, FileKind},
};

use super::file::File;
use crate::{
    core::{cancel, wait::park::WaitKind},
    op::{
        self, blocking_io,
        route::{Route, route},
    },
};

static OPEN: WaitKind = WaitKind::of_op("a file to be opened");

/// Chooses how a file is opened; twin of [`std::fs::OpenOptions`].
///
/// # Examples
/// ```
/// use ramie::fs::OpenOptions;
/// # let path = std::env::temp_dir().join(format!("ramie-doc-options-{}", std::process::id()));
/// let file = OpenOptions::new().append(true).create(true).open(&path)?;
/// # drop(file);
/// # ramie::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    options: fs::OpenOptions,
    wants: Wants,
}

/// A copy of the options for the ring's op, because std's type has no methods that return them.
#[derive(Clone, Copy, Debug)]
struct Wants {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    /// Whether `custom_flags` set any flags; std then opens the file.
    has_custom_flags: bool,
    mode: u32,
}

impl Wants {
    /// Returns the flags of open(2); None if std refuses the options, or if they include custom
    /// flags.
    fn flags(self) -> Option<i32> {
        if self.has_custom_flags {
            return None;
        }
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => sys::O_RDONLY,
            (false, true, false) => sys::O_WRONLY,
            (true, true, false) => sys::O_RDWR,
            (false, _, true) => sys::O_WRONLY | sys::O_APPEND,
            (true, _, true) => sys::O_RDWR | sys::O_APPEND,
            (false, false, false) => return None,
        };
        let creation = match (self.create, self.truncate, self.create_new) {
            (false, false, false) => 0,
            _ if !self.write && !self.append => return None,
            (_, true, false) if self.append => return None,
            (_, _, true) => sys::O_CREAT | sys::O_EXCL,
            (true, false, false) => sys::O_CREAT,
            (false, true, false) => sys::O_TRUNC,
            (true, true, false) => sys::O_CREAT | sys::O_TRUNC,
        };
        Some(access | creation | sys::O_CLOEXEC)
    }
}

impl OpenOptions {
    /// Makes options that all are off.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let wants = Wants {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            has_custom_flags: false,
            mode: 0o666,
        };
        OpenOptions { options: fs::OpenOptions::new(), wants }
    }

    /// Chooses whether the file may be read.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.options.read(read);
        self.wants.read = read;
        self
    }

    /// Chooses whether the file may be written.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.options.write(write);
        self.wants.write = write;
        self
    }

    /// Chooses whether every write goes to the end of the file.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.options.append(append);
        self.wants.append = append;
        self
    }

    /// Chooses whether the file is truncated to 0 bytes when it is opened.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.options.truncate(truncate);
        self.wants.truncate = truncate;
        self
    }

    /// Chooses whether the file is created if it does not exist.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.options.create(create);
        self.wants.create = create;
        self
    }

    /// Chooses whether the file must be created by this call, which fails if the path exists.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.options.create_new(create_new);
        self.wants.create_new = create_new;
        self
    }

    /// Opens the file at `path`.
    ///
    /// # Blocking
    /// Parks the fiber until the file is open. The open of a FIFO waits until its other end is
    /// opened.
    ///
    /// # Cancellation
    /// A cancel point. Once the open of a FIFO has begun, it waits for the other end even if it is
    /// cancelled.
    ///
    /// # Errors
    /// Those of [`std::fs::OpenOptions::open`].
    #[track_caller]
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        cancel::check_io()?;
        let path = path.as_ref();
        match (route(), self.wants.flags(), CString::new(path.as_os_str().as_bytes())) {
            (Route::Ring, Some(flags), Ok(c_path)) if !may_wait_for_other_end(path, flags) => {
                self.open_by_ring(path, &c_path, flags)
            }
            (Route::WithoutRing, Some(flags), _) if flags & (sys::O_CREAT | sys::O_TRUNC) == 0 => {
                let opened = sys::open_cached(path, flags).map(File::from);
                opened.map_or_else(|| blocking_io(|| self.options.open(path)).map(File::from), Ok)
            }
            _ => blocking_io(|| self.options.open(path)).map(File::from),
        }
    }

    /// Opens the file through the ring. If a path is cached, the kernel first tries the open
    /// without waiting, as if by `O_NONBLOCK`. The result is the same as without that flag, except
    /// for the reading end of a FIFO and for files that fail with `ENXIO`.
    #[track_caller]
    fn open_by_ring(&self, path: &Path, c_path: &CString, flags: i32) -> io::Result<File> {
        let mode = self.wants.mode;
        let op = Op::Open { path: c_path.as_ptr().cast(), flags, mode };
        // SAFETY: the path is borrowed for the length of this call.
        let opened = unsafe { op::request(&OPEN, op).perform() };
        let fd = match opened.map_err(io::Error::from) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                return blocking_io(|| self.options.open(path)).map(File::from);
            }
            result => result?,
        };
        // SAFETY: a successful open returns a new descriptor that nobody else owns.
        let fd = unsafe { op::own_fd(fd) };
        let file = File::from(fd);
        // A FIFO has taken the place of the file that was looked up.
        let did_not_wait = reads_only(flags) && flags & (sys::O_CREAT | sys::O_TRUNC) == 0;
        if did_not_wait && file.is_stream() && file.as_std().metadata()?.file_type().is_fifo() {
            return self.open_fifo(path, file.into());
        }
        Ok(file)
    }

    /// Waits for a writer of a FIFO. The first descriptor, whose open did not wait, stays open
    /// meanwhile, because a writer that has seen this end open must not see it close.
    #[cold]
    #[track_caller]
    fn open_fifo(&self, path: &Path, opened: OwnedFd) -> io::Result<File> {
        let waited = blocking_io(|| self.options.open(path));
        drop(opened);
        waited.map(File::from)
    }
}

/// Whether the path leads to a FIFO or a device, which must not be opened through the ring.
///
/// - To create or truncate a file, a ring uses one of its few worker threads for files (io-wq). A
///   FIFO would occupy the thread until its other end is opened.
/// - A read-only open that does not wait makes the reader visible. A writer might come and go
///   before the reader begins to wait for it, and the reader would wait for a second one. This look
///   at the path takes 1.9 µs of the 4.8 µs of an open and a close.
fn may_wait_for_other_end(path: &Path, flags: i32) -> bool {
    let may_write = flags & (sys::O_CREAT | sys::O_TRUNC) != 0;
    let is_new = flags & sys::O_EXCL != 0;
    let looks = if may_write { !is_new } else { reads_only(flags) };
    let found = if looks { sys::look_up_cached(path, true) } else { None };
    found.is_some_and(|found| sys::file_kind(found) == FileKind::Stream)
}

fn reads_only(flags: i32) -> bool {
    flags & libc::O_ACCMODE == libc::O_RDONLY
}

impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.options.mode(mode);
        self.wants.mode = mode;
        self
    }

    fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.options.custom_flags(flags);
        self.wants.has_custom_flags = flags != 0;
        self
    }
}
