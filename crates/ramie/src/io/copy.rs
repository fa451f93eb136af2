//! The twin of `std::io::copy`, which copies within the kernel where that is known to pay.
//!
//! | from | to | by |
//! |---|---|---|
//! | [`File`] | [`File`] | copy_file_range(2) on the blocking pool, which may share blocks instead of copying them |
//! | [`File`] | a stream socket | sendfile(2) on the blocking pool, a part of the send buffer at a time |
//! | a pipe | a pipe | splice(2) on the worker, because it moves pages and need not wait |
//! | anything else | | reads and writes |
//!
//! splice(2) between sockets, and sendfile(2) of more than fits, wait inside the kernel regardless
//! of their flags, unless the socket's description is nonblocking; a slow peer would occupy a
//! thread of the pool. So each part is sent only when there is room for it.
//!
//! # Failures
//! As std's: if the kernel cannot copy between these files, the copy continues by reads and writes
//! ([`unless_unsuited`]). Any other error ends the copy, because a read would take bytes from the
//! source that cannot be written. For the same reason the target is checked for being writable
//! before bytes are read from a pipe or a socket ([`CopySink::check`]), unless the source has
//! ended; and a file's position is put back to the end of the written bytes.
#![allow(unsafe_code)]

use std::{
    any::TypeId,
    io::{self, Read, Seek, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use ramie_driver::{
    Op,
    sys::{self, Errno, OFlags, SendFlags, SocketType, sockopt},
};

use super::{PipeReader, PipeWriter};
use crate::{
    core::{cancel, time::Deadline, wait::park::WaitKind, worker},
    fs::{File, Metadata},
    net::{
        TcpStream,
        socket::{Half, Socket},
    },
    op::{self, blocking, whole::write_all_by},
    os::unix::net::UnixStream,
};

static COPY: WaitKind = WaitKind::of_op("room or data for a copy");

/// The buffer of a copy by reads and writes.
const BUFFER: usize = 64 * 1024;
/// The most that one job of the pool copies from file to file, which takes about 10 ms.
const FILE_PART: usize = 64 << 20;
/// The most that one job of the pool sends.
const SEND_PART: usize = 1 << 20;

/// Copies all bytes from a reader to a writer, and returns their number; twin of [`std::io::copy`].
///
/// # Blocking
/// Parks the strand as the reads and writes would.
///
/// # Cancellation
/// A cancel point if the reads or writes are; a copy in the kernel is one between two parts, of 64
/// MiB from file to file. Nothing is lost, because the error holds the number of copied bytes
/// ([`bytes_moved`](crate::cancel::bytes_moved)) and the bytes that were read and not yet written
/// ([`unsent_bytes`](crate::cancel::unsent_bytes)).
///
/// # Errors
/// The first error of a read or a write. If the source is a [`File`], its position is then at the
/// end of the written bytes. If the source is a pipe or a socket, up to 64 KiB that were read may
/// be lost, but not if the copy was cancelled, nor if the target is a file that is not open for
/// writing, a pipe without a reader or a socket that was shut down.
///
/// # Examples
/// ```
/// use ramie::{fs::File, io};
/// # let path = std::env::temp_dir().join(format!("ramie-doc-copy-{}", std::process::id()));
/// # std::fs::write(&path, "text")?;
///
/// ramie::run(|| {
///     let mut bytes = Vec::new();
///     assert_eq!(io::copy(&mut File::open(&path)?, &mut bytes)?, 4);
///     assert_eq!(bytes, b"text");
///     std::fs::remove_file(&path)
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn copy<R, W>(reader: &mut R, writer: &mut W) -> io::Result<u64>
where
    R: ?Sized + Read,
    W: ?Sized + Write,
{
    let mut copied = 0;
    let in_kernel = match (CopySource::of(reader), CopySink::of(writer)) {
        (Some(CopySource::File(from)), Some(CopySink::File(to))) => {
            file_to_file(from, to, &mut copied)
        }
        (Some(CopySource::File(from)), Some(CopySink::Socket(to))) => {
            file_to_socket(from, to, &mut copied)
        }
        (Some(CopySource::Pipe(from)), Some(CopySink::Pipe(to))) => {
            pipe_to_pipe(from, to, &mut copied)
        }
        _ => Ok(()),
    };
    in_kernel.map_err(|error| cancel::after(error, copied as usize, &[]))?;
    by_reads_and_writes(reader, writer, &mut copied)?;
    Ok(copied)
}

/// Copies until the end.
#[track_caller]
fn by_reads_and_writes<R, W>(reader: &mut R, writer: &mut W, copied: &mut u64) -> io::Result<()>
where
    R: ?Sized + Read,
    W: ?Sized + Write,
{
    let mut buffer = vec![0; BUFFER];
    loop {
        if let (Some(from @ (CopySource::Pipe(_) | CopySource::Socket(_))), Some(to)) =
            (CopySource::of(reader), CopySink::of(writer))
            && let Err(error) = to.check()
        {
            return match from.needs_no_sink(&to) {
                Ok(true) => Ok(()),
                Ok(false) => Err(error),
                Err(error) => Err(cancel::after(error, *copied as usize, &[])),
            };
        }
        let count = match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(cancel::after(error, *copied as usize, &[])),
        };
        let part = &buffer[..count];
        let mut sent = 0;
        // The writes are counted here, because a writer's own `write_all` need not return the
        // count.
        let written = write_all_by!(part, |rest| {
            let written = writer.write(rest);
            sent += written.as_ref().unwrap_or(&0);
            written
        });
        if let Err(error) = written {
            // The error carries the rest of the part.
            if let (Some(CopySource::File(mut from)), false) =
                (CopySource::of(reader), cancel::is_cancelled(&error))
            {
                // A stream that was opened by a path has no position to restore.
                let _ = from.seek(io::SeekFrom::Current(-((count - sent) as i64)));
            }
            return Err(cancel::after(error, *copied as usize + sent, &part[sent..]));
        }
        *copied += count as u64;
    }
}

/// Copies until the end, or until the kernel refuses.
#[track_caller]
fn file_to_file(from: &File, to: &File, copied: &mut u64) -> io::Result<()> {
    loop {
        cancel::check_io()?;
        match blocking(|| sys::copy_file_range(from, to, FILE_PART)) {
            // Some files report no size, so this may not be the end; the reads that follow
            // determine it.
            Ok(0) => return Ok(()),
            Ok(count) => *copied += count as u64,
            // copy_file_range refuses a target in append mode, so the copy continues with reads
            // and writes. An empty source needs no write.
            Err(error) if error.raw_os_error() == Some(Errno::BADF.raw_os_error()) => {
                let is_empty = from.metadata().is_ok_and(|source| source.len() == 0);
                let appends = sys::status_flags(to)?.contains(OFlags::APPEND);
                return if is_empty || appends { Ok(()) } else { Err(error) };
            }
            Err(error) => {
                unless_unsuited(error, *copied)?;
                // std then tries sendfile(2), which looks at the target first, also at the end of
                // the source. It does so for a file that reports a size.
                let is_sendable = |source: Metadata| source.is_file() && source.len() > 0;
                return match from.metadata().is_ok_and(is_sendable) {
                    true => CopySink::File(to).check(),
                    false => Ok(()),
                };
            }
        }
    }
}

#[track_caller]
fn file_to_socket(from: &File, to: &Socket, copied: &mut u64) -> io::Result<()> {
    // A socket with room has at least a third of its buffer free.
    let room = sockopt::socket_send_buffer_size(to).unwrap_or(0) / 4;
    let part = room.min(SEND_PART);
    while part > 0 && !to.is_nonblocking() {
        wait(to.as_fd(), sys::POLL_OUT, to.deadline(Half::Write))?;
        match blocking(|| sys::sendfile(to, from, part)) {
            Ok(0) => break,
            Ok(count) => *copied += count as u64,
            Err(error) => return unless_unsuited(error, *copied),
        }
    }
    Ok(())
}

#[track_caller]
fn pipe_to_pipe(from: &PipeReader, to: &PipeWriter, copied: &mut u64) -> io::Result<()> {
    loop {
        cancel::check_io()?;
        match sys::splice_now(from, to, SEND_PART) {
            Ok(0) => return Ok(()),
            Ok(count) => *copied += count as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if from.refuses_to_wait() || to.refuses_to_wait() {
                    return Err(error);
                }
                wait(from.as_fd(), sys::POLL_IN, Deadline::NEVER)?;
                wait(to.as_fd(), sys::POLL_OUT, Deadline::NEVER)?;
            }
            Err(error) => return unless_unsuited(error, *copied),
        }
        worker::yield_now();
    }
}

/// Returns `Ok` if the error means that the kernel cannot copy between these files in this way,
/// otherwise the error. `EPERM` counts among these errors, because filters of system calls return
/// it before anything is copied.
fn unless_unsuited(error: io::Error, copied: u64) -> io::Result<()> {
    let Some(errno) = error.raw_os_error() else { return Err(error) };
    match Errno::from_raw_os_error(errno) {
        Errno::OVERFLOW => Ok(()),
        // `EISDIR`: one of the two is a directory. Reads and writes then return the error, that of
        // the source first.
        Errno::NOSYS
        | Errno::XDEV
        | Errno::INVAL
        | Errno::PERM
        | Errno::OPNOTSUPP
        | Errno::ISDIR
            if copied == 0 =>
        {
            Ok(())
        }
        _ => Err(error),
    }
}

#[track_caller]
fn wait(fd: BorrowedFd<'_>, events: u32, deadline: Deadline) -> io::Result<()> {
    let op = Op::Poll { fd: fd.as_raw_fd(), events };
    // SAFETY: the op points to nothing.
    match unsafe { op::request(&COPY, op).until(deadline).perform() } {
        Ok(_) => Ok(()),
        // The same error as that of a write whose timeout has passed.
        Err(op::OpError::Elapsed) => Err(Errno::AGAIN.into()),
        Err(error) => Err(error.into()),
    }
}

enum CopySource<'a> {
    File(&'a File),
    Pipe(&'a PipeReader),
    Socket(&'a Socket),
}

enum CopySink<'a> {
    File(&'a File),
    Pipe(&'a PipeWriter),
    Socket(&'a Socket),
}

impl<'a> CopySource<'a> {
    fn of<R: ?Sized>(reader: &'a R) -> Option<Self> {
        seen_as::<R, File>(reader)
            .map(CopySource::File)
            .or_else(|| seen_as::<R, PipeReader>(reader).map(CopySource::Pipe))
            .or_else(|| seen_as::<R, TcpStream>(reader).map(|s| CopySource::Socket(s.socket())))
            .or_else(|| seen_as::<R, UnixStream>(reader).map(|s| CopySource::Socket(s.socket())))
    }

    /// Whether the source is at its end, so a sink that cannot be written is no failure. (The
    /// splice by which std copies from or to a pipe checks the sink first, unless it is a socket.)
    #[track_caller]
    fn needs_no_sink(&self, sink: &CopySink<'_>) -> io::Result<bool> {
        match (self, sink) {
            (CopySource::Pipe(from), CopySink::Socket(_)) => {
                let ready = sys::poll_now(from, sys::POLL_IN)?;
                Ok(ready & (sys::POLL_IN | sys::POLL_HUP) == sys::POLL_HUP)
            }
            (CopySource::Socket(from), CopySink::Socket(_) | CopySink::File(_)) => {
                match from.receive(&mut [0], sys::MSG_PEEK | sys::MSG_DONTWAIT) {
                    Ok(count) => Ok(count == 0),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(false),
        }
    }
}

impl<'a> CopySink<'a> {
    fn of<W: ?Sized>(writer: &'a W) -> Option<Self> {
        let tcp = || seen_as::<W, TcpStream>(writer).map(TcpStream::socket);
        let unix = || seen_as::<W, UnixStream>(writer).map(UnixStream::socket);
        seen_as::<W, File>(writer)
            .map(CopySink::File)
            .or_else(|| seen_as::<W, PipeWriter>(writer).map(CopySink::Pipe))
            .or_else(|| tcp().or_else(unix).map(CopySink::Socket))
    }

    /// Fails as a write would, if that can be determined without a write.
    fn check(&self) -> io::Result<()> {
        match self {
            CopySink::File(to) => {
                let mode = sys::status_flags(to)? & OFlags::RWMODE;
                if mode == OFlags::RDONLY { Err(Errno::BADF.into()) } else { Ok(()) }
            }
            CopySink::Pipe(to) => {
                let is_broken = sys::poll_now(to, sys::POLL_OUT)? & sys::POLL_ERR != 0;
                if is_broken { Err(Errno::PIPE.into()) } else { Ok(()) }
            }
            // On a socket with messages, an empty write would send a message.
            CopySink::Socket(to) if sockopt::socket_type(to)? == SocketType::STREAM => {
                match sys::send(to, &[], SendFlags::empty()) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                    _ => Ok(()),
                }
            }
            CopySink::Socket(_) => Ok(()),
        }
    }
}

/// A type of this crate without lifetimes, so that the same `TypeId` means the same type.
trait Concrete: 'static {}

impl Concrete for File {}
impl Concrete for PipeReader {}
impl Concrete for PipeWriter {}
impl Concrete for TcpStream {}
impl Concrete for UnixStream {}

/// Returns the value behind the generic type, if `T` is `U` or `&U`.
fn seen_as<T: ?Sized, U: Concrete>(value: &T) -> Option<&U> {
    let (id, place) = (typeid::of::<T>(), std::ptr::from_ref(value));
    if id == TypeId::of::<U>() {
        // SAFETY: `T` is `U`, which has no lifetimes that the id might hide (`Concrete`).
        Some(unsafe { &*place.cast::<U>() })
    } else if id == TypeId::of::<&'static U>() {
        // SAFETY: `T` is `&U` for some lifetime, which outlives the borrow of `value`.
        Some(unsafe { *place.cast::<&U>() })
    } else {
        None
    }
}
