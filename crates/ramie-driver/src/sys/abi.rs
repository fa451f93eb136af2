//! Structures that the kernel reads and writes, laid out as Linux lays them out.

use std::{ptr, time::Duration};

use super::SockAddrStorage;

/// One buffer of a vectored op: `struct iovec`, and so the layout of [`std::io::IoSlice`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IoVec {
    /// First byte.
    pub base: *mut u8,
    /// Bytes.
    pub len: usize,
}

/// The arguments of a message op: `struct msghdr` as Linux lays it out.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MessageHeader {
    /// Peer address, or null.
    pub name: *mut SockAddrStorage,
    /// Bytes at `name`; written back by a receive.
    pub name_len: u32,
    /// The buffers.
    pub iov: *mut IoVec,
    /// How many buffers.
    pub iov_len: usize,
    /// Control messages, or null.
    pub control: *mut u8,
    /// Bytes at `control`; written back by a receive.
    pub control_len: usize,
    /// Flags of a received message, written back.
    pub flags: i32,
}

impl MessageHeader {
    /// Makes a header that carries data only.
    pub const fn vectored(iov: *mut IoVec, iov_len: usize) -> Self {
        MessageHeader {
            name: ptr::null_mut(),
            name_len: 0,
            iov,
            iov_len,
            control: ptr::null_mut(),
            control_len: 0,
            flags: 0,
        }
    }
}

/// A time as the kernel takes it: `struct __kernel_timespec`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Timespec {
    /// Seconds.
    pub sec: i64,
    /// Nanoseconds below a second.
    pub nsec: i64,
}

impl From<Duration> for Timespec {
    fn from(duration: Duration) -> Self {
        let sec = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        Timespec { sec, nsec: duration.subsec_nanos().into() }
    }
}
