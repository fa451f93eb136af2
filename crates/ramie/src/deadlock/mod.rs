//! Deadlocks: strands that wait for one another are reported, and so is a process none of whose
//! strands can go on.
//!
//! The thread of the watchdog ([`stall`](crate::stall)) asks the workers now and then for the
//! strands that wait for others, by the [surveys](crate::core::worker) that dumps use.
//!
//! - [`schedule`]: when the next survey is due;
//! - [`graph`]: the strands that need one another, and their cycles;
//! - [`search`]: surveys, comparisons, findings;
//! - [`standstill`]: whether nothing can wake any strand of the process;
//! - [`holders`]: who may hold the other end of a channel;
//! - [`report`]: the report and its text.
//!
//! # Protocol
//! A survey is no picture of one moment: each worker answers when it can. So a finding counts once
//! [`AGREEING`](search::AGREEING) surveys in a row agree on it.
//!
//! | a finding is | changed by |
//! |---|---|
//! | unknown | a survey that contains it: suspected |
//! | suspected | a survey that does not contain it: unknown; the third survey in a row that does: reported |
//! | reported | - (it is never reported again: its key has the ids of the strands and the numbers of their waits) |
//!
//! *A cycle*: each strand waits for the next one to unlock, or to end. The key of a cycle has the
//! number of each strand's wait, which grows with each wait. So if two surveys agree, each of these
//! strands was in the same wait for all the time in between. A strand that waits neither unlocks
//! nor ends.
//!
//! *The race to fear* is a lock that is handed over while the survey is on its way: its next owner
//! is then awake, or in another wait, when the next survey looks.
//!
//! *A standstill*: each strand of the process waits for another strand, and the process has no
//! thread that could act. The workers count their strands and the strands' waits; equal counts in
//! three surveys, without an op, a timer or a runnable strand in any of them, are the key.
//!
//! Neither depends on time, so it makes no difference if the process was stopped, or if the machine
//! has too few CPUs.
//!
//! # What is not reported
//! - A wait with a limit, and a wait that a cancel scope around it can end. (A cancel scope cannot
//!   end `Mutex::lock`, a join or the end of a scope.)
//! - A cycle through a lock whose owner is not known: a `RwLock` that readers hold, a `Once`. It
//!   may be part of a standstill.
//! - A standstill while the process has a thread of its own that runs outside of Ramie's calls,
//!   because that thread may have a sender, a waker or a handle.
//! - Strands in a runtime whose strands are threads, unless they are in a cycle with fibers of
//!   another runtime.
//!
//! # Limits
//! The owner of a lock is the strand that has locked it. If a fiber gives its guard to another
//! fiber of its worker, and then waits for a strand that waits for the lock, that counts as a
//! cycle, although the other fiber may unlock.
//!
//! # Costs
//! A survey visits the stack of each fiber. The next one is due a second later, or after a thousand
//! times the time that the last one took, so surveys take at most 0.1 % of a CPU. An idle process
//! is not surveyed again: the workers count the rounds in which they run fibers, and equal counts
//! mean equal answers. If a strand waits for a thread, the survey is repeated ten times, at growing
//! intervals.

mod graph;
mod holders;
mod report;
mod schedule;
mod search;
mod standstill;

pub use report::Deadlock;
pub(crate) use schedule::Activity;
pub(crate) use search::DeadlockSearch;
