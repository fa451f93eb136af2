//! How many threads a process may start.
//!
//! std aborts the process if a new thread cannot map its signal stack. So a run has to stop while
//! there is still room, and cannot wait for the error of a spawn.

use std::{fs, num::NonZero, thread};

use crate::usage::address_space_left;

/// A number of threads, and the limit that sets it.
pub(crate) struct ThreadLimit {
    pub(crate) threads: usize,
    pub(crate) set_by: &'static str,
}

impl ThreadLimit {
    /// The limit of this process.
    pub(crate) fn of_process() -> Self {
        let by_mappings = ThreadLimit { threads: by_mappings(), set_by: "vm.max_map_count" };
        match by_address_space() {
            Some(threads) if threads < by_mappings.threads => {
                ThreadLimit { threads, set_by: "`ulimit -v`" }
            }
            _ => by_mappings,
        }
    }
}

/// How many threads `vm.max_map_count` allows in one process.
pub fn most_threads() -> usize {
    by_mappings()
}

/// A thread takes four mappings: its stack, its signal stack, and a guard for each.
fn by_mappings() -> usize {
    /// Mappings of the program besides its threads' stacks, with room to spare.
    const OTHERS: usize = 256;
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let mappings: usize = text.trim().parse().unwrap_or(65_530);
    mappings.saturating_sub(OTHERS) / 4
}

/// `None` if the address space is not limited.
fn by_address_space() -> Option<usize> {
    /// std's default stack of a thread, with its guard and its signal stack.
    const THREAD: usize = (2 << 20) + (64 << 10);
    /// glibc reserves this much for an arena, and has up to eight arenas for each CPU.
    const ARENA: usize = 64 << 20;
    let left = usize::try_from(address_space_left()?).unwrap_or(usize::MAX);
    let arenas = 8 * thread::available_parallelism().map_or(1, NonZero::get) * ARENA;
    // If arenas could take all of it, an eighth for stacks leaves them room that they do not fill.
    Some(left.saturating_sub(arenas).max(left / 8) / THREAD)
}
