//! How much a socket has still to send.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::ioctl::{Getter, Opcode, ioctl};

/// `SIOCOUTQ`, which is 0x5411 on the processors that Ramie supports.
const BYTES_TO_SEND: Opcode = 0x5411;

/// The number of bytes that the peer has not acknowledged; none if the kernel does not count them.
pub(super) fn bytes_to_send(socket: BorrowedFd<'_>) -> Option<usize> {
    // SAFETY: the call writes one `int` (tcp(7), unix(7)). Of another kind of file it may mean
    // something else, but the descriptors of streams are sockets (`Stream::socket`).
    let getter = unsafe { Getter::<BYTES_TO_SEND, i32>::new() };
    // SAFETY: the getter has room for the `int`.
    let count = unsafe { ioctl(socket, getter) };
    count.ok().and_then(|count| usize::try_from(count).ok())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::{fd::AsFd, unix::net::UnixStream},
    };

    use super::*;

    #[test]
    fn bytes_that_the_peer_has_not_taken_are_counted() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        assert_eq!(bytes_to_send(one.as_fd()), Some(0));
        one.write_all(&[0; 5000]).unwrap();
        assert!(bytes_to_send(one.as_fd()).unwrap() >= 5000);
        other.read_exact(&mut [0; 5000]).unwrap();
        assert_eq!(bytes_to_send(one.as_fd()), Some(0));
    }
}
