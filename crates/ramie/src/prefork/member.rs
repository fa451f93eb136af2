//! The handle that a process has to itself, and the conversion of its closure's result into its
//! exit code.

use std::{fmt, io::Write, mem, os::fd::OwnedFd, process};

use ramie_driver::sys::{
    self,
    supervise::{self, Pid},
};

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
    pub(super) supervisor: Pid,
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

    /// Lets the kernel kill this process when its supervisor dies, also after a change of the user
    /// or the group. The kernel does so from the start, but forgets it when a process changes its
    /// user or group, for example to give up the rights of root after it has opened a port.
    ///
    /// Call it after each such change, on the thread in which the closure runs, because it holds
    /// while the calling thread lives. If the supervisor is dead already, this process is killed at
    /// once. A program that replaces itself (by exec) under another user cannot call it; start it
    /// by `setpriv --pdeathsig KILL`.
    pub fn die_with_supervisor(&self) {
        if !supervise::die_with_parent(self.supervisor) {
            supervise::kill(supervise::own_id());
        }
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
