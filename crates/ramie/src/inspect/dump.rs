//! The value of a dump: workers, strands, waits.

use std::{fmt, panic::Location, time::Duration};

#[cfg(feature = "serde")]
use serde::Serialize;

use super::Backtrace;
use crate::fiber::FiberId;

/// All strands of a process, described by their workers; made by [`dump`](super::dump()).
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Dump {
    /// The workers: first those of runtimes, then threads that are strands.
    pub workers: Vec<WorkerDump>,
    /// The strands, by their workers, and last those that have not started.
    pub strands: Vec<StrandDump>,
    /// The number of suspended fibers without a backtrace, because the stacks of others have filled
    /// the 64 MiB that a dump may copy.
    pub backtraces_left_out: u64,
    /// The number of strands that were left out, because neither their names nor those of their
    /// descendants contain the text of [`DumpOptions::name`](super::DumpOptions::name).
    pub left_out: u64,
    /// The names of strands that hold locks or are joined, and that are not in the dump.
    pub awaited: Vec<StrandName>,
    /// How long the dump took.
    #[cfg_attr(feature = "serde", serde(rename = "took_ms", serialize_with = "ms"))]
    pub took: Duration,
}

/// A worker of a runtime, or the small worker of a thread that is a strand.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct WorkerDump {
    /// The index of the worker in its runtime; none for a thread outside of one.
    pub index: Option<usize>,
    /// The name of its thread.
    pub thread_name: Option<String>,
    /// The id of its thread, as `/proc` has it.
    pub thread_id: i32,
    /// The number of fibers that have started here and not ended.
    pub fibers: usize,
    /// Whether the worker has described its strands.
    pub status: WorkerStatus,
}

/// Whether a worker has described its strands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WorkerStatus {
    /// It has described all of them.
    Complete,
    /// Its thread runs code of the program outside the worker's loop, so its fibers cannot run, and
    /// are not described.
    OutsideLoop,
    /// It runs one fiber that has not suspended until the time limit of the dump.
    Silent,
}

/// A strand: a fiber, or a thread.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct StrandDump {
    /// The id of the strand.
    pub id: FiberId,
    /// The name that its builder was given, or the name of the thread; none before the strand has
    /// started.
    pub name: Option<String>,
    /// What the strand does.
    pub state: StrandState,
    /// The place of its worker in [`Dump::workers`]; none before the strand has started.
    pub worker: Option<usize>,
    /// The number of times that the strand has begun to wait, modulo 2^24. A fiber's wait for its
    /// own op, without a limit or a scope around it, is not counted.
    pub waits: u32,
    /// The time since the fiber started.
    #[cfg_attr(feature = "serde", serde(rename = "age_ms", serialize_with = "maybe_ms"))]
    pub age: Option<Duration>,
    /// The strand that opened the scope in which this strand was spawned.
    pub parent: Option<FiberId>,
    /// The call that spawned the strand.
    pub spawned_at: Option<SourceLocation>,
    /// The closure of the strand, as the compiler names it.
    pub closure: Option<&'static str>,
    /// The wait of a strand that waits.
    pub wait: Option<WaitDump>,
    /// The limits and scopes around the strand.
    pub cancel: Option<CancelDump>,
    /// The stack of a fiber that has started.
    pub stack: Option<StackDump>,
    /// The calls of a fiber that is suspended, if they were asked for
    /// ([`DumpOptions::backtraces`](super::DumpOptions::backtraces)).
    pub backtrace: Option<Backtrace>,
}

/// A strand that has a name.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct StrandName {
    /// The id of the strand.
    pub id: FiberId,
    /// Its name, of which 256 bytes at most are given.
    pub name: String,
}

/// What a strand does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum StrandState {
    /// It was spawned, and waits for its first turn.
    NotStarted,
    /// It runs, or a thread of the program runs its code outside of calls of this crate.
    Running,
    /// It waits for its turn.
    Runnable,
    /// It waits for an event: see [`StrandDump::wait`].
    Waiting,
}

/// A wait of a strand.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct WaitDump {
    /// The purpose, such as "a Mutex" or "data from a socket".
    pub purpose: &'static str,
    /// The object of the wait.
    pub target: WaitTarget,
    /// The call that waits.
    pub location: SourceLocation,
    /// How long the strand has waited, by a coarse clock (see the [module](super)).
    #[cfg_attr(feature = "serde", serde(rename = "since_ms", serialize_with = "ms"))]
    pub since: Duration,
    /// The time left until the wait ends by its deadline or by a limit around it.
    #[cfg_attr(feature = "serde", serde(rename = "left_ms", serialize_with = "maybe_ms"))]
    pub left: Option<Duration>,
}

/// The object of a wait. An address names an object: two strands that wait for the same lock have
/// the same address.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize), serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WaitTarget {
    /// Nothing that a dump could name: time, an unpark, a job on the blocking pool, a future.
    None,
    /// A descriptor.
    #[non_exhaustive]
    Descriptor {
        /// Its number.
        fd: i32,
        /// The position in the file, of a read or write at a position.
        offset: Option<u64>,
        /// The peer of the socket or the path of the file; none before
        /// [`Dump::name_descriptors`] has looked it up.
        name: Option<String>,
    },
    /// A lock that one strand holds at a time.
    #[non_exhaustive]
    Mutex {
        /// The address of the lock.
        address: usize,
        /// The strand that held the lock when its waiter was described.
        owner: Option<FiberId>,
    },
    /// A lock for readers and writers.
    #[non_exhaustive]
    RwLock {
        /// The address of the lock.
        address: usize,
        /// The strand that held the lock to write.
        writer: Option<FiberId>,
        /// The number of guards that held the lock to read.
        readers: u64,
    },
    /// A channel.
    #[non_exhaustive]
    Channel {
        /// The address of the channel.
        address: usize,
    },
    /// One of several channels.
    #[non_exhaustive]
    Select {
        /// The number of its arms.
        arms: usize,
    },
    /// Another primitive.
    #[non_exhaustive]
    Object {
        /// The address of the primitive.
        address: usize,
    },
    /// The end of a strand.
    #[non_exhaustive]
    Strand {
        /// The strand.
        id: FiberId,
    },
    /// The ends of the strands of a scope.
    #[non_exhaustive]
    Scope {
        /// The address of the scope.
        address: usize,
    },
}

/// The limits and scopes around a strand.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct CancelDump {
    /// The time left until the earliest limit.
    #[cfg_attr(feature = "serde", serde(rename = "left_ms", serialize_with = "maybe_ms"))]
    pub left: Option<Duration>,
    /// The address of the innermost scope that can be cancelled. The strands of a scope have the
    /// same.
    pub scope: Option<usize>,
    /// The reason, if the strand is cancelled.
    pub cancelled: Option<String>,
}

/// The stack of a fiber.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct StackDump {
    /// The usable bytes.
    pub size: usize,
    /// The address of its base, from which it grows down.
    pub base: usize,
}

/// A place in the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct SourceLocation {
    /// The path of the file, as the compiler was given it.
    pub file: &'static str,
    /// The line, from 1 on.
    pub line: u32,
    /// The column, from 1 on.
    pub column: u32,
}

impl From<&'static Location<'static>> for SourceLocation {
    fn from(location: &'static Location<'static>) -> Self {
        SourceLocation { file: location.file(), line: location.line(), column: location.column() }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl StackDump {
    /// Returns how many bytes the stack was used, in whole pages. Asks the kernel; the pages that
    /// an earlier fiber on this stack has used count, too.
    #[must_use]
    pub fn high_water_mark(&self) -> usize {
        let inside = self.base.saturating_sub(1);
        ramie_coro::stack_of(inside).map_or(0, |stack| stack.high_water_mark())
    }
}

impl WaitTarget {
    /// Returns the strand that has to act first: the owner of a lock, or the strand that is joined.
    #[must_use]
    pub fn strand(&self) -> Option<FiberId> {
        match *self {
            WaitTarget::Mutex { owner, .. } => owner,
            WaitTarget::RwLock { writer, .. } => writer,
            WaitTarget::Strand { id } => Some(id),
            _ => None,
        }
    }
}

/// A string, because JSON's numbers have 53 bits.
#[cfg(feature = "serde")]
impl serde::Serialize for FiberId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
pub(super) fn ms<S: serde::Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_millis() as u64)
}

#[cfg(feature = "serde")]
fn maybe_ms<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_millis() as u64).serialize(serializer)
}
