//! Control messages that pass descriptors over a Unix socket (`SCM_RIGHTS`, see cmsg(3)).

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// The most descriptors that Linux passes in one message (`SCM_MAX_FD`).
pub const MAX_PASSED_FDS: usize = 253;

/// `MSG_CMSG_CLOEXEC`: descriptors that arrive are closed on exec.
pub const MSG_CMSG_CLOEXEC: i32 = 0x4000_0000;
/// `MSG_TRUNC`, in the flags of a received message: a datagram was longer than the buffers.
pub const MSG_TRUNC: i32 = 0x20;
/// `MSG_CTRUNC`, likewise: control messages were lost.
pub const MSG_CTRUNC: i32 = 0x8;

const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;

/// `struct cmsghdr`: a length in eight bytes, a level and a type in four each.
const HEADER: usize = 16;
const ALIGN: usize = 8;

/// Room for the descriptors of one message, and for the credentials, security label or time that
/// the user may have asked the socket for.
const ROOM: usize = HEADER + MAX_PASSED_FDS.next_multiple_of(2) * size_of::<RawFd>() + 512;

/// A buffer of control messages, aligned as the kernel wants it.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct Control {
    bytes: [u8; ROOM],
    len: usize,
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}

impl Control {
    /// Makes an empty buffer for the kernel to fill.
    pub const fn new() -> Self {
        Control { bytes: [0; ROOM], len: 0 }
    }

    /// Makes the message that passes `fds`; `None` if there are more than [`MAX_PASSED_FDS`].
    pub fn passing(fds: &[BorrowedFd<'_>]) -> Option<Self> {
        if fds.len() > MAX_PASSED_FDS {
            return None;
        }
        let mut control = Control::new();
        if fds.is_empty() {
            return Some(control);
        }
        let len = HEADER + size_of_val(fds);
        control.put(0, &len.to_ne_bytes());
        control.put(8, &SOL_SOCKET.to_ne_bytes());
        control.put(12, &SCM_RIGHTS.to_ne_bytes());
        for (index, fd) in fds.iter().enumerate() {
            control.put(HEADER + index * size_of::<RawFd>(), &fd.as_raw_fd().to_ne_bytes());
        }
        control.len = len.next_multiple_of(ALIGN);
        Some(control)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Bytes to send.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that the kernel may fill.
    pub const fn capacity(&self) -> usize {
        ROOM
    }

    /// The first byte, for a [`MessageHeader`](crate::MessageHeader).
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// Lists the descriptors in the first `len` bytes, which the kernel has filled: each is open
    /// and nobody's yet.
    pub fn received(&self, len: usize) -> Vec<RawFd> {
        let mut fds = Vec::new();
        let mut rest = &self.bytes[..len.min(ROOM)];
        while let Some((header, _)) = rest.split_first_chunk::<HEADER>() {
            let size = usize::from_ne_bytes(part(header, 0)).clamp(HEADER, rest.len());
            if i32::from_ne_bytes(part(header, 8)) == SOL_SOCKET
                && i32::from_ne_bytes(part(header, 12)) == SCM_RIGHTS
            {
                let (numbers, _) = rest[HEADER..size].as_chunks::<4>();
                fds.extend(numbers.iter().map(|number| RawFd::from_ne_bytes(*number)));
            }
            rest = &rest[size.next_multiple_of(ALIGN).min(rest.len())..];
        }
        fds
    }
}

fn part<const N: usize>(bytes: &[u8; HEADER], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_sent_figures_are_the_listed_ones() {
        let file = std::fs::File::open("/dev/null").unwrap();
        for count in [0, 1, 2, 3, MAX_PASSED_FDS] {
            let control = Control::passing(&vec![file.as_fd(); count]).unwrap();
            assert_eq!(control.received(control.len()), vec![file.as_raw_fd(); count]);
        }
        assert!(Control::passing(&vec![file.as_fd(); MAX_PASSED_FDS + 1]).is_none());
    }

    #[test]
    fn other_messages_are_passed_over() {
        let mut control = Control::new();
        // Credentials (type 2) of 12 bytes, then one descriptor.
        control.put(0, &(HEADER + 12).to_ne_bytes());
        control.put(8, &SOL_SOCKET.to_ne_bytes());
        control.put(12, &2i32.to_ne_bytes());
        let at = (HEADER + 12).next_multiple_of(ALIGN);
        control.put(at, &(HEADER + 4).to_ne_bytes());
        control.put(at + 8, &SOL_SOCKET.to_ne_bytes());
        control.put(at + 12, &SCM_RIGHTS.to_ne_bytes());
        control.put(at + HEADER, &7i32.to_ne_bytes());
        assert_eq!(control.received(at + HEADER + 8), [7]);
        assert_eq!(control.received(at + 3), Vec::<RawFd>::new());
    }
}
