//! Random trees of scopes over all that can wait, cancelled at every point.
//!
//! A seed makes a program: a tree of scopes, limits and shields, whose leaves use sockets, pipes,
//! files, processes, channels, locks and timers. It runs again and again on one worker, whose
//! run-queue policy counts how often it hands out a fiber and cancels the whole at the n-th time,
//! for every n, until the program has ended before.
//!
//! Each leaf checks that its values were received or reported unsent; afterwards no descriptor and
//! no stack is missing, and each value was dropped once. A run that hangs is ended with a list of
//! the waiters.
//!
//! `SEED=…` repeats a program, `POINT=…` one point of it; `ROUNDS=…` makes more of them.

#[path = "../common/mod.rs"]
mod common;

mod deeds;
mod ledger;
mod spread;
mod streams;
mod tree;

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

use common::{Random, descriptors};
use ledger::Ledger;
use ramie::{
    Driver, Runtime,
    cancel::{self, CancelHandle},
    policy::{Policy, Runnable},
};

/// The most leaves of a tree: so that a program has a hundred points, not a thousand.
const LEAVES: u64 = 16;

/// Cancels at a certain count.
#[derive(Default)]
struct Counter {
    count: AtomicUsize,
    handle: OnceLock<CancelHandle>,
}

/// Hands out fibers in order, or in the order of a seed, and counts.
struct Counting {
    queue: VecDeque<Runnable>,
    order: Option<Random>,
    counter: Arc<Counter>,
    point: usize,
}

impl Policy for Counting {
    fn push(&mut self, runnable: Runnable) {
        self.queue.push_back(runnable);
    }

    fn pop(&mut self) -> Option<Runnable> {
        if self.queue.is_empty() {
            return None;
        }
        if let Some(handle) = self.counter.handle.get()
            && self.counter.count.fetch_add(1, SeqCst) + 1 == self.point
        {
            handle.cancel_because("the point has come");
        }
        let chosen = match &mut self.order {
            Some(order) => order.below(self.queue.len() as u64) as usize,
            None => 0,
        };
        self.queue.remove(chosen)
    }
}

/// Ends the process if a run takes too long, and lists the waiters.
struct Watchdog(Option<(mpsc::Sender<()>, thread::JoinHandle<()>)>);

impl Watchdog {
    fn new(what: String, ledger: &Arc<Ledger>) -> Self {
        let (alive, ended) = mpsc::channel::<()>();
        let ledger = Arc::clone(ledger);
        let watch = move || {
            let outcome = ended.recv_timeout(Duration::from_secs(40));
            if outcome == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{what} hangs; still there are:\n{}", ledger.living());
                std::process::abort();
            }
        };
        Watchdog(Some((alive, thread::spawn(watch))))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let (alive, watch) = self.0.take().expect("dropped once");
        drop(alive);
        watch.join().expect("the watchdog's end");
    }
}

/// A driver, and how many workers.
type Kind = (Driver, usize);

/// Runs the program of a seed once; returns whether it was cancelled before it ended.
fn run_once((driver, workers): Kind, seed: u64, point: usize) -> Option<bool> {
    let ledger = Arc::new(Ledger::default());
    let counter = Arc::new(Counter::default());
    let policy = {
        let counter = Arc::clone(&counter);
        move || Counting {
            queue: VecDeque::new(),
            order: seed.is_multiple_of(2).then(|| Random::from_seed(seed)),
            counter: Arc::clone(&counter),
            point,
        }
    };
    let runtime = Runtime::builder().driver(driver).workers(workers).policy(policy).build().ok()?;
    let _watchdog = Watchdog::new(format!("{driver:?} SEED={seed} POINT={point}"), &ledger);
    let was_cancelled = runtime.run(|| {
        cancel::scope(|scope| {
            counter.handle.set(scope.handle()).expect("set once");
            tree::node(&ledger, Random::from_seed(seed), LEAVES);
            scope.is_cancelled()
        })
    });
    assert_eq!(ledger.living(), "", "{driver:?} SEED={seed} POINT={point}: not dropped");
    Some(was_cancelled)
}

/// Stacks and descriptors that are in use.
fn in_use() -> (usize, usize) {
    (ramie_coro::stats().in_use, descriptors())
}

/// Resources go back to their earlier numbers; threads of the pool may take a moment to end.
#[track_caller]
fn assert_nothing_left(before: (usize, usize), what: &str) {
    for _ in 0..2000 {
        if in_use() <= before {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{what}: stacks and descriptors in use: {:?}, before: {before:?}", in_use());
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the program of a seed with a cancel at every point.
fn run_at_every_point(kind: Kind, seed: u64) {
    // Resources that are made once and kept.
    if run_once(kind, seed, usize::MAX).is_none() {
        return common::skipped(format_args!("{kind:?} cannot be had"));
    }
    let before = in_use();
    let points = number("POINT").map_or(1..=usize::MAX, |point| point as usize..=point as usize);
    for point in points {
        let was_cancelled = run_once(kind, seed, point).expect("it was there before");
        let what = format!("{kind:?} SEED={seed} POINT={point}");
        assert_nothing_left(before, &what);
        if !was_cancelled {
            println!("{kind:?} SEED={seed}: {} points", point - 1);
            return;
        }
    }
}

/// In a process of its own, where nobody else opens descriptors.
fn torture(test: &str, kind: Kind) {
    let mut random = Random::new(test);
    let seeds = match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..number("ROUNDS").unwrap_or(3)).map(|_| random.below(1 << 40)).collect(),
    };
    if common::is_child() {
        return seeds.iter().for_each(|seed| run_at_every_point(kind, *seed));
    }
    for seed in seeds {
        println!("{kind:?} SEED={seed}");
        let point = std::env::var("POINT").unwrap_or_default();
        let seed = seed.to_string();
        let variables = [("SEED", seed.as_str()), ("POINT", point.as_str())];
        let output = common::child_with("true", test, &variables);
        println!("{}", String::from_utf8_lossy(&output.stdout));
        common::assert_success(&output);
    }
}

#[test]
fn cancelled_at_every_point_on_the_ring() {
    torture("cancelled_at_every_point_on_the_ring", (Driver::Uring, 1));
}

#[test]
fn cancelled_at_every_point_by_polling() {
    torture("cancelled_at_every_point_by_polling", (Driver::Poll, 1));
}

/// Cancelled by either worker while the other runs: the points are not the same in each run.
#[test]
fn cancelled_at_every_point_on_two_workers() {
    torture("cancelled_at_every_point_on_two_workers", (Driver::Uring, 2));
}

#[test]
fn cancelled_at_every_point_on_two_workers_by_polling() {
    torture("cancelled_at_every_point_on_two_workers_by_polling", (Driver::Poll, 2));
}
