//! Twins of the items of `std::io` that wait. Everything else is std's own, so `use ramie::io` can
//! replace `use std::io`.
//!
//! - [`pipe`], [`stdin`], [`stdout`], [`stderr`] park the strand, never the worker. They do not
//!   change the open file description, because other processes share it.
//! - A [`Lease`] holds received bytes in a buffer of the runtime; `recv_each` of streams returns
//!   them.
//! - [`copy`] moves bytes between files, sockets and pipes in the kernel where it can.
//! - [`Async`] waits for any descriptor that can be polled: an eventfd, inotify, a C library's
//!   socket.
//! - [`wait_any`] waits for several descriptors at once.
//! - [`LineReader`] returns lines and frames as views into its buffer, with a limit.
//!
//! A difference from std: this crate's `Stdout` and std's have separate buffers, so the text is
//! mixed up if a program writes to both within a line.

mod async_fd;
mod copy;
mod line_reader;
mod pipe;
mod print;
mod reentrant;
mod standard;
mod stdin;
mod stdout;
mod terminal;
mod wait_any;

#[doc(no_inline)]
pub use std::io::*;

#[doc(hidden)]
pub use self::print::{_eprint, _print};
pub use ramie_driver::{Lease, sys::PollFlags};

pub use self::{
    async_fd::{Async, ReadyEach},
    copy::copy,
    line_reader::LineReader,
    pipe::{PipeReader, PipeWriter, pipe},
    stdin::{Stdin, StdinLock, stdin},
    stdout::{Stderr, StderrLock, Stdout, StdoutLock, stderr, stdout},
    terminal::IsTerminal,
    wait_any::{Polled, wait_any},
};
