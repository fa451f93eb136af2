//! Every system call that Ramie makes itself, in safe thin functions.
//!
//! They go through rustix's raw backend or `sc`, not through libc's symbols, because a program that
//! interposes those symbols must not affect the runtime itself. rustix's types are used where it
//! has them.

pub(crate) mod abi;
mod addr;
mod affinity;
mod clock;
mod control;
mod copy;
mod epoll_set;
mod fd;
mod file;
pub mod fork;
mod handed_out;
mod limits;
mod loop_set;
mod memory;
mod notify;
mod own_memory;
mod process;
pub(crate) mod raw;
mod ready;
pub(crate) mod return_predictor;
pub(crate) mod short_lived_ring;
mod socket;
pub mod supervise;
mod threads;
mod unix;

pub use addr::SockAddrStorage;
pub use affinity::CpuMask;
pub use clock::{coarse_ms, monotonic_ns, ticks, ticks_are_fast};
pub use control::{Control, MAX_PASSED_FDS, MSG_CMSG_CLOEXEC, MSG_CTRUNC, MSG_TRUNC};
pub use copy::{copy_file_range, sendfile, splice_now, write};
pub(crate) use epoll_set::{EpollSet, key as epoll_key};
pub use fd::{
    bytes_queued, close, dup_cloexec, epoll_wait_now, eventfd, eventfd_signal, eventfd_take, inode,
    is_nonblocking, is_pipe, is_shut_down_for_reading, pipe, poll_now, set_nonblocking,
};
pub use file::{
    FileKind, file_kind, look_up_cached, open_cached, position, read_now, read_vectored,
    set_position, set_position_to_end, status_flags, write_now, write_vectored,
};
pub use file::{
    O_APPEND, O_CLOEXEC, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, WORKING_DIRECTORY,
};
pub use handed_out::{HandedOut, Lent};
pub use limits::{
    Limit, available_cpus, kernel_release, memlock_limit, nofile_limit, raise_nofile_limit,
    read_small, seccomp_mode, sysctl,
};
pub use loop_set::LoopSet;
pub use memory::{map_anonymous, populate, prefetch, prefetch_value};
pub(crate) use memory::{map_pages, unmap_pages};
pub use notify::{
    Notice, Watched, inotify, inotify_read, inotify_unwatch, inotify_watch, inotify_watch_removals,
};
pub use own_memory::{append_words, copy_text, copy_value, copy_words, copy_words_to};
pub use process::{
    effective_user_id, futex_wait_for, futex_wake, is_main_thread, is_subreaper, pidfd_open,
    set_subreaper, thread_id,
};
pub use raw::{block_signals, thread_cpu_ns};
pub(crate) use ready::await_hang_up;
pub use ready::{poll_all_now, readiness_of, wait_until_ready};
pub use rustix::event::PollFlags;
pub use rustix::event::epoll::Event as EpollEvent;
pub use rustix::fs::{
    Advice, AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, ResolveFlags, Statx,
    StatxFlags, XattrFlags,
};
pub use rustix::io::Errno;
pub use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, ipproto,
    sockopt,
};
pub use rustix::pipe::SpliceFlags;
pub use rustix::process::{Pid, WaitId, WaitIdOptions};
pub use rustix::thread::futex::Flags as FutexFlags;
pub use socket::{
    accept, bind, connect, is_tcp, listen, local_addr, not_an_ip_address, peer_addr, peer_storage,
    recv, send, shutdown, socket,
};
pub use threads::{RuntimeThread, is_ring_thread, is_runtime_thread, thread_ids};
pub use unix::{
    PeerCredentials, bind_unix, connect_unix, local_addr_unix, not_a_unix_address, peer_addr_unix,
    peer_credentials, socketpair,
};

/// `POLLIN`: data or a connection can be read, or the end of the stream was reached.
pub const POLL_IN: u32 = 0x1;
/// `POLLPRI`: exceptional (out-of-band) data.
pub const POLL_PRI: u32 = 0x2;
/// `POLLOUT`: writing makes progress.
pub const POLL_OUT: u32 = 0x4;
/// `POLLERR`: an error is pending; always reported.
pub const POLL_ERR: u32 = 0x8;
/// `POLLHUP`: the peer hung up; always reported.
pub const POLL_HUP: u32 = 0x10;
/// `POLLRDHUP`: the peer shut down its writing half.
pub const POLL_RDHUP: u32 = 0x2000;

/// `MSG_PEEK`: look without taking.
pub const MSG_PEEK: i32 = 0x2;
/// `MSG_DONTWAIT`: fail with `EAGAIN` instead of waiting.
pub const MSG_DONTWAIT: i32 = 0x40;
/// `MSG_NOSIGNAL`: no SIGPIPE.
pub const MSG_NOSIGNAL: i32 = 0x4000;
/// `SOCK_CLOEXEC`, for the flags of accept.
pub const SOCK_CLOEXEC: i32 = 0x8_0000;
/// `SOCK_NONBLOCK`, for the flags of accept.
pub const SOCK_NONBLOCK: i32 = 0x800;

/// Prints a message and aborts, because an invariant between Ramie and the kernel is broken.
#[cold]
pub fn fatal(sentence: &str) -> ! {
    // One call, so that nothing that others print gets into the message; and no allocation.
    let parts = [b"ramie: ", sentence.as_bytes(), b"\n"].map(std::io::IoSlice::new);
    let _ = rustix::io::writev(rustix::stdio::stderr(), &parts);
    std::process::abort()
}
