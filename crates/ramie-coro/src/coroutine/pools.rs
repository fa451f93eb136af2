//! The stacks of this thread's coroutines: one pool per size.

use std::cell::RefCell;

use crate::{Stack, StackError, StackPool, StackSize, stack::take_one};

thread_local! {
    static POOLS: RefCell<Vec<StackPool>> = const { RefCell::new(Vec::new()) };
}

/// Takes a stack from the pool, or directly from the arena at the end of the thread.
pub(super) fn take(size: StackSize) -> Result<Stack, StackError> {
    POOLS
        .try_with(|pools| {
            let mut pools = pools.borrow_mut();
            match pools.iter_mut().find(|pool| pool.stack_size() == size) {
                Some(pool) => pool.take(),
                None => {
                    pools.push(StackPool::new(size));
                    pools.last_mut().map_or_else(|| take_one(size), StackPool::take)
                }
            }
        })
        .unwrap_or_else(|_| take_one(size))
}

/// Puts a stack back. At the end of the thread, dropping it returns it to the arena.
pub(super) fn put(stack: Stack) {
    let _ = POOLS.try_with(|pools| {
        let mut pools = pools.borrow_mut();
        if let Some(pool) = pools.iter_mut().find(|pool| pool.stack_size() == stack.size()) {
            pool.put(stack);
        }
    });
}
