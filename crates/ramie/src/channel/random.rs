//! Random numbers for the first arm of a select.

use std::cell::Cell;

/// Returns a pseudo-random number below `count`, by a generator that is cheap and random enough to
/// be fair.
pub(super) fn random_below(count: usize) -> usize {
    thread_local! {
        static STATE: Cell<u32> = const { Cell::new(0) };
    }
    STATE.with(|state| {
        let mut next = state.get();
        if next == 0 {
            next = (state.as_ptr() as usize as u32 >> 3) | 1;
        }
        // Marsaglia's xorshift.
        next ^= next << 13;
        next ^= next >> 17;
        next ^= next << 5;
        state.set(next);
        ((u64::from(next) * count as u64) >> 32) as usize
    })
}
