//! Which fiber runs next: a scheduler that one can plug in.
//!
//! A fiber is a continuation and a scheduler. The continuation is the runtime's; the scheduler, as
//! far as it decides who is next, is a [`Policy`]: it is handed everything that becomes runnable,
//! and asked for what to run. Each worker has its own, so a policy needs no locks.
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

use std::{collections::BinaryHeap, fmt, marker::PhantomData};

use crate::{
    fiber::FiberId,
    strand::Slot,
    worker::{self, Next, Shared},
};

/// Decides which of the runnable fibers of a worker runs next.
///
/// # Panics
/// A policy that panics ends the process with a sentence: what it held could not be run any more.
/// So does one that holds fibers and gives none, or keeps them beyond its own end. It runs inside
/// [`no_switch`](crate::no_switch()): it may unpark and spawn fibers, and may not wait.
pub trait Policy {
    /// Takes charge of what has become runnable.
    fn push(&mut self, runnable: Runnable);

    /// Gives back what is to run next; `None` only when there is nothing.
    fn pop(&mut self) -> Option<Runnable>;
}

/// The right to run one fiber, once. Dropped, it goes to the end of the worker's queue, and from
/// there to the policy again.
///
/// It stays on its worker:
/// ```compile_fail,E0277
/// fn needs_send<T: Send>() {}
/// needs_send::<ramie::policy::Runnable>();
/// ```
pub struct Runnable {
    next: Option<Next>,
    home: &'static Shared,
    not_send: PhantomData<*const ()>,
}

impl Runnable {
    pub(crate) fn new(next: Next, home: &'static Shared) -> Self {
        Runnable { next: Some(next), home, not_send: PhantomData }
    }

    pub(crate) fn home(&self) -> &'static Shared {
        self.home
    }

    pub(crate) fn into_next(mut self) -> Next {
        self.next.take().expect(KEPT)
    }

    fn slot(&self) -> Option<&'static Slot> {
        self.next.as_ref().expect(KEPT).slot()
    }

    /// Returns the id of the fiber; `None` for the worker's own thread, outside of a fiber.
    #[must_use]
    pub fn id(&self) -> Option<FiberId> {
        self.slot().map(Slot::id)
    }

    /// Returns the name that the fiber was given.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.slot()?.belongings.extra()?.wishes.name.as_deref()
    }

    /// Returns the priority that the fiber was given by
    /// [`Builder::priority`](crate::fiber::Builder::priority); 0 unless told.
    #[must_use]
    pub fn priority(&self) -> i8 {
        let extra = self.slot().and_then(|slot| slot.belongings.extra());
        extra.map_or(0, |extra| extra.wishes.priority)
    }

    /// Tells whether the fiber has not started yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self.next, Some(Next::Fresh(_)))
    }
}

const KEPT: &str = "a runnable keeps its fiber until it is run or dropped";

impl Drop for Runnable {
    fn drop(&mut self) {
        if let Some(next) = self.next.take() {
            worker::with_existing(|worker| worker.take_back(next, self.home));
        }
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runnable").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Last in, first out: what became runnable last is warm in the cache. Starves the others as long
/// as fibers yield to one another, so it suits work that ends.
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
