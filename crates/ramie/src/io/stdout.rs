//! The twins of `std::io::Stdout` and `std::io::Stderr`.
#![allow(unsafe_code)]

use std::{
    cell::{RefCell, RefMut},
    fmt,
    io::{self, IoSlice, LineWriter, Write},
    marker::PhantomData,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    panic::{RefUnwindSafe, UnwindSafe},
    process::Stdio,
    sync::OnceLock,
};

use ramie_driver::logging;

use super::{
    reentrant::{Reentrant, ReentrantGuard},
    standard::{Standard, standard_descriptor, write_here},
};
use crate::{
    core::{
        cancel,
        primitive::{AtomicBool, Ordering},
    },
    op::{forward::write_by_reference, whole},
};

/// Whether the process is exiting, so that no strand may park any more.
static IS_EXITING: AtomicBool = AtomicBool::new(false);

pub(super) struct RawStdout(Standard);

impl Write for RawStdout {
    #[track_caller]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match IS_EXITING.load(Ordering::Relaxed) {
            false => self.0.write(buf),
            true => write_here(self.0.fd(), buf),
        }
    }

    #[track_caller]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match IS_EXITING.load(Ordering::Relaxed) {
            false => self.0.write_vectored(bufs),
            true => bufs.first().map_or(Ok(0), |buf| write_here(self.0.fd(), buf)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Buffered = Reentrant<RefCell<LineWriter<RawStdout>>>;
type Unbuffered = Reentrant<RefCell<RawStdout>>;

static STDOUT: OnceLock<Buffered> = OnceLock::new();

fn shared_stdout() -> &'static Buffered {
    STDOUT.get_or_init(|| {
        flush_at_exit();
        Reentrant::new(RefCell::new(LineWriter::new(RawStdout(Standard::new(1)))))
    })
}

fn shared_stderr() -> &'static Unbuffered {
    static STDERR: OnceLock<Unbuffered> = OnceLock::new();
    STDERR.get_or_init(|| Reentrant::new(RefCell::new(RawStdout(Standard::new(2)))))
}

/// Makes sure that an unfinished line is written when the process exits, as std does for its own.
fn flush_at_exit() {
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> i32;
    }
    extern "C" fn flush() {
        IS_EXITING.store(true, Ordering::Relaxed);
        let Some(stdout) = STDOUT.get() else { return };
        stdout.at_exit(|writer| {
            if let Ok(mut writer) = writer.try_borrow_mut() {
                // No caller is left to which the error could be returned.
                let _ = writer.flush();
            }
        });
    }
    // SAFETY: the function is there as long as the program; it does not unwind.
    let refused = unsafe { atexit(flush) };
    if refused != 0 {
        // Logged later, because the stream is being made, and the program's logger may print to it.
        let line = "an unfinished line of the standard output will be lost at exit".to_owned();
        logging::later(logging::Level::Warn, module_path!(), line);
    }
}

/// Returns a handle to the standard output; twin of [`std::io::stdout`].
#[must_use]
pub fn stdout() -> Stdout {
    Stdout { shared: shared_stdout() }
}

/// Returns a handle to the standard error; twin of [`std::io::stderr`].
#[must_use]
pub fn stderr() -> Stderr {
    Stderr { shared: shared_stderr() }
}

/// A handle to the standard output, buffered by lines; twin of [`std::io::Stdout`].
///
/// All handles share one buffer, which is written out at the end of each line, by `flush`, and when
/// the process exits.
///
/// # Blocking
/// A write parks the strand, never the worker, while the output has no room, and while another
/// strand has it locked.
///
/// # Cancellation
/// A cancel point if it writes to the output; waiting for the lock is not one.
///
/// # Errors
/// As std's: writes to a closed descriptor succeed. Never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
///
/// # Examples
/// ```
/// use std::io::Write;
///
/// ramie::run(|| {
///     let mut stdout = ramie::io::stdout().lock();
///     writeln!(stdout, "nobody writes")?;
///     writeln!(stdout, "between these lines")
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Stdout {
    shared: &'static Buffered,
}

/// A handle to the standard error, not buffered; twin of [`std::io::Stderr`].
///
/// # Blocking
/// A write parks the strand while the output has no room, and while another strand has it locked.
///
/// # Cancellation
/// A cancel point if it writes to the output; waiting for the lock is not one.
///
/// # Errors
/// As std's: writes to a closed descriptor succeed. Never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
pub struct Stderr {
    shared: &'static Unbuffered,
}

/// A guard of the exclusive use of the standard output; twin of [`std::io::StdoutLock`]. A strand
/// that holds it may lock again.
///
/// # Panics
/// A write panics if another fiber, to which a second guard was lent, waits in a write.
pub struct StdoutLock<'a> {
    writer: ReentrantGuard<RefCell<LineWriter<RawStdout>>>,
    lifetime: PhantomData<&'a ()>,
}

/// A guard of the exclusive use of the standard error; twin of [`std::io::StderrLock`]. A strand
/// that holds it may lock again.
///
/// # Panics
/// As [`StdoutLock`].
pub struct StderrLock<'a> {
    writer: ReentrantGuard<RefCell<RawStdout>>,
    lifetime: PhantomData<&'a ()>,
}

/// Writes the rest of a line that has ended: a write that moves only part of a line leaves its end
/// in the buffer until the next call.
trait EndedLine {
    fn write_ended_line(&mut self) -> io::Result<()>;
}

impl EndedLine for LineWriter<RawStdout> {
    #[track_caller]
    fn write_ended_line(&mut self) -> io::Result<()> {
        self.write(&[]).map(drop)
    }
}

impl EndedLine for RawStdout {
    fn write_ended_line(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Panics if a call of another fiber has not returned: a fiber that holds two guards can lend one.
#[track_caller]
fn exclusive<W>(writer: &RefCell<W>) -> RefMut<'_, W> {
    writer.try_borrow_mut().unwrap_or_else(|_| {
        panic!(
            "a fiber that was lent a guard of a standard stream writes while another call of the \
             same guards waits; let each fiber lock the stream for itself"
        )
    })
}

/// The parts that both streams share.
macro_rules! standard_output {
    ($number:literal, $of_std:ident, $handle:ident, $lock:ident) => {
        impl $handle {
            /// Locks the stream until the guard is dropped.
            ///
            /// # Blocking
            /// Parks the strand while another holds the lock.
            ///
            /// # Cancellation
            /// Not a cancel point.
            #[track_caller]
            pub fn lock(&self) -> $lock<'static> {
                $lock { writer: self.shared.lock(), lifetime: PhantomData }
            }

            /// Takes the lock if no other strand holds it.
            pub(super) fn try_lock(&self) -> Option<$lock<'static>> {
                Some($lock { writer: self.shared.try_lock()?, lifetime: PhantomData })
            }
        }

        impl Write for &$handle {
            #[track_caller]
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.lock().write(buf)
            }

            #[track_caller]
            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                self.lock().write_vectored(bufs)
            }

            #[track_caller]
            fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
                self.lock().write_all(buf)
            }

            #[track_caller]
            fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> io::Result<()> {
                self.lock().write_fmt(arguments)
            }

            #[track_caller]
            fn flush(&mut self) -> io::Result<()> {
                self.lock().flush()
            }
        }

        write_by_reference!($handle);

        impl Write for $lock<'_> {
            #[track_caller]
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                exclusive(&self.writer).write(buf)
            }

            #[track_caller]
            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                exclusive(&self.writer).write_vectored(bufs)
            }

            #[track_caller]
            fn flush(&mut self) -> io::Result<()> {
                exclusive(&self.writer).flush()
            }

            #[track_caller]
            fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
                whole::write_all_by!(buf, |rest| self.write(rest))?;
                let ended = exclusive(&self.writer).write_ended_line();
                ended.map_err(|error| cancel::after(error, buf.len(), &[]))
            }
        }

        impl From<$handle> for Stdio {
            /// Gives a child process this stream's descriptor; an error is reported when the child
            /// is started.
            fn from(_: $handle) -> Stdio {
                Stdio::from(io::$of_std())
            }
        }

        // As std's: a panic leaves at most a line half written.
        impl UnwindSafe for $handle {}
        impl RefUnwindSafe for $handle {}
        impl UnwindSafe for $lock<'_> {}
        impl RefUnwindSafe for $lock<'_> {}

        standard_descriptor!($number, $handle, $lock<'_>);
    };
}

standard_output!(1, stdout, Stdout, StdoutLock);
standard_output!(2, stderr, Stderr, StderrLock);
