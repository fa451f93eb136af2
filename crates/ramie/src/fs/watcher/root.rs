//! The watched file or folder itself: how it is found after renames, and how its end is noticed.
//!
//! Folders are watched by paths. The root of a tree is therefore kept open: a path that begins with
//! its descriptor (`/proc/self/fd/N`) leads to it after a rename of the root or of a folder above,
//! after a change of the working directory, and after a change of the link that led to it.
//!
//! The price is that the kernel reports no end of a folder that is open. Therefore the folder above
//! is watched for removals, and each of them makes the root count its links. A root without links
//! is closed, and then the kernel reports its end. *The race to fear*: the root moves, or ends,
//! between two looks. A move gives a notice of its own, after which the new folder above is
//! watched; and links are counted after each start of such a watch, so an earlier end is seen, too.
//!
//! A file that is watched alone, or a folder without the folders below, needs no path after the
//! start, so it is not kept open.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{self, Path, PathBuf},
};

use ramie_driver::sys::{self, Watched};

use super::{at, folders::Number};

const DESCRIPTORS: &str = "/proc/self/fd";

#[derive(Debug)]
pub(super) struct Root {
    number: Number,
    /// As the caller wrote it, because reports begin with it.
    path: PathBuf,
    /// Where it was at the start, for systems without /proc.
    start: PathBuf,
    /// Whether /proc is mounted, so that an open folder has a path that no rename changes.
    has_proc: bool,
    /// The root of a tree, unless it was removed or /proc is missing.
    folder: Option<fs::File>,
    /// The folder above, which is watched for removals.
    above: Option<Number>,
}

impl Root {
    /// Watches one path.
    pub(super) fn of_one(queue: BorrowedFd<'_>, path: PathBuf) -> io::Result<Root> {
        Self::watch(queue, path, Watched::Anything)
    }

    /// Watches a folder, and keeps it open.
    pub(super) fn of_tree(queue: BorrowedFd<'_>, path: PathBuf) -> io::Result<Root> {
        let mut root = Self::watch(queue, path, Watched::Folder)?;
        root.watch_above(queue)?;
        Ok(root)
    }

    fn watch(queue: BorrowedFd<'_>, path: PathBuf, watched: Watched) -> io::Result<Root> {
        let has_proc = Path::new(DESCRIPTORS).is_dir();
        let is_kept = has_proc && watched == Watched::Folder;
        let named = |error| at(&path, &error);
        let folder = is_kept.then(|| open_path(&path)).transpose().map_err(named)?;
        let place = folder.as_ref().map_or_else(|| path.clone(), path_of);
        let number = sys::inotify_watch(queue, &place, watched).map_err(named)?;
        let start = fs::canonicalize(&path).or_else(|_| path::absolute(&path));
        let start = start.unwrap_or_else(|_| path.clone());
        Ok(Root { number, path, start, has_proc, folder, above: None })
    }

    pub(super) fn number(&self) -> Number {
        self.number
    }

    /// Returns the path that reports begin with.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path that leads to the root now, even after renames.
    pub(super) fn place(&self) -> PathBuf {
        self.folder.as_ref().map_or_else(|| self.start.clone(), path_of)
    }

    /// Returns a path that leads to an open folder even after renames, if there is one.
    pub(super) fn own_path_of(&self, folder: &fs::File) -> Option<PathBuf> {
        self.has_proc.then(|| path_of(folder))
    }

    pub(super) fn is_above(&self, number: Number) -> bool {
        self.above == Some(number)
    }

    /// Watches the folder that the root is in now for removals. Returns the number of the one that
    /// it was in before, if that is another.
    pub(super) fn watch_above(&mut self, queue: BorrowedFd<'_>) -> io::Result<Option<Number>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let before = self.above.take();
        match sys::inotify_watch_removals(queue, &path_of(folder).join("..")) {
            Ok(number) => self.above = Some(number),
            // A folder that may not be read cannot be watched. To miss the root's end is less bad
            // than to lose the root when it moves.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => {
                self.above = before;
                self.close_if_removed();
                return Err(at(&self.path.join(".."), &error));
            }
        }
        self.close_if_removed();
        Ok(before.filter(|&before| !self.is_above(before)))
    }

    /// Closes the root if it was removed, so that the kernel reports its end.
    pub(super) fn close_if_removed(&mut self) {
        // A file system that does not answer now may answer later, so an error closes nothing.
        let is_removed = |folder: &fs::File| {
            folder.metadata().is_ok_and(|now| now.nlink() == 0) || is_deleted(folder)
        };
        self.folder = self.folder.take().filter(|folder| !is_removed(folder));
    }

    /// Whether the watch of the root has not ended. The notice of its end may be lost.
    pub(super) fn is_there(&self, queue: BorrowedFd<'_>, watched: Watched) -> bool {
        if self.folder.is_some() {
            return true;
        }
        let watches = Path::new("/proc/self/fdinfo").join(queue.as_raw_fd().to_string());
        let watches = fs::read_to_string(watches).unwrap_or_default();
        let own = format!("inotify wd:{:x} ", self.number);
        watches.lines().any(|line| line.starts_with(&own))
            // Without /proc, and on a kernel that does not list the watches.
            || sys::inotify_watch(queue, &self.start, watched)
                .is_ok_and(|number| number == self.number)
    }
}

/// Opens a folder only to name it, which needs no permission to read it.
fn open_path(folder: &Path) -> io::Result<fs::File> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    fs::OpenOptions::new().read(true).custom_flags(flags).open(folder)
}

fn path_of(folder: &fs::File) -> PathBuf {
    Path::new(DESCRIPTORS).join(folder.as_raw_fd().to_string())
}

/// Whether the kernel names a folder as deleted. An overlay file system, as containers have one,
/// reports links of a removed folder of an image.
fn is_deleted(folder: &fs::File) -> bool {
    let Ok(name) = fs::read_link(path_of(folder)) else { return false };
    if !name.as_os_str().as_encoded_bytes().ends_with(b" (deleted)") {
        return false;
    }
    // It may be the folder's own name.
    let id = |of: &fs::Metadata| (of.dev(), of.ino());
    let is_there = fs::metadata(&name).ok().map(|of| id(&of));
    folder.metadata().is_ok_and(|of| Some(id(&of)) != is_there)
}
