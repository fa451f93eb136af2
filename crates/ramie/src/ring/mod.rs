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

mod file;
mod made;
mod name;
mod xattr;

pub use ramie_driver::sys::{
    Advice, AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, ResolveFlags, Statx,
    StatxFlags, XattrFlags,
};

pub use self::{
    file::{fadvise, fallocate, fsync, ftruncate, openat2, statx},
    name::{link, mkdir, rename, symlink, unlink},
    xattr::{fgetxattr, fsetxattr, getxattr, setxattr},
};
