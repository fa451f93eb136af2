//! Policies, by which a program decides which fiber runs next.
//!
//! A worker gives its [`Policy`] each fiber that becomes runnable, and gets from it the next fiber
//! to run. Each worker has a policy of its own, so a policy needs no locks.
//!
//! Without a policy, workers run fibers first in, first out, from a queue that the existence of
//! policies does not slow down. [`Lifo`], [`Priority`] and [`Random`] are ready to use;
//! `examples/round_robin.rs` implements another.
//!
//! With several workers, closures that have not started are in a queue that other workers steal
//! from. A policy gets one of them each time it is called for the next fiber, so the others can
//! still be stolen.
//!
//! # Examples
//! ```
//! use ramie::{Runtime, fiber, policy::Random};
//!
//! // The same seed, the same order: a test that found a bug finds it again.
//! let runtime = Runtime::builder().workers(1).policy(|| Random::new(42)).build().unwrap();
//! runtime.run(|| {
//!     fiber::spawn(|| println!("one")).join().unwrap();
//! });
//! ```

use std::collections::BinaryHeap;

pub use crate::core::worker::{Policy, Runnable};

/// Last in, first out, because the fiber that became runnable last is warm in the cache. Fibers
/// that yield to one another starve the others, so this policy suits work that ends.
#[derive(Debug, Default)]
pub struct Lifo {
    stack: Vec<Runnable>,
}

impl Lifo {
    /// Makes an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for Lifo {
    fn push(&mut self, runnable: Runnable) {
        self.stack.push(runnable);
    }

    fn pop(&mut self) -> Option<Runnable> {
        self.stack.pop()
    }
}

/// The highest priority first; fibers of equal priority first in, first out.
///
/// A fiber of high priority that does not wait starves fibers of lower priority.
#[derive(Debug, Default)]
pub struct Priority {
    heap: BinaryHeap<Ranked>,
    pushed: u64,
}

impl Priority {
    /// Makes an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[derive(Debug)]
struct Ranked {
    priority: i8,
    /// The number of the push, which orders fibers of equal priority.
    number: u64,
    runnable: Runnable,
}

impl Ranked {
    fn rank(&self) -> (i8, std::cmp::Reverse<u64>) {
        (self.priority, std::cmp::Reverse(self.number))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Policy for Priority {
    fn push(&mut self, runnable: Runnable) {
        self.pushed += 1;
        self.heap.push(Ranked { priority: runnable.priority(), number: self.pushed, runnable });
    }

    fn pop(&mut self) -> Option<Runnable> {
        self.heap.pop().map(|ranked| ranked.runnable)
    }
}

/// A random order that a seed replays: on one worker, without I/O and with a
/// [`ManualClock`](crate::time::ManualClock), the same program runs the same way every time.
#[derive(Debug)]
pub struct Random {
    runnables: Vec<Runnable>,
    state: u64,
}

impl Random {
    /// Makes an empty queue.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random { runnables: Vec::new(), state: seed }
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
    fn next_random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

impl Policy for Random {
    fn push(&mut self, runnable: Runnable) {
        self.runnables.push(runnable);
    }

    fn pop(&mut self) -> Option<Runnable> {
        let count = self.runnables.len() as u64;
        (count > 0).then(|| {
            let chosen = self.next_random() % count;
            self.runnables.swap_remove(chosen as usize)
        })
    }
}
