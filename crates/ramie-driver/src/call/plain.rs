//! Calls made directly: as system calls of the calling thread.
#![allow(unsafe_code)]

use std::ptr;

use rustix::io::Errno;
use sc::nr;

use super::{Call, entry::FUTEX_ALL};
use crate::sys::short_lived_ring;

/// `FUTEX_WAIT_BITSET`, `FUTEX_WAKE_BITSET`: their timeouts are absolute, and a mask is given.
const FUTEX_WAIT: usize = 9;
const FUTEX_WAKE: usize = 10;
const FUTEX_PRIVATE: usize = 128;

fn futex_op(op: usize, is_shared: bool) -> usize {
    if is_shared { op } else { op | FUTEX_PRIVATE }
}

/// A number and six arguments, of which unused ones are zero.
type Arguments = (usize, [usize; 6]);

impl Call {
    /// Makes the call on this thread, waiting if the call waits. Returns the call's result, or
    /// `-errno`, which may be `-EINTR`.
    ///
    /// # Blocking
    /// Blocks the thread.
    ///
    /// # Safety
    /// The memory that the call points to is valid for the kernel to read and write.
    pub unsafe fn make(&self) -> i32 {
        match *self {
            Call::Message { ring, result, data } => {
                short_lived_ring::send_message(ring, result, data)
            }
            Call::Splice { from, from_at, to, to_at, len, flags } => {
                splice((from, from_at), (to, to_at), len, flags)
            }
            _ => {
                let (number, [a, b, c, d, e, f]) = self.arguments();
                // SAFETY: the caller vouches for the pointers; calls with fewer arguments ignore
                // the rest.
                let result = unsafe { sc::syscall6(number, a, b, c, d, e, f) } as isize as i32;
                self.as_ring_result(result)
            }
        }
    }

    /// Converts the result of the system call to that of the op: a sleep that reaches its end is a
    /// success for the call, and an error for the op.
    fn as_ring_result(&self, result: i32) -> i32 {
        match (self, result) {
            (Call::Timeout { .. }, 0) => -Errno::TIME.raw_os_error(),
            _ => result,
        }
    }

    fn arguments(&self) -> Arguments {
        let at = |fd: i32| fd as isize as usize;
        match *self {
            Call::OpenAt2 { dir, path, how } => {
                let size = size_of::<super::OpenHow>();
                (nr::OPENAT2, [at(dir), path as usize, how as usize, size, 0, 0])
            }
            Call::Statx { dir, path, flags, mask, into } => {
                let (flags, mask) = (flags as usize, mask as usize);
                (nr::STATX, [at(dir), path as usize, flags, mask, into as usize, 0])
            }
            Call::Sync { fd, data_only } => {
                let number = if data_only { nr::FDATASYNC } else { nr::FSYNC };
                (number, [at(fd), 0, 0, 0, 0, 0])
            }
            Call::Allocate { fd, mode, offset, len } => {
                (nr::FALLOCATE, [at(fd), mode as usize, offset as usize, len as usize, 0, 0])
            }
            Call::Advise { fd, offset, len, advice } => {
                (nr::FADVISE64, [at(fd), offset as usize, len as usize, advice as usize, 0, 0])
            }
            Call::Truncate { fd, len } => (nr::FTRUNCATE, [at(fd), len as usize, 0, 0, 0, 0]),
            Call::Socket { domain, kind, protocol } => {
                (nr::SOCKET, [at(domain), at(kind), at(protocol), 0, 0, 0])
            }
            Call::Bind { fd, addr, addr_len } => {
                (nr::BIND, [at(fd), addr as usize, addr_len as usize, 0, 0, 0])
            }
            Call::Listen { fd, backlog } => (nr::LISTEN, [at(fd), at(backlog), 0, 0, 0, 0]),
            Call::Shutdown { fd, how } => (nr::SHUTDOWN, [at(fd), at(how), 0, 0, 0, 0]),
            Call::Tee { from, to, len, flags } => {
                (nr::TEE, [at(from), at(to), len as usize, flags as usize, 0, 0])
            }
            Call::Pipe { into, flags } => (nr::PIPE2, [into as usize, flags as usize, 0, 0, 0, 0]),
            Call::WaitId { id_type, id, into, options } => {
                let (id, options) = (id as usize, options as usize);
                (nr::WAITID, [id_type as usize, id, into as usize, options, 0, 0])
            }
            Call::FutexWait { word, value, is_shared } => {
                let (op, all) = (futex_op(FUTEX_WAIT, is_shared), FUTEX_ALL as usize);
                (nr::FUTEX, [word as usize, op, value as usize, 0, 0, all])
            }
            Call::FutexWake { word, count, is_shared } => {
                let (op, all) = (futex_op(FUTEX_WAKE, is_shared), FUTEX_ALL as usize);
                (nr::FUTEX, [word as usize, op, count.min(i32::MAX as u32) as usize, 0, 0, all])
            }
            // On the monotonic clock, as on a ring.
            Call::Timeout { time } => (nr::CLOCK_NANOSLEEP, [1, 0, time as usize, 0, 0, 0]),
            Call::Splice { .. } | Call::Message { .. } => {
                unreachable!("these have their own arms in `make`")
            }
            _ => self.name_arguments(),
        }
    }

    /// The arguments of a call on paths or attributes.
    fn name_arguments(&self) -> Arguments {
        let at = |fd: i32| fd as isize as usize;
        match *self {
            Call::Rename { old_dir, old, new_dir, new, flags } => {
                let (old_dir, new_dir, flags) = (at(old_dir), at(new_dir), flags as usize);
                (nr::RENAMEAT2, [old_dir, old as usize, new_dir, new as usize, flags, 0])
            }
            Call::Unlink { dir, path, flags } => {
                (nr::UNLINKAT, [at(dir), path as usize, flags as usize, 0, 0, 0])
            }
            Call::Link { old_dir, old, new_dir, new, flags } => {
                let (old_dir, new_dir, flags) = (at(old_dir), at(new_dir), flags as usize);
                (nr::LINKAT, [old_dir, old as usize, new_dir, new as usize, flags, 0])
            }
            Call::Symlink { target, dir, path } => {
                (nr::SYMLINKAT, [target as usize, at(dir), path as usize, 0, 0, 0])
            }
            Call::MakeDir { dir, path, mode } => {
                (nr::MKDIRAT, [at(dir), path as usize, mode as usize, 0, 0, 0])
            }
            Call::SetXattr { path, name, value, len, flags } => {
                let (value, len, flags) = (value as usize, len as usize, flags as usize);
                (nr::SETXATTR, [path as usize, name as usize, value, len, flags, 0])
            }
            Call::GetXattr { path, name, value, len } => {
                (nr::GETXATTR, [path as usize, name as usize, value as usize, len as usize, 0, 0])
            }
            Call::SetXattrOf { fd, name, value, len, flags } => {
                let (value, len, flags) = (value as usize, len as usize, flags as usize);
                (nr::FSETXATTR, [at(fd), name as usize, value, len, flags, 0])
            }
            Call::GetXattrOf { fd, name, value, len } => {
                (nr::FGETXATTR, [at(fd), name as usize, value as usize, len as usize, 0, 0])
            }
            _ => unreachable!("every other call has its own arm in `arguments`"),
        }
    }
}

fn splice(from: (i32, i64), to: (i32, i64), len: u32, flags: u32) -> i32 {
    let (mut from_at, mut to_at) = (from.1, to.1);
    let pointer = |at: &mut i64| if *at < 0 { 0 } else { ptr::from_mut(at) as usize };
    let (from_at, to_at) = (pointer(&mut from_at), pointer(&mut to_at));
    let (from, to) = (from.0 as isize as usize, to.0 as isize as usize);
    let (len, flags) = (len as usize, flags as usize);
    // SAFETY: null, or the two offsets in this frame.
    unsafe { sc::syscall6(nr::SPLICE, from, from_at, to, to_at, len, flags) as isize as i32 }
}
