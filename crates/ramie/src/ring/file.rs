//! Calls on files: opening, attributes, size, syncing.
#![allow(unsafe_code)]

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use ramie_driver::{
    Call, OpenHow,
    sys::{Advice, AtFlags, FallocateFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags},
};

use crate::{
    core::wait::park::WaitKind,
    op::call::{c_string, make, own, plainly, raw},
};

static OPEN: WaitKind = WaitKind::of_op("a file to be opened");
static STATX: WaitKind = WaitKind::of_op("the attributes of a file");
static SYNC: WaitKind = WaitKind::of_op("a file to reach the disk");
static SIZE: WaitKind = WaitKind::of_op("a file to be sized");

/// Opens a file: `openat2`, a ring's op since Linux 5.6. `O_CLOEXEC` is added.
///
/// `mode` applies if a file is created. If the path is cached, a ring opens it at once, a FIFO as
/// if by `O_NONBLOCK`.
///
/// # Blocking
/// Parks the strand until the file is open.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of openat2(2); `InvalidInput` for a path with a zero byte.
///
/// # Examples
/// ```
/// use ramie::ring::{self, CWD, Mode, OFlags, ResolveFlags};
///
/// ramie::run(|| {
///     let (flags, mode) = (OFlags::RDONLY, Mode::empty());
///     let etc = ring::openat2(CWD, "/etc", flags, mode, ResolveFlags::empty())?;
///     // Nothing outside of it.
///     let beneath = ring::openat2(&etc, "../bin", flags, mode, ResolveFlags::BENEATH);
///     assert!(beneath.is_err());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn openat2(
    dir: impl AsFd,
    path: impl AsRef<Path>,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> io::Result<OwnedFd> {
    let path = c_string(path.as_ref())?;
    let how = OpenHow {
        flags: u64::from((flags | OFlags::CLOEXEC).bits()),
        mode: u64::from(mode.bits()),
        resolve: resolve.bits(),
    };
    let call = Call::OpenAt2 { dir: raw(&dir), path: path.as_ptr().cast(), how: &raw const how };
    // SAFETY: path and flags lie in this frame, and the directory is borrowed.
    let fd = unsafe { make(&OPEN, call) }?;
    // SAFETY: the call has returned a new descriptor.
    Ok(unsafe { own(fd) })
}

/// Reads the attributes of a file: `statx`, a ring's op since Linux 5.6. With `AtFlags::EMPTY_PATH`
/// and the path `""` the file is `dir` itself.
///
/// # Blocking
/// Parks the strand until the call is complete. A ring always makes it on a kernel thread.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of statx(2); `InvalidInput` for a path with a zero byte.
#[track_caller]
pub fn statx(
    dir: impl AsFd,
    path: impl AsRef<Path>,
    flags: AtFlags,
    mask: StatxFlags,
) -> io::Result<Statx> {
    let path = c_string(path.as_ref())?;
    let mut statx = MaybeUninit::<Statx>::zeroed();
    let call = Call::Statx {
        dir: raw(&dir),
        path: path.as_ptr().cast(),
        flags: flags.bits(),
        mask: mask.bits(),
        into: statx.as_mut_ptr(),
    };
    // SAFETY: path and room lie in this frame, and the directory is borrowed.
    unsafe { make(&STATX, call) }?;
    // SAFETY: the struct contains only integers; it was zeroed, and then filled by the kernel.
    Ok(unsafe { statx.assume_init() })
}

/// Waits until a file has reached the disk: `fsync`, or `fdatasync`, which omits attributes that
/// are not needed to read the file; a ring's op since Linux 5.1.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of fsync(2).
#[track_caller]
pub fn fsync(fd: impl AsFd, data_only: bool) -> io::Result<()> {
    // SAFETY: it points to nothing, and the file is borrowed.
    unsafe { make(&SYNC, Call::Sync { fd: raw(&fd), data_only }) }.map(drop)
}

/// Allocates or frees space in a file: `fallocate`, a ring's op since Linux 5.6.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of fallocate(2).
#[track_caller]
pub fn fallocate(fd: impl AsFd, mode: FallocateFlags, offset: u64, len: u64) -> io::Result<()> {
    let call = Call::Allocate { fd: raw(&fd), mode: mode.bits(), offset, len };
    // SAFETY: it points to nothing, and the file is borrowed.
    unsafe { make(&SIZE, call) }.map(drop)
}

/// Sets the length of a file: `ftruncate`, a ring's op since Linux 6.9.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of ftruncate(2).
#[track_caller]
pub fn ftruncate(fd: impl AsFd, len: u64) -> io::Result<()> {
    // SAFETY: it points to nothing, and the file is borrowed.
    unsafe { make(&SIZE, Call::Truncate { fd: raw(&fd), len }) }.map(drop)
}

/// Announces how a part of a file will be used: `posix_fadvise`, a ring's op since Linux 5.6; a
/// `len` of 0 means up to the end. Parts of 4 GiB and more go to the blocking pool, because the op
/// has only 32 bits for the length.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of posix_fadvise(2).
#[track_caller]
pub fn fadvise(fd: impl AsFd, offset: u64, len: u64, advice: Advice) -> io::Result<()> {
    let call = Call::Advise { fd: raw(&fd), offset, len, advice: advice as u32 };
    let advised = if len > u64::from(u32::MAX) {
        // SAFETY: it points to nothing, and the file is borrowed.
        unsafe { plainly(call) }
    } else {
        // SAFETY: as above.
        unsafe { make(&SIZE, call) }
    };
    advised.map(drop)
}
