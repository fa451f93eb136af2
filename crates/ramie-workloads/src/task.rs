//! One task makes a call that suspends it: in a loop, at the bottom of a recursion, or at each
//! level of one.
//!
//! Fibers, OS threads and coroutines recurse as any function does and can suspend at any depth.
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
/// on a fiber (of several workers on a hybrid), on an OS thread, as a coroutine or as a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Basic {
    /// Number of calls in each round
    #[arg(long, value_name = "Y", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub yields: u32,
    /// How the task waits.
    #[command(flatten)]
    pub wait: TaskWait,
}

/// One task recurses D deep 15,000 times and waits at the bottom: the cost of a deep stack
///
/// The recursion sums the numbers up to D. One op is one recursion, down and up again. Futures
/// recurse with a box for each level. All sums must be right in the end. The task runs on a fiber
/// (of several workers on a hybrid), on an OS thread, as a coroutine or as futures. A fiber, a
/// thread and a coroutine get the stack that D needs; RAMIE_STACK sets the size of the stack of a
/// fiber and of a coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Recurse {
    /// Depth of the recursion
    #[arg(long, value_name = "D", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub depth: u32,
    /// How the task waits.
    #[command(flatten)]
    pub wait: TaskWait,
}

/// One task recurses D deep 1,500 times and waits at every level: the cost of a wait at a depth
///
/// The recursion sums the numbers up to D. One op is one level. Futures recurse with a box for each
/// level, and every poll goes through the boxes of all levels above. All sums must be right in the
/// end. The task runs on a fiber (of several workers on a hybrid), on an OS thread, as a coroutine
/// or as futures. A fiber, a thread and a coroutine get the stack that D needs; RAMIE_STACK sets
/// the size of the stack of a fiber and of a coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Recurse2 {
    /// Depth of the recursion
    #[arg(long, value_name = "D", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub depth: u32,
    /// How the task waits.
    #[command(flatten)]
    pub wait: TaskWait,
}

/// How a task waits, and how often it begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct TaskWait {
    /// The call by which the task waits
    #[arg(long, value_enum, default_value_t = TaskCall::Medium, value_name = "WHICH")]
    pub call: TaskCall,
    /// Number of rounds, at most 100,000 [default: 15000; of recurse2 1500]
    #[arg(long, value_name = "R", value_parser = rounds, allow_negative_numbers = true)]
    pub rounds: Option<u32>,
}

impl TaskWait {
    /// By this call, in the ordinary number of rounds.
    pub const fn by(call: TaskCall) -> Self {
        TaskWait { call, rounds: None }
    }
}

/// The largest number of rounds. With more, the sum might not fit into 64 bits.
const MOST_ROUNDS: u32 = 100_000;

fn rounds(text: &str) -> Result<u32, String> {
    match count(text)? {
        rounds @ ..=MOST_ROUNDS => Ok(rounds),
        _ => Err(format!("too large, at most {MOST_ROUNDS}")),
    }
}

/// The call by which the task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum TaskCall {
    /// A call that could block but returns at once
    Quick,
    /// A yield: through the scheduler of fibers, of futures or of the kernel, or back to the loop
    /// that resumes the coroutine
    Medium,
    /// A sleep of a microsecond, which registers a timer: not on coroutines, which have no timers.
    /// On a thread it takes 50 us or more, the timer slack of Linux; as futures 1 ms or more,
    /// because the timers of tokio count milliseconds
    Slow,
}

impl TaskCall {
    /// The sleep of the slow call: short, but long enough to be in the future when the timer is
    /// set.
    pub const SLEEP: Duration = Duration::from_micros(1);

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
const ROUNDS: u32 = 15_000;
/// The number of recursions that wait at every level.
const ROUNDS_OF_ALL_LEVELS: u32 = 1_500;

/// A task and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// What a round does.
    pub round: Round,
    /// The number of rounds.
    pub rounds: u32,
    /// The call by which it waits.
    pub call: TaskCall,
}

/// What a task does in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// This many calls.
    Basic(u32),
    /// A recursion of this depth.
    Recurse(u32),
    /// A recursion of this depth that waits at every level.
    Recurse2(u32),
}

impl Basic {
    /// The task that it asks for.
    pub fn task(&self) -> Task {
        Task::new(Round::Basic(self.yields), self.wait)
    }
}

impl Recurse {
    /// The task that it asks for.
    pub fn task(&self) -> Task {
        Task::new(Round::Recurse(self.depth), self.wait)
    }
}

impl Recurse2 {
    /// The task that it asks for.
    pub fn task(&self) -> Task {
        Task::new(Round::Recurse2(self.depth), self.wait)
    }
}

impl Task {
    fn new(round: Round, wait: TaskWait) -> Self {
        let ordinary = match round {
            Round::Basic(_) | Round::Recurse(_) => ROUNDS,
            Round::Recurse2(_) => ROUNDS_OF_ALL_LEVELS,
        };
        Task { round, rounds: wait.rounds.unwrap_or(ordinary), call: wait.call }
    }

    /// The number of operations in one repetition.
    pub fn ops(self) -> u64 {
        let rounds = u64::from(self.rounds);
        match self.round {
            Round::Basic(count) | Round::Recurse2(count) => rounds * u64::from(count),
            Round::Recurse(_) => rounds,
        }
    }

    /// The depth of the recursion, if there is one.
    pub fn depth(self) -> Option<u64> {
        match self.round {
            Round::Basic(_) => None,
            Round::Recurse(depth) | Round::Recurse2(depth) => Some(depth.into()),
        }
    }

    /// Runs the task with plain calls on an engine that can suspend inside them; returns its sum.
    #[inline]
    pub fn sum(self, yield_now: impl Fn()) -> u64 {
        self.sum_with(yield_now, ramie::fiber::sleep)
    }

    /// Runs the task on the calling strand; returns its sum.
    #[inline]
    pub fn sum_on<S: StrandKind>(self) -> u64 {
        self.sum_with(S::yield_now, S::sleep)
    }

    #[inline]
    fn sum_with(self, yield_now: impl Fn(), sleep: impl Fn(Duration)) -> u64 {
        match self.call {
            TaskCall::Quick => self.sum_by(|| _ = black_box(self.rounds)),
            TaskCall::Medium => self.sum_by(yield_now),
            TaskCall::Slow => self.sum_by(|| sleep(TaskCall::SLEEP)),
        }
    }

    #[inline]
    fn sum_by(self, call: impl Fn()) -> u64 {
        let rounds = 0..self.rounds;
        match self.round {
            Round::Basic(_) => called(self.ops(), call),
            Round::Recurse(depth) => rounds.map(|_| recurse(depth.into(), &call)).sum(),
            Round::Recurse2(depth) => rounds.map(|_| recurse2(depth.into(), &call)).sum(),
        }
    }

    /// Fails if the sum is wrong.
    pub fn check(self, sum: u64) -> Result<(), WorkloadError> {
        let of_depth = |depth| u64::from(self.rounds) * (depth * (depth + 1) / 2);
        let right = self.depth().map_or_else(|| self.ops(), of_depth);
        if sum == right {
            return Ok(());
        }
        Err(WorkloadError::wrong(format!("the task went wrong: its sum is {sum}, not {right}")))
    }

    /// Runs the workload on a strand and checks its result.
    pub fn cost<S: StrandKind>(self) -> Result<Cost, WorkloadError> {
        let watch = Stopwatch::start();
        let strands = spawn_all::<S, _, _>(1, |_| move || self.sum_on::<S>())
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
