//! One task that yields: in a loop, at the bottom of a recursion, at each level of one.
//!
//! A strand or a coroutine recurses as any function does. A future cannot, so each level is a box
//! of its own, and each poll goes through all of them.

use std::{future::Future, hint::black_box, pin::Pin, time::Instant};

use ::tokio::{runtime::LocalOptions, task::yield_now};
use corosensei::Coroutine;

use crate::{
    peers::Peer,
    workload::{Sample, Workload},
};

/// The number of recursions.
pub const ROUNDS: u64 = 15_000;
/// The number of recursions that yield at each level.
pub const ROUNDS_OF_ALL_LEVELS: u64 = 1_500;

const STACK: usize = 256 * 1024;

/// The sum of the numbers up to `depth`, one call per number.
///
/// The black box keeps the compiler from making a loop of it. The box is empty, because with the
/// sum in it there would be a store and a load at each level, which this processor forwards at one
/// of two speeds, 1 ns apart, depending on its state (the same for every peer).
#[inline(never)]
fn recurse(depth: u64, at_the_base: &impl Fn()) -> u64 {
    if depth == 0 {
        at_the_base();
        return 0;
    }
    let rest = recurse(depth - 1, at_the_base);
    black_box(());
    rest + depth
}

#[inline(never)]
fn recurse_yielding(depth: u64, at_each_level: &impl Fn()) -> u64 {
    at_each_level();
    if depth == 0 {
        return 0;
    }
    let rest = recurse_yielding(depth - 1, at_each_level);
    black_box(());
    rest + depth
}

/// The whole workload, for peers that can yield in a plain function.
fn direct(workload: Workload, yield_now: impl Fn()) {
    match workload {
        Workload::Basic { yields } => (0..ROUNDS * yields).for_each(|_| yield_now()),
        Workload::Recurse { depth } => {
            (0..ROUNDS).for_each(|_| check(recurse(depth, &yield_now), depth));
        }
        Workload::Recurse2 { depth } => (0..ROUNDS_OF_ALL_LEVELS)
            .for_each(|_| check(recurse_yielding(depth, &yield_now), depth)),
        _ => unreachable!("no recursion"),
    }
}

fn check(sum: u64, depth: u64) {
    assert_eq!(sum, depth * (depth + 1) / 2);
}

/// The clock starts when a peer's runtime runs, because its creation is no yield. The time includes
/// the start and the end of a task, and its stack.
pub fn run(peer: Peer, workload: Workload) -> Option<Sample> {
    match peer {
        Peer::Ramie => {
            let runtime = ramie::Runtime::builder().workers(1).build().expect("a runtime");
            let task = move || direct(workload, ramie::fiber::yield_now);
            Some(runtime.run(|| timed(|| ramie::fiber::spawn(task).join().expect("no panic"))))
        }
        Peer::Corosensei => Some(timed(|| {
            let stack = corosensei::stack::DefaultStack::new(STACK).expect("a stack");
            let mut coroutine =
                Coroutine::<(), (), (), _>::with_stack(stack, move |yielder, ()| {
                    direct(workload, || yielder.suspend(()));
                });
            while !coroutine.done() {
                coroutine.resume(());
            }
        })),
        Peer::May => {
            may::config().set_workers(1).set_stack_size(STACK / size_of::<usize>());
            // The first coroutine starts the threads.
            may::go!(|| ()).join().expect("no panic");
            let task = move || direct(workload, may::coroutine::yield_now);
            Some(timed(|| may::go!(task).join().expect("no panic")))
        }
        Peer::Tokio => {
            let runtime =
                tokio::runtime::Builder::new_current_thread().build_local(LocalOptions::default());
            Some(runtime.expect("a runtime").block_on(async move {
                let start = Instant::now();
                tokio::task::spawn_local(boxed(workload)).await.expect("no panic");
                Sample::timed(start.elapsed())
            }))
        }
        _ => None,
    }
}

fn timed(task: impl FnOnce()) -> Sample {
    let start = Instant::now();
    task();
    Sample::timed(start.elapsed())
}

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// Like `direct`, as futures. Each level is a box; a yield is none.
async fn boxed(workload: Workload) {
    match workload {
        Workload::Basic { yields } => {
            for _ in 0..ROUNDS * yields {
                yield_now().await;
            }
        }
        Workload::Recurse { depth } => {
            for _ in 0..ROUNDS {
                check(recurse_boxed(depth).await, depth);
            }
        }
        Workload::Recurse2 { depth } => {
            for _ in 0..ROUNDS_OF_ALL_LEVELS {
                check(recurse_yielding_boxed(depth).await, depth);
            }
        }
        _ => unreachable!("no recursion"),
    }
}

fn recurse_boxed(depth: u64) -> Boxed<u64> {
    Box::pin(async move {
        if depth == 0 {
            yield_now().await;
            return 0;
        }
        recurse_boxed(depth - 1).await + depth
    })
}

fn recurse_yielding_boxed(depth: u64) -> Boxed<u64> {
    Box::pin(async move {
        yield_now().await;
        if depth == 0 {
            return 0;
        }
        recurse_yielding_boxed(depth - 1).await + depth
    })
}
