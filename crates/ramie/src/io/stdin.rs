//! The twin of `std::io::Stdin`.

use std::{
    fmt,
    io::{self, BufRead, BufReader, IoSliceMut, Lines, Read},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    sync::OnceLock,
};

use super::standard::{Standard, standard_descriptor};
use crate::{
    op::{forward::read_by_reference, whole::counted_read_exact},
    sync::{Mutex, MutexGuard},
};

/// The size of the buffer, which is that of std's.
const BUFFER: usize = 8192;

struct RawStdin(Standard);

impl Read for RawStdin {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_vectored(bufs)
    }
}

fn shared() -> &'static Mutex<BufReader<RawStdin>> {
    static STDIN: OnceLock<Mutex<BufReader<RawStdin>>> = OnceLock::new();
    STDIN.get_or_init(|| Mutex::new(BufReader::with_capacity(BUFFER, RawStdin(Standard::new(0)))))
}

/// Returns a handle to the standard input; twin of [`std::io::stdin`].
#[must_use]
pub fn stdin() -> Stdin {
    Stdin { shared: shared() }
}

/// A handle to the standard input, whose buffer all handles share; twin of [`std::io::Stdin`].
///
/// Its buffer is not that of std's `Stdin`, so it lacks the bytes that std has read ahead.
///
/// # Blocking
/// A read parks the strand until there is data, and while another strand reads; never the worker,
/// for a terminal, a pipe, a socket or a file.
///
/// # Cancellation
/// A read is a cancel point; [`lock`](Self::lock) is not.
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
    shared: &'static Mutex<BufReader<RawStdin>>,
}

/// A guard of the exclusive use of the standard input; twin of [`std::io::StdinLock`].
pub struct StdinLock<'a> {
    reader: MutexGuard<'a, BufReader<RawStdin>>,
}

impl Stdin {
    /// Locks the standard input until the guard is dropped.
    ///
    /// # Blocking
    /// Parks the strand while another holds the lock.
    ///
    /// # Cancellation
    /// Not a cancel point.
    #[track_caller]
    pub fn lock(&self) -> StdinLock<'static> {
        let reader = self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        StdinLock { reader }
    }

    /// As [`lock`](Self::lock), but a cancel point, because it is part of a read.
    #[track_caller]
    fn lock_to_read(&self) -> io::Result<StdinLock<'static>> {
        let reader = self.shared.lock_or_cancelled()?;
        Ok(StdinLock { reader: reader.unwrap_or_else(|poisoned| poisoned.into_inner()) })
    }

    /// Reads a line, including its end, and appends it to `buf`; returns 0 at the end of the input.
    ///
    /// # Errors
    /// `InvalidData`: the line is not UTF-8.
    #[track_caller]
    pub fn read_line(&self, buf: &mut String) -> io::Result<usize> {
        self.lock_to_read()?.read_line(buf)
    }

    /// Iterates over the lines, without their ends.
    #[track_caller]
    pub fn lines(self) -> Lines<StdinLock<'static>> {
        self.lock().lines()
    }
}

impl Read for &Stdin {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.lock_to_read()?.read(buf)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.lock_to_read()?.read_vectored(bufs)
    }

    #[track_caller]
    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        self.lock_to_read()?.read_to_end(buf)
    }

    #[track_caller]
    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        self.lock_to_read()?.read_to_string(buf)
    }

    #[track_caller]
    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        self.lock_to_read()?.read_exact(buf)
    }
}

read_by_reference!(Stdin);

impl Read for StdinLock<'_> {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buf)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reader.read_vectored(bufs)
    }

    counted_read_exact!();
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

standard_descriptor!(0, Stdin, StdinLock<'_>);
