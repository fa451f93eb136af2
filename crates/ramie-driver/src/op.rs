//! Ops as data, and the frame, which is an op's memory while it is in flight.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::os::fd::RawFd;
use std::ptr;

use crate::buffer::Lease;
use crate::call::Call;
use crate::injected::InjectedAnswer;
use crate::registration::Registration;
use crate::sys::abi::{IoVec, MessageHeader};
use crate::sys::{EpollEvent, Lent, SockAddrStorage};

/// The offset that means "at the file's current position", and that streams require.
///
/// With a ring, do not use it for files that have positions: if the kernel moves part of the bytes
/// and then fails (a full disk), or if a device moves them directly (`O_DIRECT`), the position does
/// not move, and the next write overwrites this one (seen on Linux 6.18). Pass the position
/// instead, and advance it by the result.
pub const CURRENT_POSITION: u64 = u64::MAX;

/// The most bytes that Linux moves in one call; longer requests are capped, the result is short.
pub(crate) const MAX_LEN: u32 = 0x7fff_f000;

/// One operation as plain data. The caller keeps every pointer valid until the op is complete.
///
/// Results are those of the system call of the same name: bytes, a descriptor, an event mask or
/// 0, and `-errno` on failure. A `len` beyond 0x7fff_f000 is capped, so that the result is short.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Completes with 0.
    Nop,
    /// `pread`: `offset` is a byte position, or [`CURRENT_POSITION`].
    #[allow(missing_docs)]
    Read { fd: RawFd, buf: *mut u8, len: u32, offset: u64 },
    /// `pwrite`: `offset` is a byte position, or [`CURRENT_POSITION`].
    #[allow(missing_docs)]
    Write { fd: RawFd, buf: *const u8, len: u32, offset: u64 },
    /// `preadv`.
    #[allow(missing_docs)]
    ReadVectored { fd: RawFd, iov: *const IoVec, count: u32, offset: u64 },
    /// `pwritev`.
    #[allow(missing_docs)]
    WriteVectored { fd: RawFd, iov: *const IoVec, count: u32, offset: u64 },
    /// `recv`. With `MSG_DONTWAIT` it fails with `EAGAIN` instead of waiting.
    #[allow(missing_docs)]
    Recv { fd: RawFd, buf: *mut u8, len: u32, flags: i32 },
    /// `recv` into the ring's own buffers, as many as the available bytes fill; they are leased
    /// into the list. The result is the number of bytes. A ring needs
    /// [`Feature::BufferRing`](crate::Feature::BufferRing), otherwise the op fails with `ENOBUFS`;
    /// and to fill more than one buffer [`Feature::Bundle`](crate::Feature::Bundle) and
    /// [`Feature::IncrementalBuffers`](crate::Feature::IncrementalBuffers).
    #[allow(missing_docs)]
    RecvBundle { fd: RawFd, into: *mut Vec<Lease> },
    /// `send`, never raising SIGPIPE. With `MSG_DONTWAIT` it fails with `EAGAIN`. Send datagrams in
    /// that way, because a ring retries a datagram whose receiver was full after its bytes were
    /// copied, and then sends it empty (seen on Linux 6.18, Unix datagrams).
    #[allow(missing_docs)]
    Send { fd: RawFd, buf: *const u8, len: u32, flags: i32 },
    /// `recvmsg`: vectored receive, addresses, control messages.
    #[allow(missing_docs)]
    RecvMessage { fd: RawFd, message: *mut MessageHeader, flags: i32 },
    /// `sendmsg`, never raising SIGPIPE; of datagrams as for `Send`.
    #[allow(missing_docs)]
    SendMessage { fd: RawFd, message: *const MessageHeader, flags: i32 },
    /// `accept4`; `addr` and `addr_len` may both be null. The result is the new descriptor.
    #[allow(missing_docs)]
    Accept { fd: RawFd, addr: *mut SockAddrStorage, addr_len: *mut u32, flags: i32 },
    /// `connect`, which waits until the connection is established or has failed.
    #[allow(missing_docs)]
    Connect { fd: RawFd, addr: *const SockAddrStorage, addr_len: u32 },
    /// `poll` on one descriptor; the result is the mask of `POLL*` bits that are set.
    #[allow(missing_docs)]
    Poll { fd: RawFd, events: u32 },
    /// `openat` from the working directory; `path` ends with a zero byte. The result is the new
    /// descriptor. A ring opens a file whose path the kernel has cached at once, and then a FIFO
    /// as if by `O_NONBLOCK`; the polling driver waits in the call.
    #[allow(missing_docs)]
    Open { path: *const u8, flags: i32, mode: u32 },
    /// `close` (5.6). Another op of the descriptor holds the file open until it is complete.
    #[allow(missing_docs)]
    Close { fd: RawFd },
    /// `epoll_wait` on an epoll set; the result is the number of events. A ring needs
    /// [`Feature::EpollWait`](crate::Feature::EpollWait) (6.15).
    #[allow(missing_docs)]
    EpollWait { fd: RawFd, events: *mut EpollEvent, count: u32 },
    /// A rarer call; see [`Call`], and [`Caps::can`](crate::Caps::can) whether a ring has it. The
    /// polling driver waits in the call.
    #[allow(missing_docs)]
    Call { call: *const Call },
}

impl Op {
    /// Returns the readiness that lets a call of this op make progress, as `poll(2)` bits.
    pub(crate) fn readiness(&self) -> u32 {
        match *self {
            Op::Nop | Op::Open { .. } | Op::Close { .. } | Op::Call { .. } => 0,
            Op::Read { .. }
            | Op::ReadVectored { .. }
            | Op::Recv { .. }
            | Op::RecvBundle { .. }
            | Op::RecvMessage { .. }
            | Op::EpollWait { .. }
            | Op::Accept { .. } => crate::sys::POLL_IN,
            Op::Write { .. }
            | Op::WriteVectored { .. }
            | Op::Send { .. }
            | Op::SendMessage { .. }
            | Op::Connect { .. } => crate::sys::POLL_OUT,
            Op::Poll { events, .. } => events,
        }
    }

    /// Returns the op's descriptor. Ops on paths have none, and a [`Call`] has its own.
    pub fn fd(&self) -> Option<RawFd> {
        match *self {
            Op::Nop | Op::Open { .. } | Op::Call { .. } => None,
            Op::Read { fd, .. }
            | Op::Write { fd, .. }
            | Op::ReadVectored { fd, .. }
            | Op::WriteVectored { fd, .. }
            | Op::Recv { fd, .. }
            | Op::RecvBundle { fd, .. }
            | Op::Send { fd, .. }
            | Op::RecvMessage { fd, .. }
            | Op::SendMessage { fd, .. }
            | Op::Accept { fd, .. }
            | Op::Connect { fd, .. }
            | Op::Poll { fd, .. }
            | Op::EpollWait { fd, .. }
            | Op::Close { fd } => Some(fd),
        }
    }

    /// Whether the op works on this descriptor.
    pub(crate) fn is_on(&self, fd: RawFd) -> bool {
        match *self {
            Op::Call { call } => {
                // SAFETY: asked of ops in flight, whose call is there (contract of
                // `Driver::submit`).
                unsafe { &*call }.fds().contains(&Some(fd))
            }
            _ => self.fd() == Some(fd),
        }
    }

    /// The manner in which a ring does the op by default.
    pub(crate) const fn manner(&self) -> Manner {
        match self {
            Op::RecvBundle { .. } => Manner::Bundle,
            _ => Manner::Plain,
        }
    }

    /// Whether the caller asked for `EAGAIN` rather than a wait.
    pub(crate) fn refuses_to_wait(&self) -> bool {
        match *self {
            Op::Recv { flags, .. }
            | Op::Send { flags, .. }
            | Op::RecvMessage { flags, .. }
            | Op::SendMessage { flags, .. } => flags & crate::sys::MSG_DONTWAIT != 0,
            _ => false,
        }
    }
}

/// Defines [`OpKind`] from the variants of [`Op`] and the names of their system calls.
macro_rules! op_kinds {
    ($($kind:ident $name:literal,)*) => {
        /// The kind of an [`Op`], without its arguments.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum OpKind {
            $($kind,)*
        }

        impl OpKind {
            /// All kinds, each at the index that it has as a number.
            pub const ALL: [OpKind; [$($name),*].len()] = [$(OpKind::$kind),*];

            /// Returns the name of the kind, mostly that of its system call.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(OpKind::$kind => $name,)*
                }
            }
        }

        impl Op {
            /// Returns the kind of the op.
            #[inline(always)]
            #[must_use]
            pub const fn kind(&self) -> OpKind {
                match self {
                    $(Op::$kind { .. } => OpKind::$kind,)*
                }
            }
        }
    };
}

op_kinds! {
    Nop "nop",
    Read "read",
    Write "write",
    ReadVectored "readv",
    WriteVectored "writev",
    Recv "recv",
    RecvBundle "recv_bundle",
    Send "send",
    RecvMessage "recvmsg",
    SendMessage "sendmsg",
    Accept "accept",
    Connect "connect",
    Poll "poll",
    Open "open",
    Close "close",
    EpollWait "epoll_wait",
    Call "call",
}

/// The loan of a frame to the driver that accepts it.
pub(crate) enum TakenIn {}

impl Lent for TakenIn {
    const WHAT: &'static str = "the driver was accepting an op";
}

/// The progress of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpState {
    New,
    /// The kernel (uring) or a descriptor's queue (poll) has it.
    InFlight,
    /// The kernel polls the descriptor first, because the call itself was not ready.
    AwaitingReadiness,
    /// On the driver's list: will be submitted again.
    ToRetry,
    /// On the driver's list: the kernel will poll the descriptor first.
    ToAwait,
    /// A zero-copy send has its result, and the kernel still uses the bytes.
    AwaitingRelease,
    /// The driver has stopped waiting for the release. The frame stays valid for good.
    Forgotten,
    Complete,
}

/// The manner in which a ring does an op. An op that is submitted again is done in the default
/// manner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Plain,
    /// The kernel sends the caller's bytes without copying, if it can.
    ZeroCopy,
    /// The bytes lie in the region of this index.
    Registered(u16),
    /// Into the ring's own buffers.
    Bundle,
}

/// The memory of an op while it is in flight: lies in the caller's frame and must not move.
///
/// The driver links it into its lists and writes the result; the address identifies the op to
/// the kernel. `user` is the submitter's own word.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct OpFrame {
    pub(crate) op: Op,
    pub(crate) next: Cell<*const OpFrame>,
    /// The submitter's word; the driver never looks at it.
    pub user: Cell<u64>,
    pub(crate) result: Cell<i32>,
    /// Its index in the ring's table of ops in flight.
    pub(crate) in_flight_index: Cell<u32>,
    pub(crate) state: Cell<OpState>,
    /// A cancellation was requested, so `ECANCELED` is a final result.
    pub(crate) cancel_asked: Cell<bool>,
    /// A `connect` has begun; the next attempt asks for its outcome.
    pub(crate) connecting: Cell<bool>,
    /// The kernel does the op on one of its threads from the start.
    pub(crate) in_background: bool,
    pub(crate) manner: Cell<Manner>,
    /// Its file's index in the ring's file table plus 1; 0: it has none.
    pub(crate) fixed_file_index: Cell<u16>,
    /// Its file's registration with a polling driver, or null: valid while it is in flight.
    pub(crate) registration: Cell<*const Registration>,
    pub(crate) injected: InjectedAnswer,
    _pinned: PhantomPinned,
}

impl OpFrame {
    /// Makes a frame for `op`, ready to be submitted once.
    #[inline]
    pub const fn new(op: Op) -> Self {
        OpFrame {
            op,
            next: Cell::new(ptr::null()),
            user: Cell::new(0),
            result: Cell::new(0),
            in_flight_index: Cell::new(0),
            state: Cell::new(OpState::New),
            cancel_asked: Cell::new(false),
            connecting: Cell::new(false),
            in_background: false,
            manner: Cell::new(op.manner()),
            fixed_file_index: Cell::new(crate::fixed::NO_INDEX),
            registration: Cell::new(ptr::null()),
            injected: InjectedAnswer::none(),
            _pinned: PhantomPinned,
        }
    }

    /// The answer that a fault gives instead of the kernel's.
    #[inline]
    pub(crate) fn take_injected(&self) -> Option<i32> {
        self.injected.take(self.state.get() == OpState::AwaitingReadiness)
    }

    /// Asks that a ring does the op on a kernel thread from the start (`IOSQE_ASYNC`): for ops that
    /// copy so much that the submitting thread should not wait for them.
    #[inline]
    #[must_use]
    pub const fn in_background(mut self) -> Self {
        self.in_background = true;
        self
    }

    /// Asks that a ring sends without copying (`SEND_ZC`, `SENDMSG_ZC`), if it has
    /// [`Feature::ZeroCopy`](crate::Feature::ZeroCopy). The op is complete when the kernel has
    /// released the bytes: with TCP when the peer has acknowledged them. Only for sends.
    #[inline]
    #[must_use]
    pub const fn zero_copy(mut self) -> Self {
        self.manner = Cell::new(Manner::ZeroCopy);
        self
    }

    /// Sets that the op's bytes lie in a region that the driver has registered under this index
    /// ([`Driver::register`](crate::Driver::register)). Only for reads and writes of one buffer.
    #[inline]
    #[must_use]
    pub const fn registered(mut self, number: u16) -> Self {
        self.manner = Cell::new(Manner::Registered(number));
        self
    }

    /// Returns the op that the frame was made for.
    #[inline]
    pub fn op(&self) -> &Op {
        &self.op
    }

    /// Returns whether the op has its result; the frame may still wait to be popped.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.state.get() == OpState::Complete
    }

    /// Returns the result of the call: a count, descriptor or mask >= 0, or `-errno`.
    ///
    /// Meaningful once [`is_complete`](Self::is_complete); 0 before.
    #[inline]
    pub fn result(&self) -> i32 {
        self.result.get()
    }
}
