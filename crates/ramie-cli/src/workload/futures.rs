//! The tasks as futures, on tokio's current-thread runtime.
//!
//! A future cannot contain itself, so each level of a recursion is a box of its own, and each poll
//! goes through the boxes of all levels.

use std::{future::Future, hint::black_box, pin::Pin};

use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
};

use super::{
    Cost,
    task::{Call, Task},
    usage::Stopwatch,
};
use crate::failure::Failure;

pub(super) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .build()
        .map_err(|error| Failure::other(format!("cannot start tokio's runtime: {error}")))
}

pub(super) fn cost(task: Task, runtime: &Runtime) -> Result<Cost, Failure> {
    let watch = Stopwatch::start();
    let sum = runtime.block_on(sum(task));
    task.check(sum, watch.stop())
}

async fn sum(task: Task) -> u64 {
    let mut sum = 0;
    match task {
        Task::Basic(calls, call) => {
            for _ in 0..calls {
                match call {
                    Call::Quick => _ = black_box(std::future::ready(calls)).await,
                    // `check_runs_on` refuses the slow call, because tokio's timers count
                    // milliseconds.
                    Call::Medium | Call::Slow => yield_now().await,
                }
                sum += 1;
            }
        }
        Task::Recurse(depth) => {
            for _ in 0..task.rounds() {
                sum += recurse(depth).await;
            }
        }
        Task::Recurse2(depth) => {
            for _ in 0..task.rounds() {
                sum += recurse2(depth).await;
            }
        }
    }
    sum
}

type Boxed = Pin<Box<dyn Future<Output = u64>>>;

fn recurse(depth: u64) -> Boxed {
    Box::pin(async move {
        if depth == 0 {
            yield_now().await;
            return 0;
        }
        recurse(depth - 1).await + depth
    })
}

fn recurse2(depth: u64) -> Boxed {
    Box::pin(async move {
        yield_now().await;
        if depth == 0 {
            return 0;
        }
        recurse2(depth - 1).await + depth
    })
}
