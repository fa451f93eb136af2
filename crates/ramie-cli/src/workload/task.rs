//! One task makes a call that suspends it: in a loop, at the bottom of a recursion, or at each
//! level of one.
//!
//! A fiber and a coroutine recurse as any function does and can suspend at any depth.
//! [`super::futures`] has the same tasks as futures.

use std::{hint::black_box, time::Duration};

use clap::{Args, ValueEnum};
use ramie_coro::{Builder, Resumed, StackSize, Yielder};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::{
    Cost, Engine,
    strands::{Strands, join_all, spawn_all},
    usage::Stopwatch,
};
use crate::{arguments::count, failure::Failure, runtime};

/// One task makes a blocking call Y times in each of 15,000 rounds: the cost of the call
///
/// One op is one call. The task counts its calls, which must be 15,000 times Y in the end. It runs
/// on a fiber, as a coroutine or as a future.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub(crate) struct Basic {
    /// Number of calls in each of the 15,000 rounds
    #[arg(long, value_name = "Y", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) yields: u32,
    /// The call
    #[arg(long, value_enum, default_value_t = Call::Medium, value_name = "WHICH")]
    pub(crate) call: Call,
}

/// One task recurses D deep 15,000 times and yields at the bottom: the cost of a deep stack
///
/// The recursion sums the numbers up to D. One op is one recursion, down and up again. Futures
/// recurse with a box for each level. All sums must be right in the end. The task runs on a fiber,
/// as a coroutine or as futures. A fiber and a coroutine get the stack that D needs, unless
/// RAMIE_STACK sets its size.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub(crate) struct Recurse {
    /// Depth of the recursion
    #[arg(long, value_name = "D", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) depth: u32,
}

/// One task recurses D deep 1,500 times and yields at every level: the cost of a yield at a depth
///
/// The recursion sums the numbers up to D. One op is one level. Futures recurse with a box for each
/// level, and every poll goes through the boxes of all levels above. All sums must be right in the
/// end. The task runs on a fiber, as a coroutine or as futures. A fiber and a coroutine get the
/// stack that D needs, unless RAMIE_STACK sets its size.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub(crate) struct Recurse2 {
    /// Depth of the recursion
    #[arg(long, value_name = "D", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) depth: u32,
}

/// The call that the task makes in a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Call {
    /// A call that could block but returns at once
    Quick,
    /// A yield: through the scheduler, or back to the loop that resumes the coroutine
    Medium,
    /// A sleep of a microsecond, which registers a timer (fibers only, because a coroutine has no
    /// timers, and those of tokio count milliseconds)
    Slow,
}

impl Call {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Call::Quick => "quick",
            Call::Medium => "medium",
            Call::Slow => "slow",
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
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// This many calls.
    Basic(u64, Call),
    /// A recursion of this depth.
    Recurse(u64),
    /// A recursion of this depth that yields at every level.
    Recurse2(u64),
}

impl Basic {
    pub(super) fn task(&self) -> Task {
        Task::Basic(ROUNDS * u64::from(self.yields), self.call)
    }
}

impl Recurse {
    pub(super) fn task(&self) -> Task {
        Task::Recurse(self.depth.into())
    }
}

impl Recurse2 {
    pub(super) fn task(&self) -> Task {
        Task::Recurse2(self.depth.into())
    }
}

impl Task {
    pub(super) fn ops(self) -> u64 {
        match self {
            Task::Basic(calls, _) => calls,
            Task::Recurse(_) => ROUNDS,
            Task::Recurse2(depth) => ROUNDS_OF_ALL_LEVELS * depth,
        }
    }

    /// The number of recursions.
    pub(super) fn rounds(self) -> u64 {
        if let Task::Recurse2(_) = self { ROUNDS_OF_ALL_LEVELS } else { ROUNDS }
    }

    /// A rough estimate of one op, in nanoseconds.
    pub(super) fn op_ns(self, on: Engine) -> f64 {
        let is_future = on == Engine::Futures;
        match self {
            Task::Basic(_, Call::Quick) => 2.0,
            Task::Basic(_, Call::Medium) => 100.0,
            Task::Basic(_, Call::Slow) => 25_000.0,
            Task::Recurse(depth) => depth as f64 * if is_future { 40.0 } else { 6.0 },
            Task::Recurse2(depth) if is_future => 60.0 + depth as f64 * 3.0,
            Task::Recurse2(_) => 60.0,
        }
    }

    /// The stack that its recursion needs at most, in bytes.
    pub(super) fn depth_bytes(self) -> u64 {
        match self {
            Task::Basic(..) => 0,
            Task::Recurse(depth) | Task::Recurse2(depth) => depth * FRAME + OTHER_FRAMES,
        }
    }

    /// The usable bytes of its stack: `RAMIE_STACK` if it is set, else a size that surely suffices.
    pub(super) fn stack_bytes(self) -> usize {
        let sure = self.depth_bytes().next_power_of_two().min(StackSize::MAX_BYTES as u64);
        let sufficient = || runtime::stack_bytes().max(sure as usize);
        runtime::asked_stack_bytes().unwrap_or_else(sufficient)
    }

    /// Fails if the recursion might not fit into the stack, because an overflow ends the process.
    pub(super) fn check_depth(self, on: Engine) -> Result<(), Failure> {
        let (Task::Recurse(depth) | Task::Recurse2(depth)) = self else { return Ok(()) };
        let (stack, frame) = match on {
            Engine::Futures => (thread_stack_bytes(), POLL_FRAME),
            _ => (self.stack_bytes() as u64, FRAME),
        };
        let most = |stack: u64| stack.saturating_sub(OTHER_FRAMES) / frame;
        if depth <= most(stack) {
            return Ok(());
        }
        let cure = match on {
            Engine::Futures => {
                let needed = (depth * frame + OTHER_FRAMES).next_power_of_two();
                format!(", or raise `ulimit -s` to {}", needed >> 10)
            }
            _ if runtime::asked_stack_bytes().is_some() => {
                let most = depth.min(most(StackSize::MAX_BYTES as u64));
                format!(", or leave RAMIE_STACK unset, which allows {most}")
            }
            _ => String::new(),
        };
        Err(Failure::other(format!(
            "a recursion {depth} deep may overflow a stack of {} KiB; ask for {} at most{cure}",
            stack >> 10,
            most(stack)
        )))
    }

    /// Runs the task with plain calls on an engine that can suspend inside them; returns its sum.
    #[inline]
    fn sum(self, yield_now: impl Fn()) -> u64 {
        let rounds = self.rounds();
        match self {
            Task::Basic(calls, Call::Quick) => called(calls, || _ = black_box(calls)),
            Task::Basic(calls, Call::Medium) => called(calls, yield_now),
            Task::Basic(calls, Call::Slow) => called(calls, || ramie::fiber::sleep(SLOW_SLEEP)),
            Task::Recurse(depth) => (0..rounds).map(|_| recurse(depth, &yield_now)).sum(),
            Task::Recurse2(depth) => (0..rounds).map(|_| recurse2(depth, &yield_now)).sum(),
        }
    }

    pub(super) fn check(self, sum: u64, cost: Cost) -> Result<Cost, Failure> {
        let right = match self {
            Task::Basic(calls, _) => calls,
            Task::Recurse(depth) | Task::Recurse2(depth) => self.rounds() * depth * (depth + 1) / 2,
        };
        if sum == right {
            return Ok(cost);
        }
        Err(Failure::other(format!(
            "the task went wrong: its sum is {sum}, not {right}; please report this"
        )))
    }

    pub(super) fn cost<S: Strands>(self) -> Result<Cost, Failure> {
        let watch = Stopwatch::start();
        let strands = spawn_all::<S, _, _>(1, |_| move || self.sum(S::yield_now))
            .map_err(|failure| failure.give_up())?;
        let mut sum = 0;
        join_all::<S, u64>(strands, |found| sum += found)?;
        self.check(sum, watch.stop())
    }

    pub(super) fn cost_on_coroutine(self) -> Result<Cost, Failure> {
        let watch = Stopwatch::start();
        let body = move |yielder: &Yielder<(), ()>, ()| self.sum(|| yielder.suspend(()));
        let coroutine = Builder::new().stack_size(self.stack_bytes()).build(body);
        let coroutine = coroutine.map_err(|error| {
            Failure::other(format!("cannot create the coroutine ({error}); free some memory"))
        })?;
        let sum = loop {
            if let Resumed::Returned(sum) = coroutine.resume(()) {
                break sum;
            }
        };
        self.check(sum, watch.stop())
    }
}

/// The stack frame of one level takes no more than this. Builds without optimization take most of
/// it.
const FRAME: u64 = if cfg!(debug_assertions) { 256 } else { 96 };
const POLL_FRAME: u64 = if cfg!(debug_assertions) { 1024 } else { 256 };
/// The frames below the recursion and above it.
const OTHER_FRAMES: u64 = 16 * 1024;

/// The main thread's stack.
fn thread_stack_bytes() -> u64 {
    const ORDINARY: u64 = 8 << 20;
    getrlimit(Resource::Stack).current.unwrap_or(ORDINARY)
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
