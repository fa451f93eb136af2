//! What another thread, the watchdog, can find out about the fibers of a worker.
//!
//! The fibers' data belongs to the worker's thread, which may continue at any time. So the
//! watchdog's thread does not load it: the kernel copies it
//! ([`copy_value`](ramie_driver::sys::copy_value)), which is neither a data race nor a fault,
//! whatever happens to the memory meanwhile. A copy is used only once it has been validated:
//!
//! - **The fiber that runs**: headers are never unmapped, and the words that are read from them are
//!   atomic. The worker clears the attributes' address before it frees them, so a name was copied
//!   from live memory if the address is there afterwards. If the turn is still the same in the end,
//!   all of it belongs to the fiber that runs.
//! - **The parked fibers**: only while the worker's thread is blocked in the kernel, as its count
//!   of runs shows. If the thread has not run between the look before the copies and the look after
//!   them, they are the data as the worker left it, and nothing that they point to has gone.
#![allow(unsafe_code)]

use std::{
    cell::RefCell,
    mem::{MaybeUninit, offset_of},
    panic::Location,
    sync::Arc,
};

use ramie_driver::sys::{copy_text, copy_value, copy_words};

use super::{FiberStack, Shared, Turn, Worker, Workers, contexts::depth_in_copy};
use crate::core::{
    primitive::{Ordering, fence},
    strand::{self, FiberId, SpawnAttributes, StrandHeader},
    wait::park::WaitRecord,
};

/// The most stacks of a worker that are looked at.
const MOST_STACKS: usize = 4096;
/// The most bytes of a parked fiber's stack that are searched for a lock's address.
const MOST_SEARCHED: usize = 16 * 1024;
/// The part of the search below the record of the wait: the frames of the wait, with the registers
/// that the switch has saved.
const BELOW_RECORD: usize = 1024;
/// The most bytes of a name.
const MOST_NAME: usize = 256;

/// A worker, seen from another thread.
pub(crate) struct WorkerView {
    /// INVARIANT: the worker outlives this view.
    worker: *const Worker,
    workers: Arc<Workers>,
}

// SAFETY: only atomics of the worker, and copies of its other data, are used.
unsafe impl Send for WorkerView {}

/// The fiber that a worker runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningFiber {
    pub(crate) label: String,
    /// The name of the type of its closure; empty if it has none of its own.
    pub(crate) closure: &'static str,
    pub(crate) is_in_no_switch: bool,
    pub(crate) is_in_panic_hook: bool,
    /// The place of its spawn: the address of a location, which tells places apart. It is not
    /// looked into, because only the worker knows whether the copied word is one.
    pub(crate) spawn_place: usize,
    /// The address of its [`FiberStack`], at which its frames end.
    pub(crate) stack: usize,
}

/// A fiber that does not run.
pub(crate) struct ParkedFiber {
    pub(crate) label: String,
    pub(crate) closure: &'static str,
    /// The kind and the place of its wait; none if it waits for its turn to run.
    pub(crate) wait: Option<(&'static str, &'static Location<'static>)>,
    /// Whether its stack holds the address that was searched for.
    pub(crate) refers: bool,
}

/// The fibers of a worker that do not run.
pub(crate) struct ParkedFibers {
    /// Those whose stacks hold the address first.
    pub(crate) fibers: Vec<ParkedFiber>,
    /// Whether the worker has more stacks than were looked at.
    pub(crate) is_cut: bool,
}

impl WorkerView {
    /// # Safety
    /// The worker, a member of a runtime, outlives the view.
    pub(crate) unsafe fn new(worker: &Worker) -> Option<Self> {
        Some(WorkerView { workers: Arc::clone(worker.workers()?), worker })
    }

    /// The worker, of which only atomics and addresses may be used.
    fn worker(&self) -> &Worker {
        // SAFETY: the invariant of the field.
        unsafe { &*self.worker }
    }

    pub(crate) fn turn(&self) -> Turn {
        let worker = self.worker();
        Turn { rounds: worker.watched.rounds(), countdown: worker.scheduler.switches_left() }
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.worker().watched.is_asleep()
    }

    /// The number of strands of the runtime that have not ended, and how many of them have no stack
    /// yet. Hints.
    pub(crate) fn strands(&self) -> (u64, u64) {
        let sum = |read: fn(&Shared) -> u64| -> u64 { self.workers.shared().map(read).sum() };
        let finished = sum(|shared| shared.finished.load(Ordering::Relaxed));
        let live = sum(|shared| shared.live() as u64);
        let spawned = sum(|shared| shared.spawned.load(Ordering::Relaxed));
        let strands = spawned.saturating_sub(finished);
        (strands, strands.saturating_sub(live))
    }

    /// The fiber that the worker runs in this turn; `None` if the turn is over.
    pub(crate) fn running(&self, turn: Turn) -> Option<RunningFiber> {
        let (stack, is_in_no_switch) = self.running_stack()?;
        let header = header_of(stack)?;
        let (label, closure) = (label_of(header)?, header.closure_name());
        let spawn_place = copy_word(stack + FiberStack::SPAWNED_AT_OFFSET)?;
        let is_in_panic_hook = self.worker().watched.is_in_panic_hook();
        let fiber =
            RunningFiber { label, closure, is_in_no_switch, is_in_panic_hook, spawn_place, stack };
        let is_same = self.turn() == turn;
        is_same.then_some(fiber)
    }

    fn running_stack(&self) -> Option<(usize, bool)> {
        let running = &raw const self.worker().running;
        let word = |offset| copy_word(running.addr() + offset);
        match word(offset_of!(super::RunningStrand, current))? {
            0 => {
                let depth = depth_in_copy(word(offset_of!(super::RunningStrand, regions))?);
                Some((word(offset_of!(super::RunningStrand, masked))?, depth > 0))
            }
            stack => Some((stack, false)),
        }
    }

    /// The fibers that do not run, while the worker is blocked in the kernel. `is_still_blocked`
    /// says whether its thread has not run since it was seen there. The stacks are searched for
    /// the address.
    pub(crate) fn parked(
        &self,
        address: usize,
        is_still_blocked: impl Fn() -> bool,
    ) -> Option<ParkedFibers> {
        let (running, _) = self.running_stack()?;
        let (stacks, count) = self.stacks(&is_still_blocked)?;
        let stacks = copy_words(stacks, count.min(MOST_STACKS))?;
        let others = stacks.into_iter().filter(|stack| *stack != running);
        let copies: Vec<_> = others.filter_map(|stack| Copies::new(stack, address)).collect();
        if !is_still_blocked() {
            return None;
        }
        // SAFETY: the worker's thread has not run, so each copy is the data as the worker left it.
        let fibers = copies.into_iter().filter_map(|copies| unsafe { copies.read() });
        let mut fibers: Vec<_> = fibers.collect();
        fibers.sort_by_key(|fiber| !fiber.refers);
        Some(ParkedFibers { fibers, is_cut: count > MOST_STACKS })
    }

    /// The address and the length of the worker's list of stacks.
    fn stacks(&self, is_still_blocked: impl Fn() -> bool) -> Option<(usize, usize)> {
        let list: MaybeUninit<RefCell<Vec<*const FiberStack>>> =
            copy_value(self.worker().stacks.list())?;
        if !is_still_blocked() {
            return None;
        }
        // SAFETY: the worker's thread was blocked while it was copied, so this is the value, or one
        // that is borrowed, which is not looked into. The copy is not dropped.
        let list = unsafe { list.assume_init_ref() };
        let stacks = list.try_borrow().ok()?;
        Some((stacks.as_ptr().addr(), stacks.len()))
    }
}

fn copy_word(address: usize) -> Option<usize> {
    copy_words(address, 1).map(|words| words[0])
}

/// The header of a stack's fiber, which is never unmapped.
fn header_of(stack: usize) -> Option<&'static StrandHeader> {
    strand::find_header(copy_word(stack + FiberStack::HEADER_OFFSET)?)
}

/// What messages call the strand of a header that may be in use.
fn label_of(header: &'static StrandHeader) -> Option<String> {
    Some(strand::label_with(header, name_of(header)?.as_deref()))
}

/// The name of a strand, from any thread; `None` if it has none, or has ended.
pub(crate) fn name_of_strand(id: FiberId) -> Option<String> {
    let header = strand::find_by_id(id)?;
    let name = name_of(header)?;
    // The copy may be that of a strand that has got the header since.
    name.filter(|_| header.id() == id)
}

/// The name in a header that may be in use; `None`: it has changed meanwhile.
fn name_of(header: &'static StrandHeader) -> Option<Option<String>> {
    let id = header.id_bits();
    // Acquire: the attributes are not those of the strand that had the header before. Pairs with
    // the Release by which that strand's end gives the header a new generation.
    fence(Ordering::Acquire);
    let attributes = header.attributes.shared_address();
    // Acquire: the content of the attributes is visible. Pairs with the Release in `install`.
    fence(Ordering::Acquire);
    let is_same = || {
        // Acquire: the looks come after the copies. Pairs with the fence in `drop_all`.
        fence(Ordering::Acquire);
        header.id_bits() == id && std::ptr::eq(header.attributes.shared_address(), attributes)
    };
    if attributes.is_null() { Some(None) } else { name_in(attributes, is_same) }
}

fn name_in(
    attributes: *const SpawnAttributes,
    is_same: impl Fn() -> bool,
) -> Option<Option<String>> {
    let address = attributes.addr() + offset_of!(SpawnAttributes, options.name);
    let address: *const Option<String> = std::ptr::without_provenance(address);
    let name = copy_value(address)?;
    if !is_same() {
        return None;
    }
    // SAFETY: the attributes are immutable while the header names them, which it still did after
    // the copy was made. The copy is not dropped.
    let Some(name) = (unsafe { name.assume_init_ref() }) else { return Some(None) };
    let text = copy_text(name.as_ptr().addr(), name.len().min(MOST_NAME))?;
    is_same().then_some(Some(text))
}

/// Copies of a fiber's data that wait for their validation.
struct Copies {
    header: usize,
    record: Option<MaybeUninit<WaitRecord>>,
    refers: bool,
}

impl Copies {
    /// Copies the data of the fiber of a stack; `None` if the stack is idle.
    fn new(stack: usize, address: usize) -> Option<Copies> {
        let header = copy_word(stack + FiberStack::HEADER_OFFSET).filter(|header| *header != 0)?;
        let record = copy_word(stack + FiberStack::RECORD_OFFSET)?;
        if record == 0 {
            return Some(Copies { header, record: None, refers: false });
        }
        let start = record.saturating_sub(BELOW_RECORD);
        let len = stack.saturating_sub(start).min(MOST_SEARCHED);
        let words = copy_words(start, len / size_of::<usize>()).unwrap_or_default();
        let record = copy_value(std::ptr::without_provenance::<WaitRecord>(record))?;
        Some(Copies { header, record: Some(record), refers: words.contains(&address) })
    }

    /// # Safety
    /// The copies were made while the worker of the fiber did not run.
    unsafe fn read(self) -> Option<ParkedFiber> {
        let header = strand::find_header(self.header)?;
        let wait = self.record.map(|record| {
            // SAFETY: the record of a suspended fiber lies in its frame; the copy is not dropped.
            let record = unsafe { record.assume_init_ref() };
            (record.kind.name, record.location)
        });
        let (label, closure) = (label_of(header)?, header.closure_name());
        Some(ParkedFiber { label, closure, wait, refers: self.refers })
    }
}
