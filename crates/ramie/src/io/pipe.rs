//! The twins of `std::io::pipe` and its ends.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
    process::Stdio,
};

use ramie_driver::{CURRENT_POSITION, sys};

use crate::{
    core::{cancel, wait::park::WaitKind, worker},
    op::{
        fixed_file::StreamFd,
        forward::{read_by_field, write_by_field},
    },
    ring::data::{MAX_BUFFERS, read_op, read_vectored_op, write_op, write_vectored_op},
};

static READ: WaitKind = WaitKind::of_op("data from a pipe");
static WRITE: WaitKind = WaitKind::of_op("room in a pipe");

/// Makes a pipe; twin of [`std::io::pipe`].
///
/// # Errors
/// The process or the system is out of descriptors.
///
/// # Examples
/// ```
/// use std::io::{Read, Write};
///
/// ramie::run(|| {
///     let (mut reader, mut writer) = ramie::io::pipe()?;
///     let sender = ramie::fiber::spawn(move || writer.write_all(b"through the pipe"));
///     let mut text = String::new();
///     reader.read_to_string(&mut text)?;
///     assert_eq!(text, "through the pipe");
///     sender.join().unwrap()
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    let whole = |fd: OwnedFd| PipeEnd { fd: fd.into(), refuses_to_wait: false };
    Ok((PipeReader(whole(reader.into())), PipeWriter(whole(writer.into()))))
}

/// The reading end of a pipe; twin of [`std::io::PipeReader`].
///
/// # Blocking
/// A read parks the strand until there is data, or until the last writer is gone; then it returns
/// 0.
///
/// # Cancellation
/// A cancel point. The error of a cancelled `read_exact` holds the number of bytes read
/// ([`bytes_moved`](crate::cancel::bytes_moved)).
///
/// # Errors
/// As std's. Never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
#[derive(Debug)]
pub struct PipeReader(PipeEnd);

/// The writing end of a pipe; twin of [`std::io::PipeWriter`].
///
/// # Blocking
/// A write parks the strand until there is room.
///
/// # Cancellation
/// A cancel point. The error of a cancelled `write_all` holds the number of bytes written
/// ([`bytes_moved`](crate::cancel::bytes_moved)).
///
/// # Errors
/// As std's: `BrokenPipe` when the last reader is gone. Never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
#[derive(Debug)]
pub struct PipeWriter(PipeEnd);

/// Reads and writes a descriptor that has readiness and no position.
#[derive(Debug)]
pub(super) struct PipeEnd {
    fd: StreamFd,
    /// Whether the descriptor was made elsewhere with `O_NONBLOCK`, so that calls return
    /// `WouldBlock` instead of waiting.
    refuses_to_wait: bool,
}

impl PipeEnd {
    pub(super) fn adopt(fd: OwnedFd) -> Self {
        let refuses_to_wait = sys::is_nonblocking(&fd).unwrap_or(false);
        PipeEnd { fd: fd.into(), refuses_to_wait }
    }

    /// Wraps a descriptor for the duration of a call.
    pub(super) fn of_lent(fd: OwnedFd) -> Self {
        let refuses_to_wait = sys::is_nonblocking(&fd).unwrap_or(false);
        PipeEnd { fd: StreamFd::of_lent(fd), refuses_to_wait }
    }

    fn try_clone(&self) -> io::Result<Self> {
        let fd = sys::dup_cloexec(&self.fd)?.into();
        Ok(PipeEnd { fd, refuses_to_wait: self.refuses_to_wait })
    }

    #[track_caller]
    #[inline(always)]
    pub(super) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        if self.refuses_to_wait {
            return self.read_now(&mut [IoSliceMut::new(buf)]);
        }
        read_op(&READ, self.fd.named(), buf, CURRENT_POSITION)
    }

    #[track_caller]
    pub(super) fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.refuses_to_wait {
            return self.read_now(bufs);
        }
        read_vectored_op(&READ, self.fd.as_fd(), bufs, CURRENT_POSITION, false)
    }

    #[track_caller]
    #[inline(always)]
    pub(super) fn write(&self, buf: &[u8]) -> io::Result<usize> {
        if self.refuses_to_wait {
            return self.write_now(&[IoSlice::new(buf)]);
        }
        write_op(&WRITE, self.fd.named(), buf, CURRENT_POSITION)
    }

    #[track_caller]
    pub(super) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.refuses_to_wait {
            return self.write_now(bufs);
        }
        write_vectored_op(&WRITE, self.fd.as_fd(), bufs, CURRENT_POSITION, false)
    }

    /// Reads the available bytes of a pipe with `O_NONBLOCK`, without waiting.
    #[cold]
    fn read_now(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        cancel::check_io()?;
        worker::note_complete_at_once();
        let count = bufs.len().min(MAX_BUFFERS);
        let bufs = &mut bufs[..count];
        match sys::read_now(&self.fd, bufs, CURRENT_POSITION) {
            Err(error) if is_unsupported(&error) && sys::is_nonblocking(&self.fd)? => {
                sys::read_vectored(&self.fd, bufs, CURRENT_POSITION)
            }
            result => result,
        }
    }

    /// Writes as many bytes as there is room for; otherwise as [`Self::read_now`].
    #[cold]
    fn write_now(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        cancel::check_io()?;
        worker::note_complete_at_once();
        let bufs = &bufs[..bufs.len().min(MAX_BUFFERS)];
        match sys::write_now(&self.fd, bufs, CURRENT_POSITION) {
            Err(error) if is_unsupported(&error) && sys::is_nonblocking(&self.fd)? => {
                sys::write_vectored(&self.fd, bufs, CURRENT_POSITION)
            }
            result => result,
        }
    }
}

/// Whether the file lacks `RWF_NOWAIT`, which a pipe has until it is spliced.
fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(sys::Errno::OPNOTSUPP.raw_os_error())
}

/// The parts that both ends share.
macro_rules! pipe_end {
    ($ours:ident) => {
        impl $ours {
            pub(super) fn refuses_to_wait(&self) -> bool {
                self.0.refuses_to_wait
            }

            /// Makes another handle of the same end.
            ///
            /// # Errors
            /// The process is out of descriptors.
            pub fn try_clone(&self) -> io::Result<$ours> {
                Ok($ours(self.0.try_clone()?))
            }
        }

        impl From<io::$ours> for $ours {
            fn from(theirs: io::$ours) -> Self {
                $ours::from(OwnedFd::from(theirs))
            }
        }

        impl From<$ours> for io::$ours {
            fn from(ours: $ours) -> Self {
                OwnedFd::from(ours).into()
            }
        }

        impl From<OwnedFd> for $ours {
            fn from(fd: OwnedFd) -> Self {
                $ours(PipeEnd::adopt(fd))
            }
        }

        impl From<$ours> for OwnedFd {
            fn from(ours: $ours) -> Self {
                ours.0.fd.into_fd()
            }
        }

        impl From<$ours> for Stdio {
            fn from(ours: $ours) -> Self {
                OwnedFd::from(ours).into()
            }
        }

        impl AsFd for $ours {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.fd.as_fd()
            }
        }

        impl AsRawFd for $ours {
            fn as_raw_fd(&self) -> RawFd {
                self.0.fd.as_fd().as_raw_fd()
            }
        }

        impl FromRawFd for $ours {
            unsafe fn from_raw_fd(fd: RawFd) -> Self {
                // SAFETY: the caller's promise: the descriptor is open and nobody else owns it.
                $ours::from(unsafe { OwnedFd::from_raw_fd(fd) })
            }
        }

        impl IntoRawFd for $ours {
            fn into_raw_fd(self) -> RawFd {
                OwnedFd::from(self).into_raw_fd()
            }
        }
    };
}

pipe_end!(PipeReader);
pipe_end!(PipeWriter);

read_by_field!(0: PipeReader, &PipeReader);
write_by_field!(0: PipeWriter, &PipeWriter);
