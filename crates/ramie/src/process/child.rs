//! The twin of `std::process::Child`.
#![allow(unsafe_code)]

use std::{
    fmt,
    io::{self, Read},
    os::fd::AsRawFd,
    process::{self, ExitStatus, Output},
};

use ramie_driver::{Op, sys};

use super::{ChildStderr, ChildStdin, ChildStdout};
use crate::{
    core::{cancel, wait::park::WaitKind},
    fiber,
    op::{
        self, blocking,
        route::{Route, route},
    },
};

static WAIT: WaitKind = WaitKind::of_op("a process to end");

/// A process started by this one; twin of [`std::process::Child`].
///
/// Dropping the handle neither ends the process nor waits for it.
pub struct Child {
    child: process::Child,
    /// The child's standard input, if it is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if it is a pipe.
    pub stderr: Option<ChildStderr>,
}

impl Child {
    /// Returns the id of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process (SIGKILL), unless its end was waited for already.
    ///
    /// # Errors
    /// Those of [`std::process::Child::kill`].
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Closes the standard input of the process and waits until the process has ended.
    ///
    /// # Blocking
    /// Parks the strand until the process has ended.
    ///
    /// # Cancellation
    /// A cancel point. If the call is cancelled, the process continues, and `wait` may be called
    /// again.
    ///
    /// # Errors
    /// Those of [`std::process::Child::wait`]. If this process ignores SIGCHLD (a setting that it
    /// may have inherited), the kernel keeps no status, so the error after the end of the child is
    /// `ECHILD`, as in std.
    #[track_caller]
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        cancel::check_io()?;
        drop(self.stdin.take());
        if is_stds() {
            return self.child.wait();
        }
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        // No call has waited for the process yet, so the kernel has not given its id to another
        // one.
        let Ok(process) = sys::pidfd_open(self.child.id()) else {
            let child = &mut self.child;
            return blocking(|| child.wait());
        };
        let op = Op::Poll { fd: process.as_raw_fd(), events: sys::POLL_IN };
        // SAFETY: the op points to nothing.
        unsafe { op::request(&WAIT, op).perform() }?;
        self.child.wait()
    }

    /// Returns the status if the process has ended.
    ///
    /// # Errors
    /// Those of [`std::process::Child::try_wait`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Closes the standard input of the process, collects its output, and waits until it has ended.
    /// Both output streams are read at the same time, so that neither pipe fills up.
    ///
    /// # Blocking
    /// Parks the strand until the process has ended.
    ///
    /// # Cancellation
    /// A cancel point. If the call is cancelled, the process is killed (SIGKILL) and waited for,
    /// because the call has consumed its handle, and the output read so far is dropped. To keep the
    /// output, read the streams yourself and then call [`wait`](Self::wait).
    ///
    /// # Errors
    /// Those of [`std::process::Child::wait_with_output`].
    #[track_caller]
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        if is_stds() {
            return self.into_std().wait_with_output();
        }
        self.collect().inspect_err(|error| self.end_if_cancelled(error))
    }

    #[track_caller]
    fn collect(&mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = match (self.stdout.take(), self.stderr.take()) {
            (Some(stdout), Some(stderr)) => {
                let (stdout, stderr) = fiber::scope(|s| {
                    let stderr = s.spawn(|| read_all(Some(stderr)));
                    (read_all(Some(stdout)), stderr.join_or_raise())
                });
                (stdout?, stderr?)
            }
            (stdout, stderr) => (read_all(stdout)?, read_all(stderr)?),
        };
        Ok(Output { status: self.wait()?, stdout, stderr })
    }

    /// If the error is a cancellation, kills the process and waits for it, because its handle is
    /// dropped.
    #[track_caller]
    pub(super) fn end_if_cancelled(&mut self, error: &io::Error) {
        if cancel::is_cancelled(error) {
            // The two calls fail only if the process was waited for already, or if a driver is out
            // of memory.
            let _ = self.kill();
            let _ = cancel::shield(|| {
                self.wait().or_else(|_| {
                    let child = &mut self.child;
                    blocking(|| child.wait())
                })
            });
        }
    }

    fn into_std(mut self) -> process::Child {
        self.child.stdin = self.stdin.take().map(Into::into);
        self.child.stdout = self.stdout.take().map(Into::into);
        self.child.stderr = self.stderr.take().map(Into::into);
        self.child
    }
}

/// Whether std makes the call: on a thread that may block and that cannot be cancelled.
#[track_caller]
fn is_stds() -> bool {
    route() == Route::Here && (std::thread::panicking() || !cancel::may_be_cancelled())
}

fn read_all(stream: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

impl From<process::Child> for Child {
    fn from(mut child: process::Child) -> Self {
        Child {
            stdin: child.stdin.take().map(Into::into),
            stdout: child.stdout.take().map(Into::into),
            stderr: child.stderr.take().map(Into::into),
            child,
        }
    }
}

impl From<Child> for process::Child {
    fn from(child: Child) -> Self {
        child.into_std()
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("id", &self.id())
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .field("stderr", &self.stderr)
            .finish_non_exhaustive()
    }
}
