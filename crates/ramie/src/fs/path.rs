//! The functions that take a path.

use std::{
    fs::{self, Permissions},
    io::{self, Read},
    os::{fd::AsFd, unix},
    path::{Path, PathBuf},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use ramie_driver::sys::{self, AtFlags, FileKind, Mode, RenameFlags};

use super::{File, Metadata};
use crate::{
    core::cancel,
    op::{
        blocking_io,
        route::{Route, route},
    },
    ring::{self, CWD},
    sync::{Mutex, MutexGuard},
};

/// The size from which writing contents occupies a CPU for a while.
const LARGE: usize = 256 * 1024;

/// The pool has more threads than the machine has CPUs, so jobs that occupy a CPU could leave the
/// workers little CPU time. Each such job therefore takes a lane first; there is one for each CPU.
static LANES: LazyLock<Vec<Mutex<()>>> =
    LazyLock::new(|| (0..sys::available_cpus()).map(|_| Mutex::new(())).collect());
static NEXT_LANE: AtomicUsize = AtomicUsize::new(0);

#[track_caller]
fn take_lane() -> Option<MutexGuard<'static, ()>> {
    if route() == Route::Here {
        return None;
    }
    let free = LANES.iter().find_map(|lane| lane.try_lock().ok());
    Some(free.unwrap_or_else(|| {
        let lane = &LANES[NEXT_LANE.fetch_add(1, Ordering::Relaxed) % LANES.len()];
        lane.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }))
}

/// Makes twins whose whole call is one job of the pool.
macro_rules! jobs {
    ($(
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident($path:ident $(, $argument:ident: $type:ty)*) -> $result:ty
            = $call:path;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Blocking
        /// Parks the fiber until the call is complete.
        ///
        /// # Cancellation
        /// A cancel point.
        ///
        /// # Errors
        /// Those of std's function of this name.
        #[track_caller]
        $visibility fn $name<P: AsRef<Path>>($path: P $(, $argument: $type)*) -> io::Result<$result>
        {
            let $path = $path.as_ref();
            blocking_io(|| $call($path $(, $argument)*))
        }
    )*};
}

/// Makes twins whose whole call is one call of [`ring`], relative to the working directory.
macro_rules! ring_calls {
    ($(
        $(#[$doc:meta])*
        pub fn $name:ident<$P:ident $(, $Q:ident)?>($path:ident $(, $other:ident)?) = $call:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Blocking
        /// Parks the fiber until the call is complete.
        ///
        /// # Cancellation
        /// A cancel point.
        ///
        /// # Errors
        /// Those of std's function of this name.
        #[track_caller]
        pub fn $name<$P: AsRef<Path> $(, $Q: AsRef<Path>)?>(
            $path: $P
            $(, $other: $Q)?
        ) -> io::Result<()> {
            $call
        }
    )*};
}

jobs! {
    /// Returns the absolute path, with symbolic links, `.` and `..` resolved; twin of
    /// [`std::fs::canonicalize`].
    pub fn canonicalize(path) -> PathBuf = fs::canonicalize;
    /// Creates a directory and all missing ones above it; twin of [`std::fs::create_dir_all`].
    pub fn create_dir_all(path) -> () = fs::create_dir_all;
    /// Returns the target of a symbolic link; twin of [`std::fs::read_link`].
    pub fn read_link(path) -> PathBuf = fs::read_link;
    /// Removes a directory with all its contents; twin of [`std::fs::remove_dir_all`].
    pub fn remove_dir_all(path) -> () = fs::remove_dir_all;
    /// Changes the permissions of the file at a path; twin of [`std::fs::set_permissions`].
    pub fn set_permissions(path, perm: Permissions) -> () = fs::set_permissions;
    /// Changes the root directory of the process; twin of [`std::os::unix::fs::chroot`].
    pub fn chroot(path) -> () = unix::fs::chroot;
    /// Changes owner and group; twin of [`std::os::unix::fs::chown`].
    pub fn chown(path, uid: Option<u32>, gid: Option<u32>) -> () = unix::fs::chown;
    /// Changes owner and group; of a symbolic link itself, not of its target; twin of
    /// [`std::os::unix::fs::lchown`].
    pub fn lchown(path, uid: Option<u32>, gid: Option<u32>) -> () = unix::fs::lchown;
}

/// Copies contents and permissions of a file, and returns the number of bytes copied; twin of
/// [`std::fs::copy`].
///
/// # Blocking
/// Parks the fiber until the copy is complete. At most one copy per CPU runs at a time; further
/// ones wait.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Those of [`std::fs::copy`].
#[track_caller]
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<u64> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let _lane = take_lane();
    blocking_io(|| fs::copy(from, to))
}

ring_calls! {
    /// Creates a directory; twin of [`std::fs::create_dir`].
    pub fn create_dir<P>(path) = ring::mkdir(CWD, path, Mode::from_raw_mode(0o777));
    /// Removes an empty directory; twin of [`std::fs::remove_dir`].
    pub fn remove_dir<P>(path) = ring::unlink(CWD, path, AtFlags::REMOVEDIR);
    /// Removes a file; twin of [`std::fs::remove_file`].
    pub fn remove_file<P>(path) = ring::unlink(CWD, path, AtFlags::empty());
    /// Gives a file a second name; twin of [`std::fs::hard_link`].
    pub fn hard_link<P, Q>(original, link)
        = ring::link(CWD, original, CWD, link, AtFlags::empty());
    /// Renames a file, and replaces a file that has the new name; twin of [`std::fs::rename`].
    pub fn rename<P, Q>(from, to) = ring::rename(CWD, from, CWD, to, RenameFlags::empty());
    /// Makes a symbolic link; twin of [`std::os::unix::fs::symlink`].
    pub fn symlink<P, Q>(original, link) = ring::symlink(original, CWD, link);
}

/// Changes owner and group of an open file; twin of [`std::os::unix::fs::fchown`].
///
/// # Blocking
/// Parks the fiber until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the call has begun, the fiber waits for its end.
///
/// # Errors
/// Those of std's function of this name.
#[track_caller]
pub fn fchown<F: AsFd>(fd: F, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let fd = fd.as_fd();
    blocking_io(|| unix::fs::fchown(fd, uid, gid))
}

/// Makes a symbolic link; twin of [`std::fs::soft_link`].
///
/// # Blocking
/// Parks the fiber until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the call has begun, the fiber waits for its end.
///
/// # Errors
/// Those of [`std::fs::soft_link`].
#[deprecated(note = "use ramie::os::unix::fs::symlink; std deprecates its own, too")]
#[track_caller]
pub fn soft_link<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    symlink(original, link)
}

/// Reads a whole file; twin of [`std::fs::read`].
///
/// # Blocking
/// As [`File::open`] and the reads of [`File`].
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Those of [`std::fs::read`].
#[track_caller]
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file as text; twin of [`std::fs::read_to_string`].
///
/// # Blocking
/// As [`File::open`] and the reads of [`File`].
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// `InvalidData`: the file is not UTF-8. Otherwise those of [`std::fs::read_to_string`].
#[track_caller]
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Writes `contents` as the whole content of a file; twin of [`std::fs::write`].
///
/// # Blocking
/// Parks the fiber until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the call has begun, the fiber waits for its end.
///
/// # Errors
/// Those of [`std::fs::write`].
#[track_caller]
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    let (path, contents) = (path.as_ref(), contents.as_ref());
    let _lane = if contents.len() > LARGE { take_lane() } else { None };
    blocking_io(|| fs::write(path, contents))
}

/// Reads the attributes of the file at a path, following links; twin of [`std::fs::metadata`].
///
/// # Blocking
/// Parks the fiber, unless the file is on a local disk and its attributes are cached.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Those of [`std::fs::metadata`].
#[track_caller]
pub fn metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    cancel::check_io()?;
    let path = path.as_ref();
    let found = cached_metadata(path, true);
    found.unwrap_or_else(|| blocking_io(|| fs::metadata(path))).map(Metadata::from)
}

/// Reads the attributes of the file at a path, or of the link itself; twin of
/// [`std::fs::symlink_metadata`].
///
/// # Blocking
/// As [`metadata`].
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Those of [`std::fs::symlink_metadata`].
#[track_caller]
pub fn symlink_metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    cancel::check_io()?;
    let path = path.as_ref();
    let found = cached_metadata(path, false);
    found.unwrap_or_else(|| blocking_io(|| fs::symlink_metadata(path))).map(Metadata::from)
}

/// Returns whether the path exists; twin of [`std::fs::exists`].
///
/// # Blocking
/// As [`metadata`].
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Those of [`std::fs::exists`].
#[track_caller]
pub fn exists<P: AsRef<Path>>(path: P) -> io::Result<bool> {
    match metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads attributes if that certainly does not wait: on a fiber, those of a file on a local disk
/// that are cached. Two calls are needed, because only std can make its `Metadata`: one opens the
/// path without waiting, then std reads the attributes of that descriptor.
fn cached_metadata(path: &Path, follow: bool) -> Option<io::Result<fs::Metadata>> {
    if route() == Route::Here {
        return None;
    }
    let found = sys::look_up_cached(path, follow)?;
    let is_local = sys::file_kind(&found) == FileKind::Local;
    is_local.then(|| fs::File::from(found).metadata())
}
