//! The stacks of one worker, idle and in use.
//!
//! Idle stacks are reused last in, first out, because the last one used is the likeliest to be in
//! the cache. In a quiet time the worker gives memory back: the pages that only deep calls have
//! used, and half of the idle stacks beyond [`IDLE_KEPT`].
#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use ramie_coro::{StackError, StackPool, StackSize};

use super::{FiberStack, Shared, prefetch};
use crate::core::{loans::Loans, strand::StrandHeader};

/// The number of idle stacks that a worker keeps through any quiet time.
const IDLE_KEPT: usize = 256;
/// How many stacks are given back between two looks for other work; each takes some microseconds.
const GIVEN_BACK_AT_ONCE: usize = 64;
/// How far ahead of a visit to all stacks their lines are prefetched.
const PREFETCHED: usize = 4;

/// The stacks of one worker.
pub(crate) struct Stacks {
    /// The idle stacks of the default size, each suspended between two closures, the last used at
    /// the end.
    idle: RefCell<Vec<*const FiberStack>>,
    /// All stacks, for dumps and for abandoning fibers.
    all: RefCell<Vec<*const FiberStack>>,
    /// One for each size in use: the default size, and powers of two.
    pools: RefCell<Vec<(usize, StackPool)>>,
    default_size: usize,
    owner: &'static Shared,
    /// Whether stacks went idle since the last look at the high-water marks.
    is_unchecked: Cell<bool>,
    /// Loans of the fibers on these stacks, or of all fibers of the runtime.
    pub(crate) loans: Arc<Loans>,
}

impl Stacks {
    pub(crate) fn new(owner: &'static Shared, default_size: usize, loans: Arc<Loans>) -> Self {
        Stacks {
            owner,
            idle: RefCell::new(Vec::new()),
            all: RefCell::new(Vec::new()),
            pools: RefCell::new(Vec::new()),
            default_size,
            is_unchecked: Cell::new(false),
            loans,
        }
    }

    pub(crate) fn default_size(&self) -> usize {
        self.default_size
    }

    /// The number of stacks, with a fiber or without.
    pub(super) fn count(&self) -> usize {
        self.all.borrow().len()
    }

    #[inline]
    pub(crate) fn fits(&self, stack: &FiberStack, header: &StrandHeader) -> bool {
        stack.size() == self.size_for(header)
    }

    /// Rounds to few sizes, because each size in use has a pool.
    fn size_for(&self, header: &StrandHeader) -> usize {
        match crate::core::strand::requested_stack_size(header) {
            0 => self.default_size,
            size if size == self.default_size => size,
            size => size.next_power_of_two(),
        }
    }

    /// Finds or makes a stack for a fresh closure.
    ///
    /// # Errors
    /// When there is no memory for one more stack.
    #[inline]
    pub(crate) fn assign(&self, header: &'static StrandHeader) -> Result<&FiberStack, StackError> {
        let size = self.size_for(header);
        let idle = if size == self.default_size { self.idle.borrow_mut().pop() } else { None };
        let stack = match idle {
            Some(stack) => stack,
            None => self.make(size)?,
        };
        // SAFETY: stacks in `idle` and fresh from `make` are alive until `retire`.
        let stack = unsafe { &*stack };
        stack.adopt(header);
        Ok(stack)
    }

    #[cold]
    fn make(&self, size: usize) -> Result<*const FiberStack, StackError> {
        let memory = self.take_memory(size)?;
        let position = self.count();
        let stack = FiberStack::make(memory, self.owner, size, position);
        let mut all = self.all.borrow_mut();
        all.push(stack);
        // Room for all of them now, because a copy when many go idle takes 1 ms.
        self.idle.borrow_mut().reserve(all.capacity());
        Ok(stack)
    }

    fn take_memory(&self, size: usize) -> Result<ramie_coro::Stack, StackError> {
        let mut pools = self.pools.borrow_mut();
        let found = pools.iter().position(|(of, _)| *of == size);
        let at = match found {
            Some(at) => at,
            None => {
                pools.push((size, StackPool::new(StackSize::new(size)?)));
                pools.len() - 1
            }
        };
        pools[at].1.take()
    }

    /// Takes back a stack that went idle.
    #[cold]
    #[inline(never)]
    pub(super) fn recycle(&self, stack: &FiberStack) {
        if stack.size() != self.default_size {
            let size = stack.size();
            let memory = self.retire(stack);
            return self.put_memory(size, memory);
        }
        if stack.needs_check() {
            stack.give_back_deep_pages();
        }
        self.is_unchecked.set(true);
        self.idle.borrow_mut().push(stack);
    }

    /// Ends an idle stack and its coroutine, and returns the memory.
    #[cold]
    fn retire(&self, stack: &FiberStack) -> Option<ramie_coro::Stack> {
        self.unlist(stack);
        // SAFETY: called by the loop, or when the loop has ended; it is in no list any more.
        unsafe { stack.end() }
    }

    fn put_memory(&self, size: usize, memory: Option<ramie_coro::Stack>) {
        let mut pools = self.pools.borrow_mut();
        let pool = pools.iter_mut().find(|(of, _)| *of == size);
        if let (Some((_, pool)), Some(memory)) = (pool, memory) {
            pool.put(memory);
        }
    }

    fn unlist(&self, stack: &FiberStack) {
        let mut all = self.all.borrow_mut();
        let position = stack.position.get();
        all.swap_remove(position);
        if let Some(moved) = all.get(position) {
            // SAFETY: stacks in `all` are alive.
            unsafe { &**moved }.position.set(position);
        }
    }

    /// Whether a quiet moment could be used to give memory back.
    pub(crate) fn has_surplus(&self) -> bool {
        self.is_unchecked.get() || self.idle.borrow().len() > IDLE_KEPT
    }

    /// Gives back pages of deep calls, and half of the idle stacks beyond those kept: little by
    /// little, until `is_wanted` says that there is something else to do.
    pub(crate) fn give_back_surplus(&self, is_wanted: impl Fn() -> bool) {
        self.check_hottest(&is_wanted);
        let surplus = self.idle.borrow().len().saturating_sub(IDLE_KEPT);
        let mut left = surplus.div_ceil(2).min(4096);
        while left > 0 && !is_wanted() {
            let count = left.min(GIVEN_BACK_AT_ONCE);
            self.give_back(count);
            left -= count;
        }
        self.give_back_room();
    }

    fn check_hottest(&self, is_wanted: impl Fn() -> bool) {
        if !self.is_unchecked.get() {
            return;
        }
        let hottest: Vec<_> = self.idle.borrow().iter().rev().take(IDLE_KEPT).copied().collect();
        for stacks in hottest.chunks(GIVEN_BACK_AT_ONCE) {
            if is_wanted() {
                return;
            }
            for stack in stacks {
                // SAFETY: stacks in `idle` are alive, and leave it only when a fiber starts, or
                // below.
                unsafe { &**stack }.give_back_deep_pages();
            }
        }
        self.is_unchecked.set(false);
    }

    /// Ends idle stacks: those below the ones kept, so that hardly any move in the list.
    fn give_back(&self, count: usize) {
        let surplus: Vec<_> = {
            let mut idle = self.idle.borrow_mut();
            let end = idle.len().saturating_sub(IDLE_KEPT);
            idle.drain(end.saturating_sub(count)..end).collect()
        };
        for stack in surplus {
            // SAFETY: it was in `idle`: alive, and suspended between two closures.
            let stack = unsafe { &*stack };
            // Dropped rather than pooled, a stack gives all its memory back.
            drop(self.retire(stack));
        }
    }

    fn give_back_room(&self) {
        let needed = self.count().max(IDLE_KEPT);
        for list in [&self.idle, &self.all] {
            let mut list = list.borrow_mut();
            if list.capacity() > needed * 4 {
                // A copy: glibc would leave a large list that shrinks in a mapping of its own.
                let mut small = Vec::with_capacity(needed);
                small.extend_from_slice(&list);
                *list = small;
            }
        }
    }

    /// Shows the stacks at up to `count` places below `below` to `visit`, from the last on, and
    /// lowers `below` by as many. Returns whether places are left.
    pub(super) fn visit_down(
        &self,
        below: &mut usize,
        count: usize,
        mut visit: impl FnMut(&FiberStack),
    ) -> bool {
        let all = self.all.borrow();
        let end = all.len().min(*below);
        *below = end.saturating_sub(count);
        for (at, stack) in all.iter().enumerate().take(end).skip(*below).rev() {
            if let Some(ahead) = at.checked_sub(PREFETCHED).and_then(|ahead| all.get(ahead)) {
                prefetch::line(*ahead);
            }
            // SAFETY: stacks in `all` are alive.
            visit(unsafe { &**stack });
        }
        *below > 0
    }

    /// The list of all stacks, for a copy of it by [`view`](super::view).
    pub(super) fn list(&self) -> *const RefCell<Vec<*const FiberStack>> {
        &raw const self.all
    }

    /// The fibers that have started and not ended.
    pub(crate) fn live(&self) -> Vec<(*const FiberStack, &'static StrandHeader)> {
        let all = self.all.borrow();
        // SAFETY: stacks in `all` are alive.
        all.iter().filter_map(|stack| Some((*stack, unsafe { &**stack }.try_header()?))).collect()
    }

    /// Leaks the stack of a live fiber: it is never accessed, freed or reused again.
    ///
    /// # Safety
    /// The fiber is suspended and nobody will ever schedule it.
    pub(crate) unsafe fn leak(&self, stack: *const FiberStack) {
        // SAFETY: listed in `all` until now: alive; it stays so, because its memory is leaked.
        let stack = unsafe { &*stack };
        self.unlist(stack);
        // SAFETY: the caller's promise, and it is in no list any more.
        unsafe { stack.leak() };
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        for stack in self.idle.take() {
            // SAFETY: it was in `idle`: alive, and suspended between two closures.
            self.retire(unsafe { &*stack });
        }
    }
}
