//! Methods of a command on Unix: the twin of `std::os::unix::process::CommandExt`.
#![allow(unsafe_code)]

use std::{ffi::OsStr, io, os::unix::process};

use super::Command;

/// Methods of a [`Command`] on Unix; twin of [`std::os::unix::process::CommandExt`]. Both traits
/// are sealed.
pub trait CommandExt: Sealed {
    /// Sets the user that the child runs as.
    fn uid(&mut self, id: u32) -> &mut Command;

    /// Sets the group that the child runs as.
    fn gid(&mut self, id: u32) -> &mut Command;

    /// Sets a closure that the child calls before it executes its program.
    ///
    /// # Safety
    /// As for [`std::os::unix::process::CommandExt::pre_exec`]: the child is a fork with one
    /// thread, and the closure may make only calls that are safe after a fork. No call of Ramie is.
    unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static;

    /// The old name of [`pre_exec`](Self::pre_exec).
    ///
    /// # Safety
    /// As [`pre_exec`](Self::pre_exec).
    #[deprecated(note = "use pre_exec")]
    unsafe fn before_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller's promise is the same.
        unsafe { self.pre_exec(f) }
    }

    /// Executes the program in place of this process; returns only if that failed.
    fn exec(&mut self) -> io::Error;

    /// Sets the first argument (`argv[0]`), by default the name of the program.
    fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command;

    /// Sets the process group of the child; 0 means a new group.
    fn process_group(&mut self, pgroup: i32) -> &mut Command;
}

// Same name as `io::Sealed`: the usual name of a private supertrait.
/// Prevents other crates from implementing the trait, so that it may grow.
pub trait Sealed {}

impl Sealed for Command {}

impl CommandExt for Command {
    fn uid(&mut self, id: u32) -> &mut Command {
        process::CommandExt::uid(&mut self.command, id);
        self
    }

    fn gid(&mut self, id: u32) -> &mut Command {
        process::CommandExt::gid(&mut self.command, id);
        self
    }

    unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller's promise is the same.
        unsafe { process::CommandExt::pre_exec(&mut self.command, f) };
        self
    }

    fn exec(&mut self) -> io::Error {
        process::CommandExt::exec(&mut self.command)
    }

    fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        process::CommandExt::arg0(&mut self.command, arg);
        self
    }

    fn process_group(&mut self, pgroup: i32) -> &mut Command {
        process::CommandExt::process_group(&mut self.command, pgroup);
        self
    }
}
