//! The tasks as futures, on any executor.
//!
//! A future cannot contain itself, so each level of a recursion is a box of its own, and each poll
//! goes through the boxes of all levels.

use std::{future::Future, hint::black_box, pin::Pin};

use crate::task::{Task, TaskCall};

/// Runs the task as futures and returns its sum. `yield_now` is the executor's yield.
///
/// # Panics
/// If the call is [`TaskCall::Slow`], because that is a sleep of Ramie's.
pub async fn sum<Y: Future + 'static>(
    task: Task,
    yield_now: impl Fn() -> Y + Copy + 'static,
) -> u64 {
    let mut sum = 0;
    match task {
        Task::Basic(calls, call) => {
            for _ in 0..calls {
                match call {
                    TaskCall::Quick => _ = black_box(std::future::ready(calls)).await,
                    TaskCall::Medium => _ = yield_now().await,
                    TaskCall::Slow => unreachable!("the slow call runs on fibers only"),
                }
                sum += 1;
            }
        }
        Task::Recurse(depth) => {
            for _ in 0..task.rounds() {
                sum += recurse(depth, yield_now).await;
            }
        }
        Task::Recurse2(depth) => {
            for _ in 0..task.rounds() {
                sum += recurse2(depth, yield_now).await;
            }
        }
    }
    sum
}

type Boxed = Pin<Box<dyn Future<Output = u64>>>;

fn recurse<Y: Future + 'static>(depth: u64, yield_now: impl Fn() -> Y + Copy + 'static) -> Boxed {
    Box::pin(async move {
        if depth == 0 {
            yield_now().await;
            return 0;
        }
        recurse(depth - 1, yield_now).await + depth
    })
}

fn recurse2<Y: Future + 'static>(depth: u64, yield_now: impl Fn() -> Y + Copy + 'static) -> Boxed {
    Box::pin(async move {
        yield_now().await;
        if depth == 0 {
            return 0;
        }
        recurse2(depth - 1, yield_now).await + depth
    })
}
