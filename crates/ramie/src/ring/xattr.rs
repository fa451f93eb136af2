//! Extended attributes of files: ops of a ring since Linux 5.19.
#![allow(unsafe_code)]

use std::{ffi::OsStr, io, os::fd::AsFd, path::Path};

use ramie_driver::{Call, sys::XattrFlags};

use crate::{
    core::wait::park::WaitKind,
    op::call::{c_string, cut, make, raw},
};

static XATTR: WaitKind = WaitKind::of_op("an attribute of a file");

/// Sets an attribute of the file at `path`: `setxattr` (5.19).
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of setxattr(2); `InvalidInput` for a name with a zero byte.
#[track_caller]
pub fn setxattr(
    path: impl AsRef<Path>,
    name: impl AsRef<OsStr>,
    value: &[u8],
    flags: XattrFlags,
) -> io::Result<()> {
    let (path, name) = (c_string(path.as_ref())?, c_string(name)?);
    let call = Call::SetXattr {
        path: path.as_ptr().cast(),
        name: name.as_ptr().cast(),
        value: value.as_ptr(),
        len: cut(value.len()),
        flags: flags.bits(),
    };
    // SAFETY: the names lie in this frame, and the value is borrowed.
    unsafe { make(&XATTR, call) }.map(drop)
}

/// Reads an attribute of the file at `path`: `getxattr` (5.19). Returns its length in bytes; with
/// an empty buffer it reads only the length.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of getxattr(2), among them `ERANGE`: the buffer is too small; `InvalidInput` for a name
/// with a zero byte.
#[track_caller]
pub fn getxattr(
    path: impl AsRef<Path>,
    name: impl AsRef<OsStr>,
    value: &mut [u8],
) -> io::Result<usize> {
    let (path, name) = (c_string(path.as_ref())?, c_string(name)?);
    let call = Call::GetXattr {
        path: path.as_ptr().cast(),
        name: name.as_ptr().cast(),
        value: value.as_mut_ptr(),
        len: cut(value.len()),
    };
    // SAFETY: the names lie in this frame, and the buffer is borrowed mutably.
    Ok(unsafe { make(&XATTR, call) }? as usize)
}

/// Sets an attribute of an open file: `fsetxattr` (5.19).
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of fsetxattr(2); `InvalidInput` for a name with a zero byte.
#[track_caller]
pub fn fsetxattr(
    fd: impl AsFd,
    name: impl AsRef<OsStr>,
    value: &[u8],
    flags: XattrFlags,
) -> io::Result<()> {
    let name = c_string(name)?;
    let call = Call::SetXattrOf {
        fd: raw(&fd),
        name: name.as_ptr().cast(),
        value: value.as_ptr(),
        len: cut(value.len()),
        flags: flags.bits(),
    };
    // SAFETY: the name lies in this frame, and file and value are borrowed.
    unsafe { make(&XATTR, call) }.map(drop)
}

/// Reads an attribute of an open file: `fgetxattr` (5.19). Returns its length in bytes; with an
/// empty buffer it reads only the length.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// As [`getxattr`].
#[track_caller]
pub fn fgetxattr(fd: impl AsFd, name: impl AsRef<OsStr>, value: &mut [u8]) -> io::Result<usize> {
    let name = c_string(name)?;
    let call = Call::GetXattrOf {
        fd: raw(&fd),
        name: name.as_ptr().cast(),
        value: value.as_mut_ptr(),
        len: cut(value.len()),
    };
    // SAFETY: the name lies in this frame, the file is borrowed, and the buffer mutably.
    Ok(unsafe { make(&XATTR, call) }? as usize)
}
