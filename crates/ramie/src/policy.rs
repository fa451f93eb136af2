//! Which fiber runs next: a scheduler that one can plug in.
//!
//! A fiber is a continuation and a scheduler. The continuation is the runtime's; the part of the
//! scheduler that decides which fiber is next is a [`Policy`]: it is handed everything that becomes
//! runnable, and asked for the next fiber to run. Each worker has its own, so a policy needs no
//! locks.
//!
//! Without one, workers run fibers first in, first out, by a queue that the policies here do not
//! slow down. [`Lifo`], [`Priority`] and [`Random`] are ready to use; `examples/round_robin.rs`
//! shows one of your own.
//!
//! With several workers, closures that have not started lie in a queue that other workers steal
//! from. A policy gets one of them each time it is asked, so the others stay there to be stolen.
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

/// Last in, first out: the fiber that became runnable last is warm in the cache. Starves the others
/// as long as fibers yield to one another, so it suits work that ends.
#[derive(Debug, Default)]
pub struct Lifo {
    stack: Vec<Runnable>,
}

impl Lifo {
    /// Makes an empty one.
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

/// The highest priority first, and among equals first in, first out.
///
/// A fiber of high priority that does not wait starves those below it.
#[derive(Debug, Default)]
pub struct Priority {
    heap: BinaryHeap<Ranked>,
    pushed: u64,
}

impl Priority {
    /// Makes an empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[derive(Debug)]
struct Ranked {
    priority: i8,
    /// Its number among all that were pushed.
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
    /// Makes an empty one.
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
