//! Connections without a descriptor, which exist only in the file table of one ring.
#![allow(unsafe_code)]

use std::{
    fmt,
    io::{self, Read, Write},
    marker::PhantomData,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use ramie_driver::{Op, sys};

use super::{
    Address, leftover,
    socket::{ACCEPT, accept_available_connections, accept_op, receive_op, send_op},
};
use crate::{
    core::{cancel, time::Deadline},
    op::{
        self, OpError,
        fixed_file::{DirectFile, FdName, StreamFd},
        inboxes,
    },
};

/// A connection in the file table of this worker's ring. It has no descriptor, so it neither uses
/// the process's descriptor table and its lock nor counts towards `ulimit -n`. It stays on its
/// worker.
///
/// If there is no such table (before Linux 6.8, on the polling driver, on a thread outside the
/// runtime) or the table is full, the connection has a descriptor. It also has one if
/// [`incoming`](crate::net::TcpListener::incoming) has accepted it early. Reads and writes do the
/// same then.
///
/// Dropping the stream closes the connection. When its runtime ends, a connection without a
/// descriptor is closed, and later calls fail; one with a descriptor stays open until the stream is
/// dropped.
///
/// # Cancellation
/// Reads and writes are cancel points.
///
/// # Examples
/// ```
/// use std::io::{Read, Write};
///
/// use ramie::{fiber, net::{TcpListener, TcpStream}, ring};
///
/// ramie::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     let client = fiber::spawn(move || -> std::io::Result<String> {
///         let mut text = String::new();
///         TcpStream::connect(address)?.read_to_string(&mut text)?;
///         Ok(text)
///     });
///     let (mut connection, _peer) = ring::accept_direct(&listener)?;
///     connection.write_all(b"no descriptor")?;
///     drop(connection);
///     assert_eq!(client.join().unwrap()?, "no descriptor");
///     Ok(())
/// })
/// # .map_err(|error: std::io::Error| error).unwrap();
/// ```
pub struct DirectStream {
    file: AcceptedFile,
    /// Not `Send`, because the connection is in the table of this thread's ring.
    _stays: PhantomData<*const ()>,
}

enum AcceptedFile {
    Direct(DirectFile),
    Plain(StreamFd),
}

/// Waits for a connection and accepts it without a descriptor; returns the peer's address. A
/// connection that `incoming` has accepted and the program has not taken comes first, with the
/// descriptor that it has already.
///
/// # Blocking
/// Parks the strand until there is a connection.
///
/// # Cancellation
/// A cancel point. No connection is lost: a cancelled call has accepted none.
///
/// # Errors
/// Those of accept4(2).
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
#[track_caller]
pub fn accept_direct(listener: impl AsFd) -> io::Result<(DirectStream, Address)> {
    cancel::check_io()?;
    let listener = listener.as_fd();
    if let Some(inbox) = inboxes::in_use(listener)
        && let Some((fd, address)) = leftover::accept(&inbox)?
    {
        let file = AcceptedFile::Plain(fd.into());
        return Ok((DirectStream { file, _stays: PhantomData }, address));
    }
    let (file, address) = match DirectFile::reserve() {
        Some(file) => accept_into(file, listener)?,
        None => {
            let (fd, address) = accept_op(listener, Deadline::NEVER)?;
            (AcceptedFile::Plain(fd.into()), address)
        }
    };
    Ok((DirectStream { file, _stays: PhantomData }, address))
}

#[track_caller]
fn accept_into(file: DirectFile, listener: BorrowedFd<'_>) -> io::Result<(AcceptedFile, Address)> {
    let accepted = match accept_once_into(&file, listener, Deadline::NEVER) {
        Err(error @ OpError::Cancelled) => {
            let again = |deadline| accept_once_into(&file, listener, deadline);
            accept_available_connections(listener, again).ok_or(error)
        }
        accepted => accepted,
    };
    Ok((AcceptedFile::Direct(file), accepted?))
}

#[track_caller]
fn accept_once_into(
    file: &DirectFile,
    listener: BorrowedFd<'_>,
    deadline: Deadline,
) -> Result<Address, OpError> {
    let mut address = Address::new();
    let op = Op::Accept {
        fd: listener.as_raw_fd(),
        addr: &raw mut address.storage,
        addr_len: &raw mut address.len,
        flags: 0,
    };
    let fixed_file = file.named().fixed_file();
    // SAFETY: address and length lie in this frame. The file is the reserved index at which the
    // accept stores the connection.
    unsafe { op::request(&ACCEPT, op).until(deadline).on(fixed_file).perform_inline() }?;
    Ok(address)
}

impl DirectStream {
    /// Gives the connection a descriptor, and frees its index in the table.
    ///
    /// # Errors
    /// The process has no free descriptor, or the runtime of the connection has ended. In both
    /// cases the connection is closed. A connection that has a descriptor already gives it without
    /// an error.
    pub fn try_into_fd(self) -> io::Result<OwnedFd> {
        match self.file {
            AcceptedFile::Plain(fd) => Ok(fd.into_fd()),
            AcceptedFile::Direct(file) => {
                let fd = file.install()?;
                // SAFETY: the ring has made this descriptor for this call.
                Ok(unsafe { OwnedFd::from_raw_fd(fd) })
            }
        }
    }

    /// Returns whether the connection has no descriptor.
    pub fn is_direct(&self) -> bool {
        matches!(self.file, AcceptedFile::Direct(_))
    }

    #[inline(always)]
    fn named(&self) -> FdName<'_> {
        match &self.file {
            AcceptedFile::Direct(file) => file.named(),
            AcceptedFile::Plain(fd) => fd.named(),
        }
    }
}

impl Read for &DirectStream {
    #[track_caller]
    #[inline(always)]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(receive_op(self.named(), buf, 0, Deadline::NEVER)? as usize)
    }
}

impl Read for DirectStream {
    #[track_caller]
    #[inline(always)]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for &DirectStream {
    #[track_caller]
    #[inline(always)]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(send_op(self.named(), buf, sys::MSG_NOSIGNAL, Deadline::NEVER)? as usize)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for DirectStream {
    #[track_caller]
    #[inline(always)]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for DirectStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectStream").field("is_direct", &self.is_direct()).finish()
    }
}
