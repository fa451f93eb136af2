//! Eight threads spawn, await and shut down, while all of them go on.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use ramie::{Driver, Handle, Runtime, RuntimeEnded, Strands, fiber, future::block_on};

use super::common::{Limit, drivers};

const THREADS: usize = 8;

/// What one of the threads has seen.
#[derive(Default)]
struct Seen {
    admitted: AtomicUsize,
    run: AtomicUsize,
    refused: AtomicUsize,
}

/// Spawns until the runtime refuses, and waits for what it has spawned, in two ways.
fn use_until_refused(handle: &Handle, seen: &Arc<Seen>) {
    for n in 0.. {
        let theirs = Arc::clone(seen);
        let spawned = handle.spawn(move || {
            if n % 3 == 0 {
                fiber::yield_now();
            }
            theirs.run.fetch_add(1, SeqCst);
            n
        });
        let fiber = match spawned {
            Ok(fiber) => fiber,
            Err(error) => {
                assert!(RuntimeEnded::of(&error).is_some(), "{error}");
                seen.refused.fetch_add(1, SeqCst);
                return;
            }
        };
        seen.admitted.fetch_add(1, SeqCst);
        match n % 4 {
            0 => assert_eq!(block_on(fiber).unwrap(), n),
            1 => drop(fiber),
            2 => drop(fiber.into_future()),
            _ => assert_eq!(fiber.join().unwrap(), n),
        }
    }
}

fn round(runtime: &Runtime, round: usize) {
    let runtime = runtime.start().unwrap();
    let (barrier, seen) = (Arc::new(Barrier::new(THREADS)), Arc::new(Seen::default()));
    let threads: Vec<_> = (0..THREADS)
        .map(|index| {
            let (handle, barrier, seen) = (runtime.handle(), Arc::clone(&barrier), seen.clone());
            thread::spawn(move || {
                barrier.wait();
                if index == round % THREADS {
                    assert_eq!(handle.shutdown(Duration::MAX).count(), 0);
                }
                use_until_refused(&handle, &seen);
            })
        })
        .collect();
    // In one half of the rounds the drop of the runtime races with all of this.
    let mut runtime = Some(runtime);
    if !round.is_multiple_of(2) {
        runtime = None;
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    if let Some(runtime) = runtime {
        assert_eq!(runtime.shutdown(Duration::MAX).count(), 0);
    }
    assert_eq!(seen.run.load(SeqCst), seen.admitted.load(SeqCst), "each admitted fiber has run");
    assert_eq!(seen.refused.load(SeqCst), THREADS);
}

/// A thousand runtimes in all.
#[test]
fn eight_threads_spawn_await_and_shut_down_a_thousand_times() {
    let _limit = Limit::of_this_test();
    let drivers = drivers();
    let rounds = 1000 / (2 * drivers.len());
    for driver in drivers {
        for workers in [1, 2] {
            let builder = Runtime::builder().strands(Strands::Fibers).driver(driver);
            let runtime = builder.workers(workers).build().unwrap();
            (0..rounds).for_each(|n| round(&runtime, n));
        }
    }
}

#[test]
fn they_do_so_with_strands_that_are_threads() {
    let _limit = Limit::of_this_test();
    let builder = Runtime::builder().strands(Strands::Threads).driver(Driver::Poll);
    let runtime = builder.build().unwrap();
    (0..20).for_each(|n| round(&runtime, n));
}

/// The drop of the runtime races with the spawns.
#[test]
fn a_runtime_is_dropped_while_threads_spawn() {
    let _limit = Limit::of_this_test();
    let builder = Runtime::builder().strands(Strands::Fibers).workers(2);
    let runtime = builder.build().unwrap();
    for _ in 0..100 {
        let started = runtime.start().unwrap();
        let seen = Arc::new(Seen::default());
        thread::scope(|s| {
            for _ in 0..THREADS {
                let (handle, seen) = (started.handle(), &seen);
                s.spawn(move || use_until_refused(&handle, seen));
            }
            drop(started);
        });
        assert_eq!(seen.run.load(SeqCst), seen.admitted.load(SeqCst));
    }
}
