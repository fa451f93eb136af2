//! The twin of `std::io::Stdin`.
#![allow(unsafe_code)]

use std::{
    fmt,
    io::{self, BufRead, BufReader, IoSliceMut, IsTerminal, Lines, Read},
    mem::ManuallyDrop,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd},
    sync::OnceLock,
};

use crate::{
    fs::File,
    sync::{Mutex, MutexGuard},
};

/// As large as std's.
const BUFFER: usize = 8192;

const EBADF: i32 = 9;

/// Descriptor 0, which is never closed.
struct Raw(ManuallyDrop<File>);

impl Read for Raw {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        closed_is(0, (&*self.0).read(buf))
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        closed_is(0, (&*self.0).read_vectored(bufs))
    }
}

/// As in std, a standard stream that is closed is one that is empty, or takes everything.
pub(super) fn closed_is<T>(value: T, result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if error.raw_os_error() == Some(EBADF) => Ok(value),
        result => result,
    }
}

/// A standard stream as a file; it is never closed.
pub(super) fn standard_stream(fd: RawFd) -> ManuallyDrop<File> {
    // SAFETY: a standard stream's descriptor belongs to the whole process; nobody's ownership is
    // taken, since this value is never dropped. Where it is closed, calls say `EBADF`.
    ManuallyDrop::new(unsafe { File::from_raw_fd(fd) })
}

fn shared() -> &'static Mutex<BufReader<Raw>> {
    static STDIN: OnceLock<Mutex<BufReader<Raw>>> = OnceLock::new();
    STDIN.get_or_init(|| Mutex::new(BufReader::with_capacity(BUFFER, Raw(standard_stream(0)))))
}

/// Returns a handle to the standard input; twin of [`std::io::stdin`].
#[must_use]
pub fn stdin() -> Stdin {
    Stdin { shared: shared() }
}

/// A handle to the standard input, whose buffer all handles share; twin of [`std::io::Stdin`].
///
/// It has a buffer of its own: what std's `Stdin` has read ahead is not here.
///
/// # Blocking
/// A read parks the strand until there is data, or while another strand reads. The worker runs on,
/// be the input a terminal, a pipe, a socket or a file.
///
/// # Cancellation
/// Not a cancel point in this version.
///
/// # Errors
/// As std's: a closed descriptor reads as empty. Never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
///
/// # Examples
/// ```no_run
/// ramie::run(|| {
///     for line in ramie::io::stdin().lines() {
///         ramie::println!("{}", line?.to_uppercase());
///     }
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Stdin {
    shared: &'static Mutex<BufReader<Raw>>,
}

/// The right to read the standard input alone; twin of [`std::io::StdinLock`].
pub struct StdinLock<'a> {
    reader: MutexGuard<'a, BufReader<Raw>>,
}

impl Stdin {
    /// Takes the right to read alone, until the lock is dropped.
    ///
    /// # Blocking
    /// Parks the strand while another holds it.
    #[track_caller]
    pub fn lock(&self) -> StdinLock<'static> {
        let reader = self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        StdinLock { reader }
    }

    /// Reads a line, its end included, and adds it to `buf`; returns 0 at the end of the input.
    ///
    /// # Errors
    /// `InvalidData`: the line is not UTF-8.
    #[track_caller]
    pub fn read_line(&self, buf: &mut String) -> io::Result<usize> {
        self.lock().read_line(buf)
    }

    /// Iterates over the lines, without their ends.
    #[track_caller]
    pub fn lines(self) -> Lines<StdinLock<'static>> {
        self.lock().lines()
    }

    /// Tells whether the input is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.as_fd().is_terminal()
    }
}

impl Read for &Stdin {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.lock().read(buf)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.lock().read_vectored(bufs)
    }

    #[track_caller]
    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        self.lock().read_to_end(buf)
    }

    #[track_caller]
    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        self.lock().read_to_string(buf)
    }

    #[track_caller]
    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        self.lock().read_exact(buf)
    }
}

impl Read for Stdin {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }

    #[track_caller]
    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(buf)
    }

    #[track_caller]
    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(buf)
    }

    #[track_caller]
    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        (&*self).read_exact(buf)
    }
}

impl Read for StdinLock<'_> {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buf)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reader.read_vectored(bufs)
    }
}

impl BufRead for StdinLock<'_> {
    #[track_caller]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.reader.consume(amount);
    }
}

/// What a handle and its lock have alike: a descriptor that is never closed.
macro_rules! standard_descriptor {
    ($number:literal, $handle:ty, $lock:ty) => {
        $crate::io::stdin::standard_descriptor!(@one $number, $handle);
        $crate::io::stdin::standard_descriptor!(@one $number, $lock);
    };
    (@one $number:literal, $ours:ty) => {
        impl AsFd for $ours {
            fn as_fd(&self) -> BorrowedFd<'_> {
                // SAFETY: as in std, a standard stream's descriptor is taken to be open always.
                unsafe { BorrowedFd::borrow_raw($number) }
            }
        }

        impl AsRawFd for $ours {
            fn as_raw_fd(&self) -> RawFd {
                $number
            }
        }

        impl fmt::Debug for $ours {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($ours)).finish_non_exhaustive()
            }
        }
    };
}

pub(super) use standard_descriptor;

standard_descriptor!(0, Stdin, StdinLock<'_>);
