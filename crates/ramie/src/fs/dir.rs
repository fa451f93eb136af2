//! Directories: listing them, and twins of `std::fs::{ReadDir, DirEntry, DirBuilder}`.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fmt,
    fs::{self, FileType},
    io,
    os::unix::fs::{DirBuilderExt, DirEntryExt},
    panic::{RefUnwindSafe, UnwindSafe},
    path::{Path, PathBuf},
};

use super::Metadata;
use crate::{core::cancel::Steps, op::blocking_io};

/// The number of entries that one job of the pool reads.
const BATCH: usize = 128;

/// Lists a directory; twin of [`std::fs::read_dir`].
///
/// # Blocking
/// Parks the fiber until the directory is open, and again for every 128 entries.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Those of [`std::fs::read_dir`].
///
/// # Examples
/// ```
/// for entry in ramie::fs::read_dir("/")? {
///     println!("{}", entry?.path().display());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn read_dir<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let (dir, batch) = blocking_io(|| {
        let mut dir = fs::read_dir(path)?;
        let batch = take_batch(&mut dir);
        io::Result::Ok((dir, batch))
    })?;
    Ok(ReadDir { dir, is_over: batch.len() < BATCH, batch, steps: Steps::Going })
}

/// An iterator over the entries of a directory, in no defined order; twin of [`std::fs::ReadDir`].
///
/// # Blocking
/// `next` parks the fiber for every 128th entry.
///
/// # Cancellation
/// `next` is a cancel point when it parks. A cancelled `next` loses no entry, so it may be called
/// again outside the scope. Inside the same cancelled scope, or beyond the same limit, it returns
/// `None`, so that a loop which continues after errors ends.
pub struct ReadDir {
    dir: fs::ReadDir,
    batch: VecDeque<io::Result<DirEntry>>,
    is_over: bool,
    steps: Steps,
}

// As std's `ReadDir` is: a panic cannot leave it half changed.
impl UnwindSafe for ReadDir {}
impl RefUnwindSafe for ReadDir {}

fn take_batch(dir: &mut fs::ReadDir) -> VecDeque<io::Result<DirEntry>> {
    dir.take(BATCH).map(|entry| entry.map(DirEntry::new)).collect()
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        if self.batch.is_empty() && !self.is_over {
            if !self.steps.go_on() {
                return None;
            }
            let dir = &mut self.dir;
            match self.steps.noted(blocking_io(|| Ok(take_batch(dir)))) {
                Ok(batch) => self.batch = batch,
                Err(cancelled) => return Some(Err(cancelled)),
            }
            self.is_over = self.batch.len() < BATCH;
        }
        self.batch.pop_front()
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dir.fmt(f)
    }
}

/// An entry of a directory; twin of [`std::fs::DirEntry`].
pub struct DirEntry {
    entry: fs::DirEntry,
    /// The type, which was found on the pool because finding it may wait; None if that failed.
    file_type: Option<FileType>,
}

impl DirEntry {
    fn new(entry: fs::DirEntry) -> Self {
        DirEntry { file_type: entry.file_type().ok(), entry }
    }

    /// Returns the path: the one given to [`read_dir`], joined with the entry's name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.entry.path()
    }

    /// Reads the attributes; of a symbolic link itself, not of its target.
    ///
    /// # Blocking
    /// Parks the fiber until the call is complete.
    ///
    /// # Cancellation
    /// A cancel point. Once the call has begun, the fiber waits for its end.
    ///
    /// # Errors
    /// Those of [`std::fs::DirEntry::metadata`].
    #[track_caller]
    pub fn metadata(&self) -> io::Result<Metadata> {
        blocking_io(|| self.entry.metadata()).map(Metadata::from)
    }

    /// Returns the type of the file; for a link, that of the link itself.
    ///
    /// # Errors
    /// Those of [`std::fs::DirEntry::file_type`].
    #[track_caller]
    pub fn file_type(&self) -> io::Result<FileType> {
        self.file_type.map_or_else(|| blocking_io(|| self.entry.file_type()), Ok)
    }

    /// Returns the name, without the directory.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.entry.file_name()
    }
}

impl DirEntryExt for DirEntry {
    fn ino(&self) -> u64 {
        self.entry.ino()
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}

/// Chooses how a directory is created; twin of [`std::fs::DirBuilder`].
#[derive(Debug)]
pub struct DirBuilder {
    builder: fs::DirBuilder,
}

impl DirBuilder {
    /// Makes options with permissions 0o777 (which the umask reduces), and not recursive.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        DirBuilder { builder: fs::DirBuilder::new() }
    }

    /// Chooses whether missing directories above are created, too.
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.builder.recursive(recursive);
        self
    }

    /// Creates the directory.
    ///
    /// # Blocking
    /// Parks the fiber until the call is complete.
    ///
    /// # Cancellation
    /// A cancel point. Once the call has begun, the fiber waits for its end.
    ///
    /// # Errors
    /// Those of [`std::fs::DirBuilder::create`].
    #[track_caller]
    pub fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let path = path.as_ref();
        blocking_io(|| self.builder.create(path))
    }
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.builder.mode(mode);
        self
    }
}
