//! The workloads of one task, on the peers: a loop of yields, a recursion that yields at the
//! bottom, and one that yields at each level.
//!
//! A coroutine recurses as any function does. A future cannot, so each level is a box of its own,
//! and each poll goes through all of them.

use std::time::Instant;

use ::tokio::{runtime::LocalOptions, task::yield_now};
use corosensei::Coroutine;
use ramie_workloads::{Task, futures};

use crate::{peers::Peer, workload::Sample};

const STACK: usize = 256 * 1024;

/// The clock starts when a peer's runtime runs, because its creation is no yield. The time includes
/// the start and the end of a task, and its stack.
pub fn run(peer: Peer, task: Task) -> Option<Sample> {
    match peer {
        Peer::Corosensei => Some(timed(task, || {
            let stack = corosensei::stack::DefaultStack::new(STACK).expect("a stack");
            let mut coroutine =
                Coroutine::<(), (), u64, _>::with_stack(stack, move |yielder, ()| {
                    task.sum(|| yielder.suspend(()))
                });
            loop {
                if let Some(sum) = coroutine.resume(()).as_return() {
                    return sum;
                }
            }
        })),
        Peer::May => {
            may::config().set_workers(1).set_stack_size(STACK / size_of::<usize>());
            // The first coroutine starts the threads.
            may::go!(|| ()).join().expect("no panic");
            let body = move || task.sum(may::coroutine::yield_now);
            Some(timed(task, || may::go!(body).join().expect("no panic")))
        }
        Peer::Tokio => {
            let runtime =
                tokio::runtime::Builder::new_current_thread().build_local(LocalOptions::default());
            Some(runtime.expect("a runtime").block_on(async move {
                let start = Instant::now();
                let sum = tokio::task::spawn_local(futures::sum(task, yield_now));
                let sum = sum.await.expect("no panic");
                let time = start.elapsed();
                task.check(sum).expect("the right sum");
                Sample::timed(time)
            }))
        }
        Peer::Smol => {
            let executor = smol::LocalExecutor::new();
            Some(smol::block_on(executor.run(async {
                let start = Instant::now();
                let sum = executor.spawn(futures::sum(task, smol::future::yield_now)).await;
                let time = start.elapsed();
                task.check(sum).expect("the right sum");
                Sample::timed(time)
            })))
        }
        _ => None,
    }
}

fn timed(task: Task, sum: impl FnOnce() -> u64) -> Sample {
    let start = Instant::now();
    let sum = sum();
    let time = start.elapsed();
    task.check(sum).expect("the right sum");
    Sample::timed(time)
}
