//! Admission control: when memory runs short, the server refuses connections instead of crashing.
//!
//! A Rust program aborts if a small allocation fails. Stacks are allocated in large pieces, and a
//! failed large allocation can be handled. So the server admits a connection only while it can
//! allocate much more memory than one connection needs; the rest serves the small allocations of
//! the connections that are already open. If nothing limits the memory of the process, the server
//! admits every connection without a trial allocation.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

use ramie::fiber::{self, Builder, Place};
use ramie_coro::{StackPool, StackSize};
use rustix::process::{Resource, getrlimit};

use crate::{failure::Failure, output, runtime};

const MIB: usize = 1 << 20;
const RESERVE: usize = 8 * MIB;
/// Memory that an open connection may still allocate: an incomplete head, input and output.
const PER_CONNECTION: usize = 32 << 10;
/// Stacks are mapped in batches of this size, each stack with a guard.
const STACKS_AT_ONCE: usize = 16;
const GUARD: usize = 64 << 10;
/// The runtime's first stack, of 2 MiB, which is mapped in a batch with others of its size.
const FOR_RUNTIME: usize = STACKS_AT_ONCE * (2 * MIB + GUARD);
/// A worker's thread: its stack, and the queues of its ring.
const PER_THREAD: usize = 4 * MIB;

static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// Decides whether the server admits one more connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    workers: usize,
    is_limited: bool,
}

impl Admission {
    /// Admission for a server with `workers` workers.
    pub(super) fn new(workers: Option<u32>) -> Self {
        let cpus = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = workers.map_or_else(cpus, |workers| workers as usize);
        Admission { workers, is_limited: is_limited() }
    }

    /// Whether the memory of the process is limited.
    pub(super) fn is_limited(self) -> bool {
        self.is_limited
    }

    /// Bytes of one batch of stacks for each worker.
    fn stacks(self) -> usize {
        self.workers * STACKS_AT_ONCE * (runtime::stack_bytes() + GUARD)
    }

    /// Whether the memory suffices for one more connection beside `open` others.
    pub(super) fn allows_one_more(self, open: usize) -> bool {
        !self.is_limited || can_allocate(RESERVE + self.stacks() + open * PER_CONNECTION)
    }

    /// Fails if the memory does not suffice to start the runtime.
    pub(super) fn check_for_start(self) -> Result<(), Failure> {
        self.check(RESERVE + self.stacks() + FOR_RUNTIME + self.workers * PER_THREAD)
    }

    /// Fails if the memory does not suffice to admit a single connection. First runs a fiber with a
    /// small allocation on each worker, because both take memory that the worker then keeps.
    pub(super) fn check_for_service(self) -> Result<(), Failure> {
        for worker in (0..fiber::workers()).filter(|_| self.is_limited) {
            let take = || drop(std::hint::black_box(vec![0_u8; 1024]));
            let taken = Builder::new().on(Place::Worker(worker)).spawn(take);
            let taken = taken.map_err(|error| Failure::other(error.to_string()))?;
            taken
                .join()
                .map_err(|payload| Failure::other(ramie_workloads::payload_text(&*payload)))?;
        }
        self.check(RESERVE + 2 * self.stacks())
    }

    fn check(self, bytes: usize) -> Result<(), Failure> {
        if !self.is_limited || can_allocate(bytes) {
            return Ok(());
        }
        Err(Failure::other(format!(
            "there is too little memory to serve: cannot allocate {} MiB of address space; raise \
             `ulimit -v` (or `ulimit -d`), use fewer --workers, or smaller stacks (RAMIE_STACK)",
            bytes / MIB
        )))
    }
}

/// Prints once that new connections are closed, because memory is short.
pub(super) fn warn() {
    warn_once(
        "there is no memory for more connections, so new ones are closed; raise `ulimit -v`, or \
         use smaller stacks (RAMIE_STACK)",
    );
}

/// Prints once that new connections are closed, because there is no stack for their fibers.
///
/// `Trouble::NoFiber` carries no reason, which may be memory or, before Linux 6.13, the number of
/// mappings. So this function takes a stack itself and prints the error. If it gets one, because
/// another connection has ended, the next refusal asks again.
pub(super) fn warn_of_stacks() {
    if HAS_COMPLAINED.load(Ordering::Relaxed) {
        return;
    }
    let taken = StackSize::new(runtime::stack_bytes()).and_then(|size| StackPool::new(size).take());
    if let Err(why) = taken {
        warn_once(&format!(
            "there is no stack for more connections, so new ones are closed: {why}"
        ));
    }
}

fn warn_once(text: &str) {
    if !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
        output::warn(text);
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

fn can_allocate(bytes: usize) -> bool {
    let mut memory: Vec<u8> = Vec::new();
    let is_had = memory.try_reserve_exact(bytes).is_ok();
    // Otherwise the compiler removes the unused allocation.
    std::hint::black_box(&mut memory);
    is_had
}
