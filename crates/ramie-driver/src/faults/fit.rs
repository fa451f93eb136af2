//! Which faults an op may have, so that a program that follows the rules does not see them.

use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};

use crate::op::{CURRENT_POSITION, Op};
use crate::sys::{self, raw};

/// Whether reads and writes of this descriptor may move fewer bytes than requested.
pub(super) fn moves_parts(fd: i32) -> bool {
    if fd < 0 {
        return false;
    }
    let file = raw::borrow(&fd);
    let Ok(stat) = rustix::fs::fstat(file) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Fifo => true,
        FileType::Socket => sockopt::socket_type(file) == Ok(SocketType::STREAM),
        _ => false,
    }
}

/// Whether the real driver must hide this answer to this op.
pub(super) fn can_hide(op: &Op, errno: i32) -> bool {
    match (op, Errno::from_raw_os_error(errno)) {
        // These two report on a connect that has begun.
        (Op::Connect { .. }, Errno::INTR | Errno::AGAIN) | (Op::Poll { .. }, Errno::AGAIN) => false,
        // An interrupted close has closed the descriptor, so the driver must not repeat it.
        (Op::Close { .. }, Errno::INTR) => false,
        (op, Errno::AGAIN) => {
            !op.refuses_to_wait() && is_anywhere(op) && op.fd().is_some_and(|fd| can_wait(op, fd))
        }
        _ => true,
    }
}

/// Whether this op, on this descriptor, may have to wait. Otherwise the kernel refuses the op at
/// once, and a driver that waits for readiness because of a hidden `EAGAIN` may wait for ever.
fn can_wait(op: &Op, fd: i32) -> bool {
    if fd < 0 || op.readiness() == 0 {
        return false;
    }
    let file = raw::borrow(&fd);
    let Ok(stat) = rustix::fs::fstat(file) else { return false };
    // A write may find room where poll(2) reports none, in a Unix stream or in the last page of a
    // pipe. Then only the peer could end the wait, and the peer may be waiting for this write.
    if op.readiness() == sys::POLL_OUT && !is_writable_now(file) {
        return false;
    }
    let is_epoll = matches!(op, Op::EpollWait { .. });
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => {
            let listens = sockopt::socket_acceptconn(file) == Ok(true);
            listens == matches!(op, Op::Accept { .. }) && !is_epoll
        }
        FileType::Fifo => {
            let mode = rustix::fs::fcntl_getfl(file).unwrap_or(OFlags::empty()) & OFlags::RWMODE;
            let other =
                if op.readiness() == sys::POLL_IN { OFlags::WRONLY } else { OFlags::RDONLY };
            is_plain(op) && mode != other
        }
        FileType::Unknown => is_epoll,
        _ => false,
    }
}

/// Whether poll(2) reports room.
fn is_writable_now(file: BorrowedFd<'_>) -> bool {
    sys::poll_now(file, sys::POLL_OUT).is_ok_and(|ready| ready & sys::POLL_OUT != 0)
}

/// Whether this errno only ends a multishot op, without an item.
pub(super) fn ends_in_silence(errno: i32) -> bool {
    let silent = [Errno::INTR, Errno::CANCELED, Errno::AGAIN, Errno::NOBUFS];
    silent.contains(&Errno::from_raw_os_error(errno))
}

fn is_plain(op: &Op) -> bool {
    matches!(
        op,
        Op::Read { .. } | Op::Write { .. } | Op::ReadVectored { .. } | Op::WriteVectored { .. }
    )
}

/// Whether the driver may wait for the file's readiness instead of for the op, as it may for
/// streams. Files on a disk have no readiness.
fn is_anywhere(op: &Op) -> bool {
    match *op {
        Op::Read { offset, .. }
        | Op::Write { offset, .. }
        | Op::ReadVectored { offset, .. }
        | Op::WriteVectored { offset, .. } => offset == CURRENT_POSITION,
        _ => true,
    }
}
