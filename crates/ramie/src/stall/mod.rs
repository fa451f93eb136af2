//! Stalls: a watchdog reports each fiber that keeps its worker for too long.
//!
//! While a fiber computes, or blocks its thread in a system call or on a lock of std, no other
//! fiber of its worker can run. So a runtime has a thread of its own, the watchdog, that looks at
//! the workers several times in each [limit](crate::Builder::stall_limit).
//!
//! - [`watchdog`]: the thread, its looks and its rest, its reports;
//! - [`suspicion`]: decides from looks whether there is a stall;
//! - [`examine`]: finds the fiber and the cause;
//! - [`thread_state`], [`calls`]: what a thread does, as /proc describes it;
//! - [`interrupted`]: the frames of a thread that computes;
//! - [`limit`](mod@limit), [`reaction`]: the options;
//! - [`report`]: the report and its text; [`places`]: a limit on the number of reports;
//! - `core/worker/watched.rs`: the words of a worker that the watchdog compares;
//!   `core/worker/view.rs`: what it may find out about the worker's fibers.
//!
//! # What does not count
//! - Time in which a worker's thread waits for a CPU. The kernel counts it (`schedstat`).
//! - Time in which the process is stopped, the machine suspended, or the watchdog itself has no
//!   CPU. A look that comes late forgets what the looks before have found.
//! - A fiber that is the only strand of its runtime: it keeps nobody waiting.
//! - Threads: strands that are threads, and the fibers of `spawn_local` on threads outside `run`.
//!
//! # No signals
//! The watchdog sends no signals, and installs no handler. A signal would interrupt the system call
//! in which a fiber blocks its thread. Many calls, such as `poll` and `nanosleep`, then fail with
//! `EINTR` even if the handler asks for a restart, and C libraries may not expect that. So the
//! watchdog reads /proc, and lets the kernel copy the data of the fibers.
//!
//! There is one exception, in builds with the feature `backtrace`: a thread that computes, whose
//! registers the kernel does not tell, gets a signal ([`interrupted`]).
//!
//! # Costs
//! A switch has two instructions more, and touches no more memory: the count of switches, which it
//! decrements anyway, is atomic now. While a worker is awake, the watchdog looks four times in each
//! limit, which takes it some microseconds. While all workers sleep, it sleeps without a timeout;
//! the first worker that wakes up wakes it, at most once between two looks. The watchdog also
//! searches for deadlocks, and finishes that before it sleeps ([`deadlock`](crate::deadlock)).

mod calls;
mod examine;
mod interrupted;
mod limit;
mod places;
mod reaction;
mod report;
mod suspicion;
mod thread_state;
mod watchdog;

pub(crate) use limit::limit;
pub use reaction::Reaction;
pub use report::{LockHolders, Stall, StallCause};
pub(crate) use watchdog::{Settings, Watchdog, WatchedLoop, Watching};
