//! The tasks as futures, on any executor.
//!
//! A future cannot contain itself, so each level of a recursion is a box of its own, and each poll
//! goes through the boxes of all levels.

use std::{future::Future, pin::Pin};

use crate::task::{Round, Task};

/// Runs the task as futures and returns its sum. `call` makes what the task waits for, by the means
/// of the executor.
pub async fn sum<C: Future + 'static>(task: Task, call: impl Fn() -> C + Copy + 'static) -> u64 {
    let mut sum = 0;
    match task.round {
        Round::Basic(_) => {
            for _ in 0..task.ops() {
                call().await;
                sum += 1;
            }
        }
        Round::Recurse(depth) => {
            for _ in 0..task.rounds {
                sum += recurse(depth.into(), call).await;
            }
        }
        Round::Recurse2(depth) => {
            for _ in 0..task.rounds {
                sum += recurse2(depth.into(), call).await;
            }
        }
    }
    sum
}

type Boxed = Pin<Box<dyn Future<Output = u64>>>;

fn recurse<C: Future + 'static>(depth: u64, call: impl Fn() -> C + Copy + 'static) -> Boxed {
    Box::pin(async move {
        if depth == 0 {
            call().await;
            return 0;
        }
        recurse(depth - 1, call).await + depth
    })
}

fn recurse2<C: Future + 'static>(depth: u64, call: impl Fn() -> C + Copy + 'static) -> Boxed {
    Box::pin(async move {
        call().await;
        if depth == 0 {
            return 0;
        }
        recurse2(depth - 1, call).await + depth
    })
}
