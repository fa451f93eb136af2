//! Calls that create, rename and remove directory entries.
#![allow(unsafe_code)]

use std::{io, os::fd::AsFd, path::Path};

use ramie_driver::{
    Call,
    sys::{AtFlags, Mode, RenameFlags},
};

use crate::{
    core::wait::park::WaitKind,
    op::call::{c_string, make, raw},
};

static NAME: WaitKind = WaitKind::of_op("a file to be made, renamed or removed");

/// Renames a file: `renameat2`, a ring's op since Linux 5.11.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of renameat2(2); `InvalidInput` for a name with a zero byte.
///
/// # Examples
/// ```
/// use ramie::ring::{self, AtFlags, CWD, Mode, RenameFlags};
///
/// let old = std::env::temp_dir().join(format!("ramie-doc-{}", std::process::id()));
/// let new = old.with_extension("new");
/// ramie::run(|| -> std::io::Result<()> {
///     ring::mkdir(CWD, &old, Mode::RWXU)?;
///     ring::rename(CWD, &old, CWD, &new, RenameFlags::NOREPLACE)?;
///     ring::unlink(CWD, &new, AtFlags::REMOVEDIR)
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn rename(
    old_dir: impl AsFd,
    old: impl AsRef<Path>,
    new_dir: impl AsFd,
    new: impl AsRef<Path>,
    flags: RenameFlags,
) -> io::Result<()> {
    let (old, new) = (c_string(old.as_ref())?, c_string(new.as_ref())?);
    let call = Call::Rename {
        old_dir: raw(&old_dir),
        old: old.as_ptr().cast(),
        new_dir: raw(&new_dir),
        new: new.as_ptr().cast(),
        flags: flags.bits(),
    };
    // SAFETY: the names lie in this frame, and the directories are borrowed.
    unsafe { make(&NAME, call) }.map(drop)
}

/// Removes a name: `unlinkat`, a ring's op since Linux 5.11. With `AtFlags::REMOVEDIR` it removes
/// an empty directory.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of unlinkat(2); `InvalidInput` for a name with a zero byte.
#[track_caller]
pub fn unlink(dir: impl AsFd, path: impl AsRef<Path>, flags: AtFlags) -> io::Result<()> {
    let path = c_string(path.as_ref())?;
    let (dir, flags) = (raw(&dir), flags.bits());
    // SAFETY: the name lies in this frame, and the directory is borrowed.
    unsafe { make(&NAME, Call::Unlink { dir, path: path.as_ptr().cast(), flags }) }.map(drop)
}

/// Gives a file a second name: `linkat`, a ring's op since Linux 5.15.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of linkat(2); `InvalidInput` for a name with a zero byte.
#[track_caller]
pub fn link(
    old_dir: impl AsFd,
    old: impl AsRef<Path>,
    new_dir: impl AsFd,
    new: impl AsRef<Path>,
    flags: AtFlags,
) -> io::Result<()> {
    let (old, new) = (c_string(old.as_ref())?, c_string(new.as_ref())?);
    let call = Call::Link {
        old_dir: raw(&old_dir),
        old: old.as_ptr().cast(),
        new_dir: raw(&new_dir),
        new: new.as_ptr().cast(),
        flags: flags.bits(),
    };
    // SAFETY: the names lie in this frame, and the directories are borrowed.
    unsafe { make(&NAME, call) }.map(drop)
}

/// Makes a symbolic link at `path` that leads to `target`: `symlinkat`, a ring's op since Linux
/// 5.15.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of symlinkat(2); `InvalidInput` for a name with a zero byte.
#[track_caller]
pub fn symlink(target: impl AsRef<Path>, dir: impl AsFd, path: impl AsRef<Path>) -> io::Result<()> {
    let (target, path) = (c_string(target.as_ref())?, c_string(path.as_ref())?);
    let call = Call::Symlink {
        target: target.as_ptr().cast(),
        dir: raw(&dir),
        path: path.as_ptr().cast(),
    };
    // SAFETY: the names lie in this frame, and the directory is borrowed.
    unsafe { make(&NAME, call) }.map(drop)
}

/// Makes a directory: `mkdirat`, a ring's op since Linux 5.15.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of mkdirat(2); `InvalidInput` for a name with a zero byte.
#[track_caller]
pub fn mkdir(dir: impl AsFd, path: impl AsRef<Path>, mode: Mode) -> io::Result<()> {
    let path = c_string(path.as_ref())?;
    let (dir, mode) = (raw(&dir), mode.bits());
    // SAFETY: the name lies in this frame, and the directory is borrowed.
    unsafe { make(&NAME, Call::MakeDir { dir, path: path.as_ptr().cast(), mode }) }.map(drop)
}
