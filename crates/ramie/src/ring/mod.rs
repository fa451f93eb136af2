//! The ops of io_uring, one function each. The functions work on borrowed memory and park the
//! strand.
//!
//! Most programs use the twins of std. This module has the ops themselves, including some without a
//! counterpart in std: `openat2` with its flags, extended attributes, `splice`, futexes.
//! Descriptors are borrowed ([`AsFd`](std::os::fd::AsFd)), so that none can be closed while the
//! kernel uses it. Buffers, paths and addresses are borrowed until the op is complete, because no
//! call returns earlier.
//!
//! If the kernel lacks an op, if `RAMIE_CAPS` masks it, or if there is no ring, the plain twin of
//! the op replaces it. The table lists the twins; most are system calls that do not wait and are
//! repeated on readiness, or calls on the blocking pool. `ramie doctor` lists the ops that the ring
//! has. Flags are those of the `rustix` crate, and are passed on unchanged.
//!
//! | calls | without the op |
//! |---|---|
//! | [`read`], [`write`](write()), [`readv`], [`writev`] | tried without waiting, then readiness; of a file on a disk the blocking pool |
//! | [`recv`], [`recv_bundle`], [`send`], [`recvmsg`], [`sendmsg`], [`accept`], [`connect`], [`poll`], [`epoll_wait`] | tried without waiting, then readiness |
//! | [`socket`](socket()), [`bind`], [`listen`], [`shutdown`], [`pipe`](pipe()), [`futex_wake`], [`msg_ring`] | on the calling thread, because they do not wait |
//! | [`openat2`], [`statx`], [`fsync`], [`fallocate`], [`fadvise`], [`ftruncate`], [`rename`], [`unlink`], [`link`], [`symlink`], [`mkdir`], [`setxattr`] and similar calls, [`close`](close()) | the blocking pool |
//! | [`splice`], [`tee`] | readiness of both ends, then the blocking pool |
//! | [`waitid`] | the readiness of the process's descriptor, or repeated calls |
//! | [`futex_wait`] | the blocking pool, for 20 ms at a time |
//! | [`timeout`] | a timer of the worker |
//! | [`close_async`] | on the calling thread |
//! | [`cancel_fd`], [`cancel_all`] | the same, because the driver implements them |
//!
//! To cancel a call, cancel a scope around it ([`cancel`](crate::cancel)). The timeouts and the
//! nonblocking mode of a stream apply only to the stream's own methods; for the functions here, use
//! [`with_timeout`](crate::cancel::with_timeout). Multishot ops (accept, receive) belong to the
//! sockets of [`net`](crate::net).
//!
//! # Beside iterators
//! Data and connections that an iterator over a socket ([`recv_each`], [`incoming`]) has received
//! and the program has not taken come first in the calls above. To find them, a call that takes
//! from a descriptor asks the kernel for the number of its socket while any such iterator exists in
//! the process. That takes about 0.35 µs a call, where a `read` of a byte takes 1.3 µs.
//!
//! [`recv_each`]: crate::net::TcpStream::recv_each
//! [`incoming`]: crate::net::TcpListener::incoming
//!
//! # Outside a fiber
//! Every call works on an ordinary thread, and blocks it.
//!
//! # Where other features of the ring are
//! Runtimes that expose their ring to programs, such as UringMachine for Ruby, offer the features
//! below; most of them are in other modules of this crate.
//!
#![doc = include_str!("../../docs/offers.md")]

mod address;
mod bundle;
mod cancel;
mod close;
pub(crate) mod data;
mod direct;
mod file;
mod futex;
pub(crate) mod leftover;
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
