//! One task makes a call that suspends it: in a loop, at the bottom of a recursion, or at each
//! level of one.
//!
//! A fiber and a coroutine recurse as any function does and can suspend at any depth.
//! [`crate::futures`] has the same tasks as futures.

use std::{hint::black_box, time::Duration};

use clap::{Args, ValueEnum};

use crate::{
    Cost, WorkloadError,
    count::count,
    strands::{StrandKind, join_all, spawn_all},
    usage::Stopwatch,
};

/// One task makes a blocking call Y times in each of 15,000 rounds: the cost of the call
///
/// One op is one call. The task counts its calls, which must be 15,000 times Y in the end. It runs
/// on a fiber, as a coroutine or as a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Basic {
    /// Number of calls in each of the 15,000 rounds
    #[arg(long, value_name = "Y", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub yields: u32,
    /// The call
    #[arg(long, value_enum, default_value_t = TaskCall::Medium, value_name = "WHICH")]
    pub call: TaskCall,
}

/// One task recurses D deep 15,000 times and yields at the bottom: the cost of a deep stack
///
/// The recursion sums the numbers up to D. One op is one recursion, down and up again. Futures
/// recurse with a box for each level. All sums must be right in the end. The task runs on a fiber,
/// as a coroutine or as futures. A fiber and a coroutine get the stack that D needs, unless
/// RAMIE_STACK sets its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Recurse {
    /// Depth of the recursion
    #[arg(long, value_name = "D", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub depth: u32,
}

/// One task recurses D deep 1,500 times and yields at every level: the cost of a yield at a depth
///
/// The recursion sums the numbers up to D. One op is one level. Futures recurse with a box for each
/// level, and every poll goes through the boxes of all levels above. All sums must be right in the
/// end. The task runs on a fiber, as a coroutine or as futures. A fiber and a coroutine get the
/// stack that D needs, unless RAMIE_STACK sets its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Recurse2 {
    /// Depth of the recursion
    #[arg(long, value_name = "D", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub depth: u32,
}

/// The call that the task makes in a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum TaskCall {
    /// A call that could block but returns at once
    Quick,
    /// A yield: through the scheduler, or back to the loop that resumes the coroutine
    Medium,
    /// A sleep of a microsecond, which registers a timer (fibers only, because a coroutine has no
    /// timers, and those of tokio count milliseconds)
    Slow,
}

impl TaskCall {
    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            TaskCall::Quick => "quick",
            TaskCall::Medium => "medium",
            TaskCall::Slow => "slow",
        }
    }
}

/// The number of rounds, each with Y calls or one recursion.
const ROUNDS: u64 = 15_000;
/// The number of recursions that yield at every level.
const ROUNDS_OF_ALL_LEVELS: u64 = 1_500;
/// The sleep of the slow call: short, but long enough to be in the future when the timer is set.
const SLOW_SLEEP: Duration = Duration::from_micros(1);

/// A task and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// This many calls.
    Basic(u64, TaskCall),
    /// A recursion of this depth.
    Recurse(u64),
    /// A recursion of this depth that yields at every level.
    Recurse2(u64),
}

impl Basic {
    /// The task that it asks for.
    pub fn task(&self) -> Task {
        Task::Basic(ROUNDS * u64::from(self.yields), self.call)
    }
}

impl Recurse {
    /// The task that it asks for.
    pub fn task(&self) -> Task {
        Task::Recurse(self.depth.into())
    }
}

impl Recurse2 {
    /// The task that it asks for.
    pub fn task(&self) -> Task {
        Task::Recurse2(self.depth.into())
    }
}

impl Task {
    /// The number of operations in one repetition.
    pub fn ops(self) -> u64 {
        match self {
            Task::Basic(calls, _) => calls,
            Task::Recurse(_) => ROUNDS,
            Task::Recurse2(depth) => ROUNDS_OF_ALL_LEVELS * depth,
        }
    }

    /// The number of recursions.
    pub(crate) fn rounds(self) -> u64 {
        if let Task::Recurse2(_) = self { ROUNDS_OF_ALL_LEVELS } else { ROUNDS }
    }

    /// Runs the task with plain calls on an engine that can suspend inside them; returns its sum.
    #[inline]
    pub fn sum(self, yield_now: impl Fn()) -> u64 {
        let rounds = self.rounds();
        match self {
            Task::Basic(calls, TaskCall::Quick) => called(calls, || _ = black_box(calls)),
            Task::Basic(calls, TaskCall::Medium) => called(calls, yield_now),
            Task::Basic(calls, TaskCall::Slow) => called(calls, || ramie::fiber::sleep(SLOW_SLEEP)),
            Task::Recurse(depth) => (0..rounds).map(|_| recurse(depth, &yield_now)).sum(),
            Task::Recurse2(depth) => (0..rounds).map(|_| recurse2(depth, &yield_now)).sum(),
        }
    }

    /// Fails if the sum is wrong.
    pub fn check(self, sum: u64) -> Result<(), WorkloadError> {
        let right = match self {
            Task::Basic(calls, _) => calls,
            Task::Recurse(depth) | Task::Recurse2(depth) => self.rounds() * depth * (depth + 1) / 2,
        };
        if sum == right {
            return Ok(());
        }
        Err(WorkloadError::wrong(format!("the task went wrong: its sum is {sum}, not {right}")))
    }

    /// Runs the workload on strands and checks its result.
    pub fn cost<S: StrandKind>(self) -> Result<Cost, WorkloadError> {
        let watch = Stopwatch::start();
        let strands = spawn_all::<S, _, _>(1, |_| move || self.sum(S::yield_now))
            .map_err(|failure| failure.give_up())?;
        let mut sum = 0;
        join_all::<S, u64>(strands, |found| sum += found)?;
        let cost = watch.stop();
        self.check(sum).map(|()| cost)
    }
}

#[inline]
fn called(calls: u64, call: impl Fn()) -> u64 {
    let mut sum = 0;
    for _ in 0..calls {
        call();
        sum += 1;
    }
    sum
}

/// The sum of the numbers up to `depth`, one call per number. `black_box` keeps the optimizer from
/// turning the recursion into a loop.
#[inline(never)]
fn recurse(depth: u64, at_the_bottom: &impl Fn()) -> u64 {
    if depth == 0 {
        at_the_bottom();
        return 0;
    }
    let rest = recurse(depth - 1, at_the_bottom);
    black_box(());
    rest + depth
}

#[inline(never)]
fn recurse2(depth: u64, at_every_level: &impl Fn()) -> u64 {
    at_every_level();
    if depth == 0 {
        return 0;
    }
    let rest = recurse2(depth - 1, at_every_level);
    black_box(());
    rest + depth
}
