//! Reads, writes, connections, readiness.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_int, c_short, c_void},
    io,
    os::fd::{BorrowedFd, IntoRawFd},
    slice,
    time::Duration,
};

use ramie::{
    cancel::{Cancelled, try_with_timeout},
    io::PollFlags,
    net::{TcpListener, TcpStream},
    ring,
};
use ramie_driver::sys;

use crate::outcome::{errno_of, guard, required, timeout};

/// Borrows the name of a host.
///
/// # Safety
/// It is null or a string.
unsafe fn host_name<'a>(host: *const c_char) -> Result<&'a str, i32> {
    required(host)?;
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(host) }.to_str().map_err(|_| -libc::EINVAL)
}

/// Borrows a descriptor of C's.
///
/// # Safety
/// It stays open until the call of C's has returned.
unsafe fn borrow<'a>(fd: c_int) -> Result<BorrowedFd<'a>, i32> {
    // -1 is no descriptor for `BorrowedFd`.
    if fd < 0 {
        return Err(-libc::EBADF);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// The most bytes that a call moves, as read(2) has it.
const MOST: usize = 0x7fff_f000;

fn moved(moved: io::Result<usize>) -> Result<i32, i32> {
    moved.map(|count| count as i32).map_err(|error| errno_of(&error))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_read(fd: c_int, buffer: *mut c_void, count: usize) -> isize {
    let read = guard(|| {
        // SAFETY: the header says so.
        let fd = unsafe { borrow(fd) }?;
        if count == 0 || buffer.is_null() {
            return if count == 0 { Ok(0) } else { Err(-libc::EFAULT) };
        }
        // SAFETY: the header says that it is a buffer of that size. Its bytes are written by the
        // kernel only, so it is no matter if they are not initialized.
        let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), count.min(MOST)) };
        moved(ring::read(fd, buffer, None))
    });
    read as isize
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_write(fd: c_int, buffer: *const c_void, count: usize) -> isize {
    let written = guard(|| {
        // SAFETY: the header says so.
        let fd = unsafe { borrow(fd) }?;
        if count == 0 || buffer.is_null() {
            return if count == 0 { Ok(0) } else { Err(-libc::EFAULT) };
        }
        // SAFETY: the header says that it is a buffer of that size.
        let buffer = unsafe { slice::from_raw_parts(buffer.cast::<u8>(), count.min(MOST)) };
        moved(ring::write(fd, buffer, None))
    });
    written as isize
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_connect(host: *const c_char, port: u16) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        let host = unsafe { host_name(host) }?;
        let stream = TcpStream::connect((host, port)).map_err(|error| errno_of(&error))?;
        Ok(stream.into_raw_fd())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_listen(host: *const c_char, port: u16) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        let host = unsafe { host_name(host) }?;
        let listener = TcpListener::bind((host, port)).map_err(|error| errno_of(&error))?;
        Ok(listener.into_raw_fd())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_accept(fd: c_int) -> c_int {
    guard(|| {
        // SAFETY: the header says so.
        let fd = unsafe { borrow(fd) }?;
        let (accepted, _) = ring::accept(fd).map_err(|error| errno_of(&error))?;
        Ok(accepted.into_raw_fd())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_poll(fd: c_int, events: c_short, timeout_ms: i64) -> c_int {
    guard(|| {
        // SAFETY: the header says so.
        let fd = unsafe { borrow(fd) }?;
        let events = PollFlags::from_bits_retain(events as _);
        let wait = || ring::poll(fd, events);
        let polled = match timeout(timeout_ms) {
            Duration::MAX => wait(),
            limit => try_with_timeout(limit, wait),
        };
        match polled {
            Ok(ready) => Ok(ready.bits().into()),
            Err(error) if Cancelled::of(&error).is_some_and(Cancelled::is_deadline) => {
                // With a limit of 0 the wait did not begin, but the descriptor may be ready.
                let ready = sys::poll_now(fd, events.bits() as u32 & 0xffff);
                ready.map(|ready| ready as i32).map_err(|error| errno_of(&error))
            }
            Err(error) => Err(errno_of(&error)),
        }
    })
}
