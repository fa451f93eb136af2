//! Ops that complete again and again, owned by the driver: a receive, an accept, a poll.
//!
//! Such an op outlives the call that started it, and its starter may be forgotten. So it writes
//! into the driver's own buffers. Each of its results is a [`MultishotItem`], which waits in the
//! driver, and then in a [`MultishotInbox`] that is shared with the socket, until a caller takes
//! it.
//!
//! The part of an op that touches the ring is in `uring/multishot.rs`, beside the queue and the
//! completions that it uses; this folder has the part that the callers and every backend share.
//!
//! # States of an op
//!
//! | state | meaning | changed by |
//! |---|---|---|
//! | idle | the kernel does not have it | `next_item` that finds no item, to armed |
//! | armed | the kernel has it | any completion without `F_MORE`, to idle; a pause or `stop`, to leaving |
//! | leaving | a request to cancel it is on its way | its last completion, to idle, or to gone if it was stopped |
//! | gone | its items are in its inbox | - |
//!
//! An op may end without notice, because the kernel drops it at any completion: its queue was full,
//! no buffer was left, or the kernel gives no reason. The driver does not interpret this. The op is
//! idle; the strand that waits for it is woken, finds no item, and arms it again.
//!
//! *The race to fear* is stopping: bytes and connections may arrive until the last completion. So
//! `stop` waits for the last completion (a matter of microseconds, because the kernel cancels at
//! once an op that waits for readiness), and only then puts the items into the inbox.
//!
//! # Beside one-shot receives
//! A one-shot receive would miss data that a multishot op has buffered. So no multishot op starts
//! while a one-shot receive waits ([`MultishotInbox::take_one_by_one`]), and a strand that begins a
//! one-shot receive first stops the multishot op.
//!
//! # Pauses
//! An op with [`MAX_ITEMS`] or [`MAX_BYTES`] that nobody has taken is paused (cancelled), and armed
//! again when they have been taken. More may come until the request to cancel arrives.
//!
//! # Other threads
//! An inbox names the driver that has the op. Another thread asks that driver to stop it
//! ([`MultishotInbox::request_stop`]), and the driver returns the waiter's word when it has
//! ([`Driver::pop_notice`](crate::Driver::pop_notice)).

mod inbox;

use std::os::fd::{OwnedFd, RawFd};

use crate::buffer::Lease;
use crate::sys::SockAddrStorage;

pub(crate) use inbox::Requests;
pub use inbox::{MultishotInbox, OneByOne};

/// The number of items that may wait to be taken before the op is paused.
pub(crate) const MAX_ITEMS: usize = 64;
/// The number of bytes that may.
pub(crate) const MAX_BYTES: usize = 64 << 10;

/// A multishot op: the call that is done again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultishotOp {
    /// `recv` of a stream.
    #[allow(missing_docs)]
    Receive { fd: RawFd },
    /// `recvmsg` of datagrams, with their senders.
    #[allow(missing_docs)]
    ReceiveFrom { fd: RawFd },
    /// `accept4`.
    #[allow(missing_docs)]
    Accept { fd: RawFd, flags: i32 },
    /// `poll`: each item is the mask of the events since the last one.
    #[allow(missing_docs)]
    Poll { fd: RawFd, events: u32 },
}

/// One result of a multishot op.
#[derive(Debug)]
pub enum MultishotItem {
    /// Bytes of a stream.
    Bytes(Lease),
    /// A datagram and its sender's address.
    Datagram(Box<Datagram>),
    /// The stream is at its end.
    End,
    /// A connection.
    Connection(OwnedFd),
    /// A mask of `POLL*` bits.
    Ready(u32),
    /// The call failed with this errno.
    Failed(i32),
}

/// A datagram.
#[derive(Debug)]
pub struct Datagram {
    /// Its bytes.
    pub bytes: Lease,
    /// The address of its sender.
    pub from: SockAddrStorage,
    /// The number of bytes of `from` that count.
    pub from_len: u32,
}

impl MultishotItem {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            MultishotItem::Bytes(bytes) => bytes.len(),
            MultishotItem::Datagram(datagram) => datagram.bytes.len(),
            _ => 0,
        }
    }
}

/// The result of [`Driver::next_item`](crate::Driver::next_item).
#[derive(Debug)]
pub enum NextItem {
    /// The oldest item.
    Item(MultishotItem),
    /// Nothing yet; the op is armed.
    Pending,
    /// Nothing, and the kernel has no buffers for it: receive once without.
    NoBuffers,
    /// The op was stopped, or belongs to another driver.
    Gone,
}

/// Why [`Driver::next_bytes_or_await`](crate::Driver::next_bytes_or_await) has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBytes {
    /// None have arrived, and the waiter's word was recorded.
    Pending,
    /// There is something else, or the op is not armed: ask
    /// [`Driver::next_item`](crate::Driver::next_item).
    Other,
}

/// The name of a multishot op, unique in this process and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultishotId {
    pub(crate) driver: u64,
    pub(crate) index: u32,
    pub(crate) generation: u64,
}
