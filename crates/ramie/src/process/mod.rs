//! Twins of `std::process`: reading from and writing to a child process, and waiting for its end,
//! park the strand and never block the worker.
//!
//! [`Stdio`], [`ExitStatus`], [`Output`] and other types that cannot block are std's own; [`Stdio`]
//! can be made from this crate's files and pipes, too. The table shows where a fiber's call is
//! made:
//!
//! | call | where |
//! |---|---|
//! | `spawn`, and so `output` and `status` | the blocking pool, because the call blocks until the child has executed its program |
//! | reads and writes of a child's pipes | at once if possible, otherwise the driver waits for readiness |
//! | `wait` | the driver waits for a descriptor of the process (pidfd, Linux 5.3); otherwise the pool |
//! | `try_wait`, `kill`, `id` | at once |
//!
//! A difference from std: a thread of the pool starts the child. This matters only if the child
//! sets `PR_SET_PDEATHSIG`: the kernel then signals the child when that thread ends, and a thread
//! of the pool ends when it has been idle for a while.
//!
//! # Outside a fiber
//! std makes every call, on the calling thread.

mod child;
mod command;
mod pipes;
mod subreaper;
pub(crate) mod unix;

#[doc(no_inline)]
pub use std::process::{
    CommandArgs, CommandEnvs, ExitCode, ExitStatus, Output, Stdio, Termination, abort, exit, id,
};

pub use self::{
    child::Child,
    command::Command,
    pipes::{ChildStderr, ChildStdin, ChildStdout},
    subreaper::{is_subreaper, set_subreaper},
};
