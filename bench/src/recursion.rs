//! One task that yields: in a loop, at the bottom of a recursion, at each level of one.
//!
//! A strand or a coroutine recurses as any function does. A future cannot: each level is a box of
//! its own, and each poll goes through all of them.

use std::{future::Future, hint::black_box, pin::Pin, time::Instant};

use corosensei::Coroutine;

use crate::{
    peers::Peer,
    workload::{Sample, Workload},
};

/// How often each recursion is begun.
pub const ROUNDS: u64 = 15_000;
/// The same for the one that yields at each level.
pub const ROUNDS_OF_ALL_LEVELS: u64 = 1_500;

const STACK: usize = 256 * 1024;

/// The sum of the numbers up to `depth`, one call a number.
///
/// The black box keeps the compiler from making a loop of it, and is empty: with the sum in it, it
/// is a store and a load at each level, which this processor forwards at one of two speeds, 1 ns
/// apart, by the state it happens to be in (the same for every peer).
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

/// The whole workload, for whoever can yield in a plain function.
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

pub fn run(peer: Peer, workload: Workload) -> Option<Sample> {
    let start = Instant::now();
    match peer {
        Peer::Ramie => {
            let runtime = ramie::Runtime::builder().workers(1).build().expect("a runtime");
            let task = move || direct(workload, ramie::fiber::yield_now);
            // Once it runs, as in the other cases: to begin and end takes 0.3 to 0.5 ms of the 30.
            return Some(runtime.run(|| {
                let start = Instant::now();
                ramie::fiber::spawn(task).join().expect("no panic");
                Sample::timed(start.elapsed())
            }));
        }
        Peer::Corosensei => {
            let stack = corosensei::stack::DefaultStack::new(STACK).expect("a stack");
            let mut coroutine =
                Coroutine::<(), (), (), _>::with_stack(stack, move |yielder, ()| {
                    direct(workload, || yielder.suspend(()));
                });
            while !coroutine.done() {
                coroutine.resume(());
            }
        }
        Peer::May => {
            may::config().set_workers(1).set_stack_size(STACK / size_of::<usize>());
            let task = move || direct(workload, may::coroutine::yield_now);
            may::go!(task).join().expect("no panic");
        }
        Peer::Tokio => {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let yield_now = || Box::pin(tokio::task::yield_now()) as Boxed<()>;
            runtime.expect("a runtime").block_on(boxed(workload, &yield_now));
        }
        _ => return None,
    }
    Some(Sample::timed(start.elapsed()))
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
type Yield<'a> = &'a dyn Fn() -> Boxed<'a, ()>;

/// The same as `direct`, as futures.
async fn boxed(workload: Workload, yield_now: Yield<'_>) {
    match workload {
        Workload::Basic { yields } => {
            for _ in 0..ROUNDS * yields {
                tokio::task::yield_now().await;
            }
        }
        Workload::Recurse { depth } => {
            for _ in 0..ROUNDS {
                check(recurse_boxed(depth, yield_now).await, depth);
            }
        }
        Workload::Recurse2 { depth } => {
            for _ in 0..ROUNDS_OF_ALL_LEVELS {
                check(recurse_yielding_boxed(depth, yield_now).await, depth);
            }
        }
        _ => unreachable!("no recursion"),
    }
}

fn recurse_boxed<'a>(depth: u64, at_the_base: Yield<'a>) -> Boxed<'a, u64> {
    Box::pin(async move {
        if depth == 0 {
            at_the_base().await;
            return 0;
        }
        recurse_boxed(depth - 1, at_the_base).await + depth
    })
}

fn recurse_yielding_boxed<'a>(depth: u64, at_each_level: Yield<'a>) -> Boxed<'a, u64> {
    Box::pin(async move {
        at_each_level().await;
        if depth == 0 {
            return 0;
        }
        recurse_yielding_boxed(depth - 1, at_each_level).await + depth
    })
}
