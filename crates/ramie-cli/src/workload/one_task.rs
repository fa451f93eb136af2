//! The workloads of one task: the stack that a recursion needs, and the engines `threads`,
//! `coroutines` and `futures`.

use std::{
    future::{Future, poll_fn},
    hint::black_box,
    pin::pin,
    thread,
};

use ramie_coro::{Builder, Resumed, StackSize, Yielder};
use ramie_workloads::{Cost, OnThreads, Round, Stopwatch, Task, TaskCall, futures, payload_text};
use rustix::process::{Resource, getrlimit};

use super::Engine;
use crate::{counters, failure::Failure, runtime};

/// The stack frame of one level takes no more than this. Builds without optimization take most of
/// it.
const FRAME: u64 = if cfg!(debug_assertions) { 256 } else { 96 };
const POLL_FRAME: u64 = if cfg!(debug_assertions) { 1024 } else { 256 };
/// The frames below the recursion and above it.
const OTHER_FRAMES: u64 = 16 * 1024;
/// std's own stack of a thread.
const THREAD_STACK: u64 = 2 << 20;

/// A rough estimate of one op, in nanoseconds.
pub(super) fn op_ns(task: Task, on: Engine) -> f64 {
    let is_future = on == Engine::Futures;
    let call = match (task.call, on) {
        (TaskCall::Quick, _) => 2.0,
        (TaskCall::Medium, Engine::Threads) => 600.0,
        (TaskCall::Medium, _) => 60.0,
        (TaskCall::Slow, Engine::Futures) => 2_000_000.0,
        (TaskCall::Slow, Engine::Threads) => 70_000.0,
        (TaskCall::Slow, _) => 25_000.0,
    };
    call + match task.round {
        Round::Basic(_) => 0.0,
        Round::Recurse(depth) => f64::from(depth) * if is_future { 40.0 } else { 6.0 },
        Round::Recurse2(depth) if is_future => f64::from(depth) * 3.0,
        Round::Recurse2(_) => 0.0,
    }
}

/// The stack that the recursion of a task needs at most, in bytes.
pub(super) fn depth_bytes(task: Task) -> u64 {
    task.depth().map_or(0, |depth| depth * FRAME + OTHER_FRAMES)
}

/// The usable bytes of its stack: `RAMIE_STACK` if it is set, else a size that surely suffices.
pub(super) fn stack_bytes(task: Task) -> usize {
    let sure = depth_bytes(task).next_power_of_two().min(StackSize::MAX_BYTES as u64);
    let sufficient = || runtime::stack_bytes().max(sure as usize);
    runtime::asked_stack_bytes().unwrap_or_else(sufficient)
}

/// The stack of the task's thread: that of std, or more if the recursion needs it.
fn stack_bytes_of_thread(task: Task) -> u64 {
    depth_bytes(task).next_power_of_two().clamp(THREAD_STACK, StackSize::MAX_BYTES as u64)
}

/// Fails if the recursion might not fit into the stack, because an overflow ends the process.
pub(super) fn check_depth(task: Task, on: Engine) -> Result<(), Failure> {
    let Some(depth) = task.depth() else { return Ok(()) };
    let (stack, frame) = match on {
        Engine::Futures => (main_stack_bytes(), POLL_FRAME),
        Engine::Threads => (stack_bytes_of_thread(task), FRAME),
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
        Engine::Threads => String::new(),
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
fn main_stack_bytes() -> u64 {
    const ORDINARY: u64 = 8 << 20;
    getrlimit(Resource::Stack).current.unwrap_or(ORDINARY)
}

/// Runs the task on an OS thread.
pub(super) fn cost_on_thread(task: Task) -> Result<Cost, Failure> {
    let stack_bytes = stack_bytes_of_thread(task) as usize;
    let watch = Stopwatch::start();
    let thread = thread::Builder::new().stack_size(stack_bytes);
    let body = move || {
        let sum = task.sum_on::<OnThreads>();
        counters::end_of_thread();
        sum
    };
    let thread = thread.spawn(body).map_err(|error| {
        Failure::other(format!(
            "cannot start the thread ({error}); free some memory, or raise the limits (ulimit -u, \
             ulimit -v)"
        ))
    })?;
    let sum = thread.join().map_err(|payload| {
        let why = payload_text(&*payload);
        Failure::other(format!("the thread panicked ({why}); please report this"))
    })?;
    let cost = watch.stop();
    task.check(sum)?;
    Ok(cost)
}

/// Runs the task as a coroutine that a loop resumes, with a call of `on_resume` before each resume.
pub(super) fn cost_on_coroutine(task: Task, on_resume: impl Fn()) -> Result<Cost, Failure> {
    let watch = Stopwatch::start();
    let body = move |yielder: &Yielder<(), ()>, ()| task.sum(|| yielder.suspend(()));
    let coroutine = Builder::new().stack_size(stack_bytes(task)).build(body);
    let coroutine = coroutine.map_err(|error| {
        Failure::other(format!("cannot create the coroutine ({error}); free some memory"))
    })?;
    let sum = loop {
        on_resume();
        if let Resumed::Returned(sum) = coroutine.resume(()) {
            break sum;
        }
    };
    let cost = watch.stop();
    task.check(sum)?;
    Ok(cost)
}

/// The executor of the engine `futures`, with timers only if the task needs them.
pub(super) fn executor(task: Task) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if task.call == TaskCall::Slow {
        builder.enable_time();
    }
    builder
        .build()
        .map_err(|error| Failure::other(format!("cannot start tokio's runtime: {error}")))
}

/// Runs the task as futures, with a call of `on_poll` before each poll of the task.
pub(super) fn cost_as_futures(
    task: Task,
    executor: &tokio::runtime::Runtime,
    on_poll: impl Fn(),
) -> Result<Cost, Failure> {
    let watch = Stopwatch::start();
    let sum = match task.call {
        TaskCall::Quick => {
            let sum = futures::sum(task, || black_box(std::future::ready(())));
            executor.block_on(watched(sum, on_poll))
        }
        TaskCall::Medium => {
            executor.block_on(watched(futures::sum(task, tokio::task::yield_now), on_poll))
        }
        TaskCall::Slow => {
            let sum = futures::sum(task, || tokio::time::sleep(TaskCall::SLEEP));
            executor.block_on(watched(sum, on_poll))
        }
    };
    let cost = watch.stop();
    task.check(sum)?;
    Ok(cost)
}

/// The future, with a call of `on_poll` before each poll.
async fn watched<T>(future: impl Future<Output = T>, on_poll: impl Fn()) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        on_poll();
        future.as_mut().poll(context)
    })
    .await
}
