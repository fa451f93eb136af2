//! Twins of `std::process`: children whose pipes and ends park the strand, never the worker.
//!
//! [`Stdio`], [`ExitStatus`], [`Output`] and the like are std's own; [`Stdio`] can be made from
//! this crate's files and pipes, too. A fiber's calls are made in these places:
//!
//! | call | where |
//! |---|---|
//! | `spawn`, and so `output` and `status` | the blocking pool: it waits until the child has executed its program |
//! | reads and writes of a child's pipes | at once if possible, otherwise the driver waits for readiness |
//! | `wait` | the driver waits for a descriptor of the process (pidfd, Linux 5.3); otherwise the pool |
//! | `try_wait`, `kill`, `id` | at once |
//!
//! A difference from std: a thread of the pool starts the child. That matters only to
//! `PR_SET_PDEATHSIG`, which refers to the parent thread, because a thread of the pool ends when it
//! has been idle.
//!
//! # Outside a fiber
//! Every call is made by std, on the calling thread.

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
