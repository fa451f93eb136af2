//! Memory: what a server keeps free, so that connections are refused when it runs short, not the
//! service.
//!
//! Small pieces of memory that cannot be had end a Rust program, and stacks come in large pieces,
//! which can be refused. So a connection is let in only while much more can be had than one takes,
//! and the small pieces of those that are in find their place. Where nothing limits the process's
//! memory, nothing is asked for.

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
/// What a connection may yet take: a head that is not whole, and what is received and sent.
const OF_CONNECTION: usize = 32 << 10;
/// Stacks are mapped by this number at a time, each with a guard.
const STACKS_AT_ONCE: usize = 16;
const GUARD: usize = 64 << 10;
/// What the runtime takes to start: the stack of its first fiber comes with others of its size, a
/// thread has a stack, a ring has its queues.
const OF_RUN: usize = STACKS_AT_ONCE * (2 * MIB + GUARD);
const OF_THREAD: usize = 4 * MIB;

static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// How much memory a server needs besides what it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    workers: usize,
    is_limited: bool,
}

impl Room {
    /// The room of a server of so many workers.
    pub(super) fn new(workers: Option<u32>) -> Self {
        let cpus = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = workers.map_or_else(cpus, |workers| workers as usize);
        Room { workers, is_limited: is_limited() }
    }

    /// Stacks for each worker.
    fn stacks(self) -> usize {
        self.workers * STACKS_AT_ONCE * (runtime::stack_bytes() + GUARD)
    }

    /// Whether there is room for one more connection, beside so many.
    pub(super) fn is_there(self, connections: impl FnOnce() -> usize) -> bool {
        !self.is_limited || can_be_had(RESERVE + self.stacks() + connections() * OF_CONNECTION)
    }

    /// Refuses to start what would end in the midst of it.
    pub(super) fn check_for_start(self) -> Result<(), Failure> {
        self.check(RESERVE + self.stacks() + OF_RUN + self.workers * OF_THREAD)
    }

    /// Refuses to serve where no connection would be let in: lets each worker take what it takes
    /// for its first fiber and its first small piece of memory, and looks what is left.
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

/// Says once, whoever notices it, that connections are closed.
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
    // Or the compiler leaves out what is not used.
    std::hint::black_box(&mut memory);
    is_had
}
