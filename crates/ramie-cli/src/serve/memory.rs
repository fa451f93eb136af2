//! Memory that the server keeps free: when memory runs short, it refuses connections instead of
//! ending.
//!
//! A small allocation that fails ends a Rust program, whereas a stack that cannot be mapped is only
//! an error. So a connection is accepted only while much more memory is available than one
//! connection takes; the small allocations of the accepted connections then succeed. If nothing
//! limits the memory of the process, nothing is checked.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

use ramie::fiber::{self, Builder, Place};
use rustix::process::{Resource, getrlimit};

use crate::{
    failure::{Failure, payload_text},
    output, runtime,
};

const MIB: usize = 1 << 20;
const RESERVE: usize = 8 * MIB;
/// The most memory that an accepted connection allocates: for the head of a request that has come
/// in part, and for the bytes that it receives and sends.
const OF_CONNECTION: usize = 32 << 10;
/// Stacks are mapped by this number at a time, each with a guard.
const STACKS_AT_ONCE: usize = 16;
const GUARD: usize = 64 << 10;
/// The runtime's first stack, of 2 MiB, which is mapped together with others of its size.
const OF_RUN: usize = STACKS_AT_ONCE * (2 * MIB + GUARD);
/// A worker's thread: its stack, and the queues of its ring.
const OF_THREAD: usize = 4 * MIB;

static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// Checks whether a server can get the memory that it will still need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    workers: usize,
    is_limited: bool,
}

impl Room {
    /// For a server of this number of workers; by default one for each CPU.
    pub(super) fn new(workers: Option<u32>) -> Self {
        let cpus = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = workers.map_or_else(cpus, |workers| workers as usize);
        Room { workers, is_limited: is_limited() }
    }

    /// The bytes of the stacks that all workers map at a time.
    fn stacks(self) -> usize {
        self.workers * STACKS_AT_ONCE * (runtime::stack_bytes() + GUARD)
    }

    /// Whether there is room for one more connection beside the present ones.
    pub(super) fn is_there(self, connections: impl FnOnce() -> usize) -> bool {
        !self.is_limited || can_be_had(RESERVE + self.stacks() + connections() * OF_CONNECTION)
    }

    /// Fails if the runtime's start would run out of memory.
    pub(super) fn check_for_start(self) -> Result<(), Failure> {
        self.check(RESERVE + self.stacks() + OF_RUN + self.workers * OF_THREAD)
    }

    /// Fails if no connection could be accepted. First each worker runs a fiber that allocates,
    /// because a worker's first fiber and first allocation take memory that it then keeps.
    pub(super) fn check_for_service(self) -> Result<(), Failure> {
        for worker in (0..fiber::workers()).filter(|_| self.is_limited) {
            let take = || drop(std::hint::black_box(vec![0_u8; 1024]));
            let taken = Builder::new().on(Place::Worker(worker)).spawn(take);
            let taken = taken.map_err(|error| Failure::other(error.to_string()))?;
            taken.join().map_err(|payload| Failure::other(payload_text(&*payload)))?;
        }
        self.check(RESERVE + 2 * self.stacks())
    }

    fn check(self, bytes: usize) -> Result<(), Failure> {
        if !self.is_limited || can_be_had(bytes) {
            return Ok(());
        }
        Err(Failure::other(format!(
            "there is too little memory to serve: {} MiB of address space cannot be had; raise \
             `ulimit -v` (or `ulimit -d`), or take fewer --workers or smaller stacks (RAMIE_STACK)",
            bytes / MIB
        )))
    }
}

/// Says that new connections are closed, once in the life of the process.
pub(super) fn complain() {
    if !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
        output::complain(
            "there is no memory for more connections, new ones are closed; raise `ulimit -v`, or \
             use smaller stacks (RAMIE_STACK)",
        );
    }
}

fn is_limited() -> bool {
    let has_limit = |resource| getrlimit(resource).current.is_some();
    let is_strict = || {
        let mode = fs::read_to_string("/proc/sys/vm/overcommit_memory");
        mode.is_ok_and(|mode| mode.trim() == "2")
    };
    has_limit(Resource::As) || has_limit(Resource::Data) || is_strict()
}

fn can_be_had(bytes: usize) -> bool {
    let mut memory: Vec<u8> = Vec::new();
    let is_had = memory.try_reserve_exact(bytes).is_ok();
    // Otherwise the compiler removes the allocation, because nothing uses it.
    std::hint::black_box(&mut memory);
    is_had
}
