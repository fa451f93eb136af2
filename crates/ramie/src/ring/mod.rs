//! The ops of io_uring, one function each: thin calls into borrowed memory that park the strand.
//!
//! The twins of std are made for programs; this room is for what std has no name for, and for
//! whoever wants the op itself: `openat2` with its flags, extended attributes, `splice`, futexes.
//! Descriptors are borrowed ([`AsFd`](std::os::fd::AsFd)), so that none can be closed while the
//! kernel works on it; buffers, paths and addresses are borrowed until the op is complete, since no
//! call returns before that.
//!
//! Where the kernel has no such op, or `RAMIE_CAPS` masks it, or there is no ring, the same is had
//! plainly: by a call that does not wait and readiness, or on the blocking pool. `ramie doctor`
//! lists which ops the ring has. Flags are those of the `rustix` crate, passed on.
//!
//! # Outside a fiber
//! Everything works on an ordinary thread, which blocks in the call.

mod address;
mod cancel;
mod close;
pub(crate) mod data;
mod file;
mod futex;
mod made;
mod name;
mod pipe;
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
    cancel::{cancel_all, cancel_fd, msg_ring},
    close::{close, close_async},
    data::{read, readv, write, writev},
    file::{fadvise, fallocate, fsync, ftruncate, openat2, statx},
    futex::{futex_wait, futex_wake},
    name::{link, mkdir, rename, symlink, unlink},
    pipe::{pipe, splice, tee},
    socket::{
        Message, accept, bind, connect, listen, recv, recvmsg, send, sendmsg, shutdown, socket,
    },
    wait::{epoll_wait, nop, poll, timeout, waitid},
    xattr::{fgetxattr, fsetxattr, getxattr, setxattr},
};
