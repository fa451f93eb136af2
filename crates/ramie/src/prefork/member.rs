//! A process's view of itself, and the conversion of its closure's result into its exit code.

use std::{fmt, io::Write, mem, os::fd::OwnedFd, process};

use ramie_driver::sys;

/// The exit code of a process that panicked, as of a Rust program.
const PANICKED: u8 = 101;
/// The exit code of a closure that returned an error.
const FAILED: u8 = 1;

/// One of the processes, as its closure sees it.
#[derive(Debug)]
pub struct Member {
    pub(super) index: usize,
    pub(super) life: u64,
    pub(super) ready: OwnedFd,
}

impl Member {
    /// Returns its index: 0 to the number of processes - 1. The process that takes its place has
    /// the same.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns how many processes of this index there were before.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Reports that the process is in service. On a restart by SIGHUP the one before it is asked to
    /// end then; else a second after the start. May be called once, or not at all.
    pub fn ready(&self) {
        sys::eventfd_signal(&self.ready);
    }
}

/// A type that the closure of a process may return, with its exit code.
pub trait Ending {
    /// Returns the exit code; writes an error to stderr, if there is one.
    fn code(self) -> u8;
}

/// 0.
impl Ending for () {
    fn code(self) -> u8 {
        0
    }
}

/// The code itself.
impl Ending for u8 {
    fn code(self) -> u8 {
        self
    }
}

/// An error is printed, as by std for `main`, and is 1.
impl<T: Ending, E: fmt::Debug> Ending for Result<T, E> {
    fn code(self) -> u8 {
        match self {
            Ok(value) => value.code(),
            Err(error) => {
                // In one piece: others write to stderr, too.
                let text = format!("Error: {error:?}\n");
                eprint!("{text}");
                FAILED
            }
        }
    }
}

/// Runs the closure and ends the process. The panic of a closure was reported on stderr.
pub(super) fn live(f: &mut dyn FnMut(&Member) -> u8, member: &Member) -> ! {
    let code = crate::core::panic::catch(|| f(member)).unwrap_or_else(|payload| {
        // A panic of the payload's destructor would run the supervisor's code in this process.
        mem::forget(payload);
        PANICKED
    });
    let _ = std::io::stdout().flush();
    process::exit(code.into())
}
