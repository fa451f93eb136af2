//! The workloads of one task: the stack that a recursion needs, and the engines `coroutines` and
//! `futures`.

use ramie_coro::{Builder, Resumed, StackSize, Yielder};
use ramie_workloads::{Cost, Stopwatch, Task, TaskCall, futures};
use rustix::process::{Resource, getrlimit};

use super::Engine;
use crate::{failure::Failure, runtime};

/// The stack frame of one level takes no more than this. Builds without optimization take most of
/// it.
const FRAME: u64 = if cfg!(debug_assertions) { 256 } else { 96 };
const POLL_FRAME: u64 = if cfg!(debug_assertions) { 1024 } else { 256 };
/// The frames below the recursion and above it.
const OTHER_FRAMES: u64 = 16 * 1024;

/// A rough estimate of one op, in nanoseconds.
pub(super) fn op_ns(task: Task, on: Engine) -> f64 {
    let is_future = on == Engine::Futures;
    match task {
        Task::Basic(_, TaskCall::Quick) => 2.0,
        Task::Basic(_, TaskCall::Medium) => 100.0,
        Task::Basic(_, TaskCall::Slow) => 25_000.0,
        Task::Recurse(depth) => depth as f64 * if is_future { 40.0 } else { 6.0 },
        Task::Recurse2(depth) if is_future => 60.0 + depth as f64 * 3.0,
        Task::Recurse2(_) => 60.0,
    }
}

/// The stack that the recursion of a task needs at most, in bytes.
pub(super) fn depth_bytes(task: Task) -> u64 {
    match task {
        Task::Basic(..) => 0,
        Task::Recurse(depth) | Task::Recurse2(depth) => depth * FRAME + OTHER_FRAMES,
    }
}

/// The usable bytes of its stack: `RAMIE_STACK` if it is set, else a size that surely suffices.
pub(super) fn stack_bytes(task: Task) -> usize {
    let sure = depth_bytes(task).next_power_of_two().min(StackSize::MAX_BYTES as u64);
    let sufficient = || runtime::stack_bytes().max(sure as usize);
    runtime::asked_stack_bytes().unwrap_or_else(sufficient)
}

/// Fails if the recursion might not fit into the stack, because an overflow ends the process.
pub(super) fn check_depth(task: Task, on: Engine) -> Result<(), Failure> {
    let (Task::Recurse(depth) | Task::Recurse2(depth)) = task else { return Ok(()) };
    let (stack, frame) = match on {
        Engine::Futures => (thread_stack_bytes(), POLL_FRAME),
        _ => (stack_bytes(task) as u64, FRAME),
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

/// The main thread's stack.
fn thread_stack_bytes() -> u64 {
    const ORDINARY: u64 = 8 << 20;
    getrlimit(Resource::Stack).current.unwrap_or(ORDINARY)
}

/// Runs the task as a coroutine that a loop resumes.
pub(super) fn cost_on_coroutine(task: Task) -> Result<Cost, Failure> {
    let watch = Stopwatch::start();
    let body = move |yielder: &Yielder<(), ()>, ()| task.sum(|| yielder.suspend(()));
    let coroutine = Builder::new().stack_size(stack_bytes(task)).build(body);
    let coroutine = coroutine.map_err(|error| {
        Failure::other(format!("cannot create the coroutine ({error}); free some memory"))
    })?;
    let sum = loop {
        if let Resumed::Returned(sum) = coroutine.resume(()) {
            break sum;
        }
    };
    let cost = watch.stop();
    task.check(sum)?;
    Ok(cost)
}

/// The executor of the engine `futures`.
pub(super) fn executor() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| Failure::other(format!("cannot start tokio's runtime: {error}")))
}

/// Runs the task as futures. `Bench::new` refuses the slow call, because tokio's timers count
/// milliseconds.
pub(super) fn cost_as_futures(
    task: Task,
    executor: &tokio::runtime::Runtime,
) -> Result<Cost, Failure> {
    let watch = Stopwatch::start();
    let sum = executor.block_on(futures::sum(task, tokio::task::yield_now));
    let cost = watch.stop();
    task.check(sum)?;
    Ok(cost)
}
