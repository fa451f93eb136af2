//! The memory that a workload needs, and whether it is available.
//!
//! Checked before the run, because running out of memory kills the process: the kernel's
//! out-of-memory killer ends it, or a failed allocation aborts it.

use std::fs;

use ramie_coro::GUARD_BYTES;
use ramie_workloads::{address_space_left, kib_field, most_threads};

use super::Engine;
use crate::{failure::Failure, runtime};

/// Resident memory of a parked fiber: one page.
const PAGE: u64 = 4096;
/// Memory of a strand without its stack: header, handle, and an entry in a queue that doubles.
const STRAND: u64 = 320;
/// Pages of a thread, in user space and in the kernel.
const THREAD: u64 = 16 * 1024;
/// Left free for the other allocations of the process.
const HEADROOM: u64 = 128 << 20;

/// Bytes of memory and of address space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requirements {
    strands: u64,
    pub(crate) memory: u64,
    address_space: u64,
}

impl Requirements {
    pub(super) fn of(on: Engine, strands: u64, stacks: u64, stack_bytes: usize) -> Self {
        let bookkeeping = strands.saturating_mul(STRAND);
        let (memory, address_space) = match on {
            // The system refuses surplus threads one by one, so the run itself reports them.
            Engine::Threads => (strands.saturating_mul(THREAD), 0),
            Engine::Futures => (bookkeeping, 0),
            Engine::Fibers
            | Engine::Hybrid
            | Engine::Sidecar
            | Engine::Processes
            | Engine::Coroutines => {
                let each = (stack_bytes as u64).saturating_add(GUARD_BYTES as u64);
                let of_stacks = stacks.saturating_mul(each);
                // Stacks are mapped in batches, so some are mapped and not used.
                let mapped = of_stacks.saturating_add(of_stacks / 8);
                let space = mapped.saturating_add(bookkeeping).saturating_add(HEADROOM);
                (stacks.saturating_mul(PAGE).saturating_add(bookkeeping), space)
            }
        };
        Requirements { strands, memory, address_space }
    }

    /// Adds `bytes` of memory.
    pub(super) fn plus(self, bytes: u64) -> Self {
        let [memory, address_space] =
            [self.memory, self.address_space].map(|need| need.saturating_add(bytes));
        Requirements { memory, address_space, ..self }
    }

    /// Fails if the workload would only get the process killed.
    pub(super) fn check(&self, on: Engine) -> Result<(), Failure> {
        let strands = match (on, self.strands) {
            (_, 1) => format!("{} needs", on.one()),
            (Engine::Threads, many) => format!("{many} threads need"),
            (Engine::Coroutines, many) => format!("{many} coroutines need"),
            (_, many) => format!("{many} fibers need"),
        };
        let space = address_space_left().unwrap_or(u64::MAX);
        if self.address_space > space {
            let room = space.saturating_sub(HEADROOM);
            return Err(Failure::other(format!(
                "{strands} about {} of address space, but `ulimit -v` leaves {}; raise the \
                 limit{}",
                in_mib(self.address_space),
                in_mib(space),
                or_fewer(fitting(self.strands, self.address_space.saturating_sub(HEADROOM), room)),
            )));
        }
        let memory = available_memory();
        if self.memory > memory {
            return Err(Failure::other(format!(
                "{strands} about {} of memory, but {} are available; free some memory{}",
                in_mib(self.memory),
                in_mib(memory),
                or_fewer(fitting(self.strands, self.memory, memory).min(most_strands(on))),
            )));
        }
        Ok(())
    }

    /// Whether the workload leaves the machine a good part of its memory.
    pub(crate) fn is_comfortable(&self) -> bool {
        let space = address_space_left().unwrap_or(u64::MAX);
        self.memory <= available_memory() / 4 * 3 && self.address_space <= space
    }
}

/// Fails if there is no memory for two fibers.
pub(crate) fn room_for_fibers() -> Result<(), Failure> {
    Requirements::of(Engine::Fibers, 2, 2, runtime::stack_bytes()).check(Engine::Fibers)
}

fn in_mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// The number of strands that other limits than the memory allow.
fn most_strands(on: Engine) -> u64 {
    match on {
        Engine::Threads => most_threads() as u64,
        _ => u64::MAX,
    }
}

/// The advice to ask for fewer strands; empty if not even one would fit.
fn or_fewer(fitting: u64) -> String {
    match fitting {
        0 => String::new(),
        _ => format!(", or ask for about {fitting} at most"),
    }
}

fn fitting(strands: u64, needed: u64, available: u64) -> u64 {
    let fitting = u128::from(strands) * u128::from(available) / u128::from(needed.max(1));
    u64::try_from(fitting).unwrap_or(strands).min(strands)
}

/// The memory that a process can still use before the kernel kills one, in bytes.
fn available_memory() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = kib_field(&meminfo, "MemAvailable:").map_or(u64::MAX, |kib| kib * 1024);
    machine.min(left_in_control_group().unwrap_or(u64::MAX))
}

fn left_in_control_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let read = |file| -> Option<u64> {
        let path = format!("/sys/fs/cgroup{}/{file}", path.trim_end_matches('/'));
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    Some(read("memory.max")?.saturating_sub(read("memory.current")?))
}
