//! The handle that a process has to itself, and the conversion of its closure's result into its
//! exit code.

use std::{fmt, io::Write, mem, os::fd::OwnedFd, process};

use ramie_driver::sys;

/// The exit code of a process that panicked, as of any Rust program.
const PANICKED: u8 = 101;
/// The exit code of a closure that returned an error.
const FAILED: u8 = 1;

/// The process that runs a closure; passed to that closure.
#[derive(Debug)]
pub struct Member {
    pub(super) index: usize,
    pub(super) life: u64,
    pub(super) ready: OwnedFd,
}

impl Member {
    /// Returns the process's index, from 0 and less than the number of processes. Its successor has
    /// the same index.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns how many processes of this index came before this one.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Reports that the process is in service. On a restart by SIGHUP, the supervisor then asks the
    /// process before it to end; without a report, it does so a second after the start. May be
    /// called once, or not at all.
    pub fn ready(&self) {
        sys::eventfd_signal(&self.ready);
    }
}

/// A type that the closure of a process may return, with its exit code.
pub trait Ending {
    /// Returns the exit code; writes an error to stderr, if there is one.
    fn code(self) -> u8;
}

/// Exits with code 0.
impl Ending for () {
    fn code(self) -> u8 {
        0
    }
}

/// Exits with this code.
impl Ending for u8 {
    fn code(self) -> u8 {
        self
    }
}

/// Exits with code 1 on an error, and prints it as std does for `main`.
impl<T: Ending, E: fmt::Debug> Ending for Result<T, E> {
    fn code(self) -> u8 {
        match self {
            Ok(value) => value.code(),
            Err(error) => {
                // Written in one call, because other processes write to stderr, too.
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
