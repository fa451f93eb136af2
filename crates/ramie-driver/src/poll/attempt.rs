//! One nonblocking attempt at an op: the system call, or a poll(2) that shows that the call would
//! wait.
//!
//! Descriptors keep their blocking mode, because other code may use them. So each call has a flag
//! not to wait (`MSG_DONTWAIT`, `RWF_NOWAIT`); if the file supports neither, poll(2) is called
//! first.
#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::call::Call;
use crate::op::{CURRENT_POSITION, MAX_LEN, Op, OpFrame};
use crate::sys::abi::{IoVec, MessageHeader};
use crate::sys::{self, POLL_IN, POLL_OUT, raw};

pub(super) const AGAIN: i32 = -Errno::AGAIN.raw_os_error();
const BAD_FD: i32 = -Errno::BADF.raw_os_error();
const IN_PROGRESS: i32 = -Errno::INPROGRESS.raw_os_error();
const INTERRUPTED: i32 = -Errno::INTR.raw_os_error();
const NOT_SEEKABLE: i32 = -Errno::SPIPE.raw_os_error();
const UNSUPPORTED: i32 = -Errno::OPNOTSUPP.raw_os_error();

/// The number of bytes that can be written to a pipe without waiting once poll(2) reports that it
/// is writable (`PIPE_BUF`).
const CERTAIN_WRITE: usize = 4096;
/// The largest number of buffers that such a write gathers.
const CERTAIN_PARTS: usize = 16;

/// Attempts the op of `frame` once, without waiting. Returns its result, or `-EAGAIN` if it would
/// wait.
pub(super) fn attempt(frame: &OpFrame) -> i32 {
    loop {
        let result = call(frame);
        if result != INTERRUPTED {
            return result;
        }
    }
}

/// Makes the call. Rare calls with large stack frames are out of line, because this function is the
/// deepest one on the stack of an idle connection's fiber, and that stack should fit into one page.
fn call(frame: &OpFrame) -> i32 {
    match frame.op {
        Op::Nop => 0,
        Op::Open { path, flags, mode } => {
            // SAFETY: the submitter keeps the path valid (contract of `Driver::submit`).
            unsafe { raw::openat(path, flags, mode) }
        }
        Op::Close { fd } => raw::close(fd),
        // SAFETY: the submitter keeps the call valid (contract of `Driver::submit`).
        Op::Call { call } => make(unsafe { &*call }),
        Op::EpollWait { fd, events, count } => {
            // SAFETY: the submitter keeps the events valid (contract of `Driver::submit`).
            match unsafe { raw::epoll_wait_now(fd, events, count) } {
                0 => AGAIN,
                result => result,
            }
        }
        Op::Read { fd, buf, len, offset } => {
            let one = IoVec { base: buf, len: len.min(MAX_LEN) as usize };
            Stream { fd, iov: &raw const one, count: 1, offset, write: false }.attempt()
        }
        Op::Write { fd, buf, len, offset } => {
            let one = IoVec { base: buf.cast_mut(), len: len.min(MAX_LEN) as usize };
            Stream { fd, iov: &raw const one, count: 1, offset, write: true }.attempt()
        }
        Op::ReadVectored { fd, iov, count, offset } => {
            Stream { fd, iov, count, offset, write: false }.attempt()
        }
        Op::WriteVectored { fd, iov, count, offset } => {
            Stream { fd, iov, count, offset, write: true }.attempt()
        }
        // Without a ring there are no buffers among which the kernel chooses.
        Op::RecvBundle { .. } => -Errno::NOBUFS.raw_os_error(),
        Op::Accept { fd, .. } => accept(fd, &frame.op),
        Op::Connect { fd, .. } => connect(fd, frame),
        Op::Poll { fd, events } => match ready(fd, events) {
            0 => AGAIN,
            result => result,
        },
        _ => message(&frame.op),
    }
}

#[inline(never)]
fn make(call: &Call) -> i32 {
    // SAFETY: the submitter keeps the pointers in the call valid (contract of `Driver::submit`).
    unsafe { call.make() }
}

/// Makes one of the socket calls that take `MSG_DONTWAIT`.
fn message(op: &Op) -> i32 {
    let quiet = sys::MSG_DONTWAIT | sys::MSG_NOSIGNAL;
    match *op {
        Op::Recv { fd, buf, len, flags } => {
            // SAFETY: the submitter keeps the buffer valid (contract of `Driver::submit`).
            unsafe { raw::recv(fd, buf, len.min(MAX_LEN), flags | sys::MSG_DONTWAIT) }
        }
        Op::Send { fd, buf, len, flags } => {
            // SAFETY: as above.
            unsafe { raw::send(fd, buf, len.min(MAX_LEN), flags | quiet) }
        }
        Op::RecvMessage { fd, message, flags } => {
            // SAFETY: as above, for the header and its pointers.
            unsafe { raw::recvmsg(fd, message, flags | sys::MSG_DONTWAIT) }
        }
        Op::SendMessage { fd, message, flags } => {
            // SAFETY: as above, for the header and its pointers.
            unsafe { raw::sendmsg(fd, message, flags | quiet) }
        }
        _ => unreachable!("every other op has its own arm in `call`"),
    }
}

/// Returns those of `events` that are ready now, 0 if none is, or `-EBADF` if there is no such
/// descriptor.
fn ready(fd: RawFd, events: u32) -> i32 {
    if fd < 0 {
        return BAD_FD;
    }
    sys::poll_now(raw::borrow(&fd), events).map_or(BAD_FD, |ready| ready as i32)
}

/// A read or write through preadv2(2) or pwritev2(2).
struct Stream {
    fd: RawFd,
    iov: *const IoVec,
    count: u32,
    offset: u64,
    write: bool,
}

impl Stream {
    fn attempt(&self) -> i32 {
        match self.call(raw::RWF_NOWAIT) {
            UNSUPPORTED => self.attempt_polled(),
            // A stream has no positions. Like a ring, this driver ignores a position that is given
            // nevertheless.
            NOT_SEEKABLE if self.offset != CURRENT_POSITION => {
                Stream { offset: CURRENT_POSITION, ..*self }.attempt()
            }
            result => result,
        }
    }

    fn call(&self, flags: u32) -> i32 {
        if self.write {
            // SAFETY: the submitter keeps the buffers valid (contract of `Driver::submit`).
            unsafe { raw::pwritev2(self.fd, self.iov, self.count, self.offset, flags) }
        } else {
            // SAFETY: as above.
            unsafe { raw::preadv2(self.fd, self.iov, self.count, self.offset, flags) }
        }
    }

    /// Makes the call for a file that does not support `RWF_NOWAIT`: on a regular file at once, on
    /// other files when poll(2) reports that they are ready.
    #[inline(never)]
    fn attempt_polled(&self) -> i32 {
        if is_disk_file(self.fd) {
            return self.call(0);
        }
        match ready(self.fd, if self.write { POLL_OUT } else { POLL_IN }) {
            0 => AGAIN,
            error if error < 0 => error,
            _ if self.write => self.write_certain_part(),
            _ => self.call(0),
        }
    }

    /// Writes at most the number of bytes for which there is certainly room.
    fn write_certain_part(&self) -> i32 {
        const NONE: IoVec = IoVec { base: std::ptr::null_mut(), len: 0 };
        let mut parts = [NONE; CERTAIN_PARTS];
        let (mut count, mut room) = (0, CERTAIN_WRITE);
        for at in 0..self.count as usize {
            // SAFETY: the index is inside the vector, which has `count` parts.
            let part = unsafe { self.iov.add(at) };
            // SAFETY: the submitter keeps the vector valid (contract of `Driver::submit`).
            let part = unsafe { *part };
            if part.len == 0 {
                continue;
            }
            parts[count] = IoVec { base: part.base, len: part.len.min(room) };
            room -= parts[count].len;
            count += 1;
            if room == 0 || count == CERTAIN_PARTS {
                break;
            }
        }
        Stream { iov: parts.as_ptr(), count: count as u32, ..*self }.call(0)
    }
}

/// Clears the results in a header, as a receive of 0 bytes does.
pub(super) fn clear_message(message: *mut MessageHeader) {
    // SAFETY: the submitter keeps the header valid (contract of `Driver::submit`).
    let message = unsafe { &mut *message };
    message.name_len = 0;
    message.control_len = 0;
    message.flags = 0;
}

/// Makes the call, which may wait. Called if epoll has refused the descriptor, which it does only
/// for files on a disk.
pub(super) fn call_waiting(op: &Op) -> i32 {
    let stream = |iov, count, fd, offset, write| Stream { fd, iov, count, offset, write }.call(0);
    match *op {
        Op::Read { fd, buf, len, offset } => {
            let one = IoVec { base: buf, len: len.min(MAX_LEN) as usize };
            stream(&raw const one, 1, fd, offset, false)
        }
        Op::Write { fd, buf, len, offset } => {
            let one = IoVec { base: buf.cast_mut(), len: len.min(MAX_LEN) as usize };
            stream(&raw const one, 1, fd, offset, true)
        }
        Op::ReadVectored { fd, iov, count, offset } => stream(iov, count, fd, offset, false),
        Op::WriteVectored { fd, iov, count, offset } => stream(iov, count, fd, offset, true),
        _ => -Errno::PERM.raw_os_error(),
    }
}

fn is_disk_file(fd: RawFd) -> bool {
    rustix::fs::fstat(raw::borrow(&fd)).is_ok_and(|stat| {
        let kind = FileType::from_raw_mode(stat.st_mode);
        matches!(kind, FileType::RegularFile | FileType::BlockDevice | FileType::Directory)
    })
}

/// The lock that is held during the poll and the accept on a blocking listener.
static BLOCKING_ACCEPT: Mutex<()> = Mutex::new(());

/// Accepts without waiting, for which accept4(2) has no flag. Ramie's own listeners are
/// `O_NONBLOCK`. On other listeners the lock ensures that no other driver takes the connection
/// between the poll and the call; a thread that calls accept(2) itself still could, and then the
/// call blocks.
#[inline(never)]
fn accept(fd: RawFd, op: &Op) -> i32 {
    let Op::Accept { addr, addr_len, flags, .. } = *op else { return BAD_FD };
    // SAFETY: the submitter keeps the address valid (contract of `Driver::submit`).
    let take = || unsafe { raw::accept4(fd, addr, addr_len, flags) };
    match sys::is_nonblocking(raw::borrow(&fd)) {
        Ok(true) => take(),
        Err(error) => -error.raw_os_error().unwrap_or(Errno::BADF.raw_os_error()),
        Ok(false) => {
            let _alone = BLOCKING_ACCEPT.lock().unwrap_or_else(PoisonError::into_inner);
            match ready(fd, POLL_IN) {
                0 => AGAIN,
                error if error < 0 => error,
                _ => take(),
            }
        }
    }
}

/// Starts to connect; if the connect has been started, returns its outcome. A blocking socket is
/// `O_NONBLOCK` during the call.
#[inline(never)]
fn connect(fd: RawFd, frame: &OpFrame) -> i32 {
    if frame.connecting.get() {
        return match ready(fd, POLL_OUT) {
            0 => AGAIN,
            error if error < 0 => error,
            _ => raw::connect_outcome(fd),
        };
    }
    let socket = raw::borrow(&fd);
    let was_blocking = sys::is_nonblocking(socket).is_ok_and(|nonblocking| !nonblocking);
    if was_blocking && sys::set_nonblocking(socket, true).is_err() {
        return BAD_FD;
    }
    let Op::Connect { addr, addr_len, .. } = frame.op else { return BAD_FD };
    // SAFETY: the submitter keeps the address valid (contract of `Driver::submit`).
    let result = unsafe { raw::connect(fd, addr, addr_len) };
    if was_blocking {
        // Cannot fail, because the same call has just succeeded; if it did, the socket would only
        // stay nonblocking.
        let _ = sys::set_nonblocking(socket, false);
    }
    if matches!(result, IN_PROGRESS | INTERRUPTED) {
        frame.connecting.set(true);
        return AGAIN;
    }
    result
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// The pipe is blocking and does not support `RWF_NOWAIT`, like all pipes before Linux 6.4.
    #[test]
    fn a_large_write_to_a_blocking_pipe_does_not_wait_for_a_reader() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (sender, written) = mpsc::channel();
        std::thread::spawn(move || {
            let bytes = vec![7_u8; 1 << 20];
            let all = IoVec { base: bytes.as_ptr().cast_mut(), len: bytes.len() };
            let (fd, iov) = (writer.as_raw_fd(), &raw const all);
            let stream = Stream { fd, iov, count: 1, offset: CURRENT_POSITION, write: true };
            let mut sum = 0;
            loop {
                match stream.attempt_polled() {
                    AGAIN => break,
                    count => sum += usize::try_from(count).expect("a write that succeeds"),
                }
            }
            sender.send(sum).expect("the test waits");
        });
        let written = written.recv_timeout(Duration::from_secs(20)).expect("the write waits");
        assert!((CERTAIN_WRITE..1 << 20).contains(&written), "{written} bytes");
        drop(reader);
    }
}
