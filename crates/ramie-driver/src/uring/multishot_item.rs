//! Converting a completion of a multishot op to an item.
#![allow(unsafe_code)]

use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::buffer::Lease;
use crate::multishot::{Datagram, MultishotItem, MultishotOp};
use crate::sys::SockAddrStorage;

const AGAIN: i32 = Errno::AGAIN.raw_os_error();
const CANCELLED: i32 = Errno::CANCELED.raw_os_error();
const INTERRUPTED: i32 = Errno::INTR.raw_os_error();
pub(super) const NO_BUFFERS: i32 = Errno::NOBUFS.raw_os_error();
/// The result of a bundle whose group has been unregistered.
const NO_GROUP: i32 = Errno::NOENT.raw_os_error();

/// Returns the item of a completion; None if the completion only reports an end.
pub(super) fn item_of(op: MultishotOp, result: i32, lease: Option<Lease>) -> Option<MultishotItem> {
    match (op, result) {
        (_, result) if result < 0 => match -result {
            AGAIN | CANCELLED | INTERRUPTED | NO_BUFFERS => None,
            NO_GROUP if matches!(op, MultishotOp::Receive { .. }) => None,
            errno => Some(MultishotItem::Failed(errno)),
        },
        (MultishotOp::Receive { .. }, 0) => Some(MultishotItem::End),
        (MultishotOp::Receive { .. }, _) => lease.map(MultishotItem::Bytes),
        (MultishotOp::ReceiveFrom { .. }, _) => {
            lease.and_then(datagram).map(|datagram| MultishotItem::Datagram(Box::new(datagram)))
        }
        (MultishotOp::Accept { .. }, fd) => {
            // SAFETY: a successful accept returns a new descriptor that nobody else owns.
            Some(MultishotItem::Connection(unsafe { OwnedFd::from_raw_fd(fd) }))
        }
        (MultishotOp::Poll { .. }, mask) => Some(MultishotItem::Ready(mask as u32)),
    }
}

/// The size in bytes of the header that the kernel puts before the address: four words, of which
/// the first and the third are used here.
const HEAD: usize = 16;

/// Splits the bytes that a multishot `recvmsg` has written into address and data.
fn datagram(mut lease: Lease) -> Option<Datagram> {
    let word = |at: usize| {
        lease.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes)
    };
    let (name_len, len) = (word(0)?, word(8)?);
    let from = SockAddrStorage::from_bytes(lease.get(HEAD..)?)?;
    let before = HEAD + SockAddrStorage::LEN as usize;
    lease.advance(before.min(lease.len()));
    lease.truncate(len as usize);
    Some(Datagram { bytes: lease, from, from_len: name_len.min(SockAddrStorage::LEN) })
}
