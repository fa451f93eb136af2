//! The ops of io_uring, one function each: thin calls into borrowed memory that park the strand.
//!
//! The twins of std are made for programs. This module has ops that std has no name for, and the
//! ops themselves: `openat2` with its flags, extended attributes, `splice`, futexes. Descriptors
//! are borrowed ([`AsFd`](std::os::fd::AsFd)), so that none can be closed while the kernel works on
//! it; buffers, paths and addresses are borrowed until the op is complete, since no call returns
//! before that.
//!
//! Where the kernel has no such op, or `RAMIE_CAPS` masks it, or there is no ring, the same is had
//! plainly: by a call that does not wait and readiness, or on the blocking pool. `ramie doctor`
//! lists which ops the ring has. Flags are those of the `rustix` crate, passed on.
//!
//! | calls | without the op |
//! |---|---|
//! | [`read`], [`write`](write()), [`readv`], [`writev`] | tried without waiting, then readiness; of a file on a disk the blocking pool |
//! | [`recv`], [`recv_bundle`], [`send`], [`recvmsg`], [`sendmsg`], [`accept`], [`connect`], [`poll`], [`epoll_wait`] | tried without waiting, then readiness |
//! | [`socket`](socket()), [`bind`], [`listen`], [`shutdown`], [`pipe`](pipe()), [`futex_wake`], [`msg_ring`] | right here: they do not wait |
//! | [`openat2`], [`statx`], [`fsync`], [`fallocate`], [`fadvise`], [`ftruncate`], [`rename`], [`unlink`], [`link`], [`symlink`], [`mkdir`], [`setxattr`] and its kin, [`close`](close()) | the blocking pool |
//! | [`splice`], [`tee`] | readiness of both ends, then the blocking pool |
//! | [`waitid`] | the readiness of the process's descriptor, or asking again |
//! | [`futex_wait`] | the blocking pool, for 20 ms at a time |
//! | [`timeout`] | a timer of the worker |
//! | [`close_async`] | right here |
//! | [`cancel_fd`], [`cancel_all`] | as with it: they are the driver's own |
//!
//! One call is cancelled by a scope around it ([`cancel`](crate::cancel)). A stream keeps its
//! timeouts and its nonblocking mode for its own calls; here, use
//! [`with_timeout`](crate::cancel::with_timeout). Multishot ops (accept, receive) belong to the
//! sockets of [`net`](crate::net).
//!
//! # Outside a fiber
//! Everything works on an ordinary thread, which blocks in the call.
//!
//! # What a runtime on a ring offers, and where it is
//! Runtimes that show their ring to programs, such as UringMachine for Ruby, offer these; most of
//! them stand in rooms of their own here.
//!
#![doc = include_str!("../../docs/offers.md")]

mod address;
mod bundle;
mod cancel;
mod close;
pub(crate) mod data;
mod direct;
mod early;
mod file;
mod futex;
mod name;
mod pipe;
mod registered;
pub(crate) mod socket;
mod wait;
mod xattr;

pub use ramie_driver::{
    ChildInfo,
    sys::{
        AddressFamily, Advice, AtFlags, CWD, EpollEvent, FallocateFlags, FutexFlags, Mode, OFlags,
        Pid, PollFlags, Protocol, RecvFlags, RenameFlags, ResolveFlags, SendFlags, Shutdown,
        SocketType, SpliceFlags, Statx, StatxFlags, WaitId, WaitIdOptions, XattrFlags,
    },
};

pub use self::{
    address::Address,
    bundle::recv_bundle,
    cancel::{cancel_all, cancel_fd, msg_ring},
    close::{close, close_async},
    data::{read, readv, write, writev},
    direct::{DirectStream, accept_direct},
    file::{fadvise, fallocate, fsync, ftruncate, openat2, statx},
    futex::{futex_wait, futex_wake},
    name::{link, mkdir, rename, symlink, unlink},
    pipe::{pipe, splice, tee},
    registered::RegisteredBuffer,
    socket::{
        Message, accept, bind, connect, listen, recv, recvmsg, send, sendmsg, shutdown, socket,
    },
    wait::{epoll_wait, nop, poll, timeout, waitid},
    xattr::{fgetxattr, fsetxattr, getxattr, setxattr},
};
