//! A thread's own stock of stacks.

use std::fmt;

use super::{Stack, StackError, StackSize, arena::Arena, give_back};
use crate::overflow;

/// The size of the first batch that a pool fetches; each further batch is twice as large.
const FIRST_BATCH: usize = 8;
const MOST_BATCH: usize = 1024;

/// Keeps stacks of one size for reuse by one thread, the most recently used first.
///
/// Stacks come from the process's arena in growing batches: a small program guards eight stacks,
/// and a large one pays for the lock and the system call once per 1,024 stacks. Dropping the pool
/// returns its stacks to the arena.
///
/// # Examples
/// ```
/// use ramie_coro::{StackPool, StackSize};
///
/// let mut pool = StackPool::new(StackSize::default());
/// let stack = pool.take()?;
/// let base = stack.base();
/// pool.put(stack);
/// assert_eq!(pool.take()?.base(), base);
/// # Ok::<(), ramie_coro::StackError>(())
/// ```
pub struct StackPool {
    arena: &'static Arena,
    stacks: Vec<Stack>,
    batch: usize,
}

impl StackPool {
    /// Creates an empty pool, and installs the report of overflows on this thread.
    #[must_use]
    pub fn new(size: StackSize) -> StackPool {
        overflow::install();
        StackPool { arena: Arena::of(size), stacks: Vec::new(), batch: FIRST_BATCH }
    }

    /// Returns the size of the pool's stacks.
    #[must_use]
    pub fn stack_size(&self) -> StackSize {
        self.arena.size()
    }

    /// Takes the stack that was put last, or fetches a batch.
    ///
    /// # Errors
    /// If the system has no memory or allows no further guard. Nothing is lost, and a later call
    /// may succeed.
    #[inline]
    pub fn take(&mut self) -> Result<Stack, StackError> {
        match self.stacks.pop() {
            Some(stack) => Ok(stack),
            None => self.fetch(),
        }
    }

    /// Puts a stack back for reuse, after [`Stack::recycle`].
    ///
    /// A stack of another size goes back to its own arena.
    #[inline]
    pub fn put(&mut self, mut stack: Stack) {
        if stack.size() == self.arena.size() {
            stack.recycle();
            self.stacks.push(stack);
        }
    }

    /// Returns the number of stacks in the pool.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Returns whether the next [`take`](Self::take) has to fetch a batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Returns all stacks but the `keep` most recently used, and their memory, to the arena.
    pub fn trim(&mut self, keep: usize) {
        let surplus = self.stacks.len().saturating_sub(keep);
        give_back(self.arena, self.stacks.drain(..surplus));
        if keep == 0 {
            self.batch = FIRST_BATCH;
        }
    }

    #[cold]
    fn fetch(&mut self) -> Result<Stack, StackError> {
        self.arena.take(self.batch, &mut self.stacks)?;
        self.batch = (self.batch * 2).min(MOST_BATCH);
        // The arena adds at least one stack.
        self.stacks.pop().ok_or(StackError::bookkeeping())
    }
}

impl Drop for StackPool {
    fn drop(&mut self) {
        self.trim(0);
    }
}

impl fmt::Debug for StackPool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StackPool")
            .field("stack_size", &self.stack_size())
            .field("len", &self.len())
            .finish()
    }
}
