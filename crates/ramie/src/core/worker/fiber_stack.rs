//! The stack of a fiber, with the coroutine that runs on it and the data of the fiber that it needs
//! only while it runs or waits.
//!
//! Creating a stack is expensive (a guard, a page fault), so stacks are pooled
//! ([`stacks`](super::stacks)). The coroutine of a pooled stack has not finished: it is suspended
//! between two closures, so starting the next closure there takes one resume.
//!
//! | state | `header` | changed by |
//! |---|---|---|
//! | idle | none | [`Stacks::assign`](super::stacks::Stacks::assign), then a resume |
//! | running, suspended | the fiber's | the end of the closure, which takes the next fresh closure at once or goes idle |
//!
//! A [`FiberStack`] also stands for the own stack of a thread that is a strand. That one has no
//! coroutine, and it is never resumed.
#![allow(unsafe_code)]

use std::{
    cell::{Cell, UnsafeCell},
    mem::{self, MaybeUninit},
    panic::Location,
    ptr,
};

use ramie_coro::{
    bare::{BareCoroutine, BareYielder},
    context,
};

use super::{Shared, Worker, panic_hook::UNREPORTED, prefetch};
use crate::core::{local::Locals, strand::StrandHeader, time::Armed, wait::park::WaitRecord};

type Coroutine = BareCoroutine<(), (), ()>;
type Yielder = BareYielder<(), ()>;

/// The stack of a fiber, or of a thread that is a strand.
///
/// The `FiberStack` of a fiber lies at the base of its stack, in the page that every switch
/// touches. The fields that a switch touches share one cache line with the link to the resumer,
/// which the switch keeps in the 16 bytes below. The fields that only a wait touches are in the
/// next line:
///
/// ```text
///   base of the stack (a multiple of 64)     ┐
///   │ …  rarely used fields                  │
///   │ yielder, record, stack_size, strand    │ one line
///   │ header, coroutine, its sp to the end   │ one line
///   │ the switch's link to the resumer       │
///   └ first frame, growing downwards
/// ```
#[repr(C, align(16))]
pub(crate) struct FiberStack {
    header: Cell<*const StrandHeader>,
    /// INVARIANT: initialised from `make` on, until `retire` or `leak` takes it; never initialised
    /// for a thread.
    coroutine: UnsafeCell<MaybeUninit<Coroutine>>,
    yielder: Cell<*const Yielder>,
    /// The wait of the strand; null when it does not wait. It lies in the frame that waits.
    pub(crate) record: Cell<*const WaitRecord>,
    stack_size: usize,
    pub(crate) strand: context::Strand,
    /// The worker to which this stack belongs until its end.
    pub(crate) owner: &'static Shared,
    pub(crate) armed: Armed,
    uses: Cell<u32>,
    /// The mark of the panic for which the panic hook was called last on this strand
    /// (panic_hook.rs).
    pub(crate) panic_reported: Cell<u32>,
    /// INVARIANT: the index of this stack in `Stacks::all`.
    pub(super) position: Cell<usize>,
    pub(crate) locals: Locals,
    /// Where the strand was spawned; the word of its header before its start.
    spawned_at: Cell<Option<&'static Location<'static>>>,
    start: StrandStart,
    /// The number of cancellations that strands on this stack have noticed
    /// (core/cancel/notices.rs).
    pub(crate) notices: Cell<u32>,
}

/// The start of the strand that has a stack.
struct StrandStart {
    /// In ms by the worker's coarse clock.
    at_ms: Cell<u32>,
    /// The epoch of the header at that time.
    epoch: Cell<u32>,
}

/// The bytes at the base that an idle stack keeps; if it was used deeper, the rest is given back.
const KEEP_BYTES: usize = 16 * 1024;
/// How many closures run on a stack between two looks at its high-water mark.
const USES_PER_CHECK: u32 = 64;

impl FiberStack {
    fn new(owner: &'static Shared, stack_size: usize, position: usize) -> Self {
        FiberStack {
            header: Cell::new(ptr::null()),
            yielder: Cell::new(ptr::null()),
            record: Cell::new(ptr::null()),
            coroutine: UnsafeCell::new(MaybeUninit::uninit()),
            owner,
            armed: Armed::new(),
            strand: context::Strand::new(0),
            stack_size,
            uses: Cell::new(0),
            panic_reported: Cell::new(UNREPORTED),
            position: Cell::new(position),
            locals: Locals::default(),
            spawned_at: Cell::new(None),
            start: StrandStart { at_ms: Cell::new(0), epoch: Cell::new(0) },
            notices: Cell::new(0),
        }
    }

    /// Stands for the stack of a thread: it has no coroutine and is never resumed.
    pub(crate) fn of_thread(owner: &'static Shared) -> Self {
        FiberStack::new(owner, 0, 0)
    }

    /// Where a copy of this from another thread finds the address of the header, and that of the
    /// record.
    pub(crate) const HEADER_OFFSET: usize = mem::offset_of!(FiberStack, header);
    pub(crate) const RECORD_OFFSET: usize = mem::offset_of!(FiberStack, record);
    pub(super) const SPAWNED_AT_OFFSET: usize = mem::offset_of!(FiberStack, spawned_at);
    /// Where a debugger finds the coroutine, with its saved stack pointer, and the size.
    pub(crate) const COROUTINE_OFFSET: usize = mem::offset_of!(FiberStack, coroutine);
    pub(crate) const COROUTINE_BYTES: usize = size_of::<Coroutine>();
    pub(crate) const SIZE_OFFSET: usize = mem::offset_of!(FiberStack, stack_size);

    /// The bytes at the base of a stack that are not the coroutine's: 16 less than whole lines.
    const RESERVED: usize = size_of::<FiberStack>().next_multiple_of(64) + 48;

    /// Makes a coroutine on that stack, with a `FiberStack` at its base.
    pub(super) fn make(
        memory: ramie_coro::Stack,
        owner: &'static Shared,
        size: usize,
        position: usize,
    ) -> *const FiberStack {
        let stack: *mut FiberStack =
            ptr::with_exposed_provenance_mut(memory.base().get() - Self::RESERVED);
        let content = FiberStack::new(owner, size, position);
        // SAFETY: within the part that is reserved below; nobody else has the stack.
        unsafe { stack.write(content) };
        let pointer = stack.cast_const();
        let coroutine = Coroutine::with_stack_below(memory, Self::RESERVED, move |yielder, ()| {
            main(pointer, yielder);
        });
        // SAFETY: just made, nobody else has it.
        let slot = unsafe { &*stack }.coroutine.get();
        // SAFETY: as above.
        unsafe { (*slot).write(coroutine) };
        pointer
    }

    #[inline]
    pub(crate) fn header(&self) -> &'static StrandHeader {
        // SAFETY: callers run on this stack, or found it on a run queue. So it is not idle, and
        // headers are never unmapped.
        unsafe { &*self.header.get() }
    }

    #[inline]
    pub(crate) fn try_header(&self) -> Option<&'static StrandHeader> {
        // SAFETY: null or a header, which is never unmapped.
        unsafe { self.header.get().as_ref() }
    }

    /// Prefetches the lines that the end of its wait touches.
    #[inline]
    pub(super) fn prefetch_wait(&self) {
        prefetch::line(self.header.get());
        prefetch::line(self.record.get());
    }

    /// Whether a local variable lies on this stack, at whose base `self` lies.
    #[inline(always)]
    pub(crate) fn has_on_its_stack<T>(&self, local: &T) -> bool {
        let base = ptr::from_ref(self).addr();
        base.wrapping_sub(ptr::from_ref(local).addr()) < self.stack_size
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.header.get().is_null()
    }

    /// Gives the thread back to the worker's loop, from whichever coroutine's stack this is called.
    ///
    /// Inlined, with all its callers, into the code of the fiber: the switch pairs its `ret` with
    /// the `call` of the resume, and a call frame in between would make the processor predict both
    /// returns wrongly (20 ns of a switch that takes 5).
    #[inline(always)]
    pub(crate) fn suspend(&self) {
        // SAFETY: set by `main` before any closure runs; it lies in the frame of `main`'s caller,
        // the first of this stack, which is alive while a closure runs.
        let yielder = unsafe { &*self.yielder.get() };
        // SAFETY: the worker's current strand calls this: on this stack, or on a coroutine's that
        // its code is resuming.
        unsafe { yielder.suspend(()) };
    }

    /// Runs the fiber until it suspends, or until the stack goes idle.
    ///
    /// # Safety
    /// Called by the loop of the worker that owns the stack, and not on the stack.
    #[inline(always)]
    pub(crate) unsafe fn resume(&self) {
        // SAFETY: only the worker's loop resumes stacks, and never one that runs: no other borrow.
        let coroutine = unsafe { &mut *self.coroutine.get() };
        // SAFETY: the invariant of the field; a stack that is retired or leaked is resumed no more.
        unsafe { coroutine.assume_init_mut() }.resume(());
    }

    /// Where a suspended fiber continues, for prefetches. Called by the loop of the worker that
    /// owns the stack, for a fiber.
    #[inline(always)]
    pub(super) fn stack_pointer(&self) -> *const u8 {
        debug_assert!(!self.is_of_thread(), "a thread has no coroutine");
        // SAFETY: the stack is suspended, since the loop runs: its coroutine is not being resumed.
        let coroutine = unsafe { &*self.coroutine.get() };
        // SAFETY: the invariant of the field.
        unsafe { coroutine.assume_init_ref() }.presumed_stack_pointer()
    }
}

impl FiberStack {
    /// Takes the coroutine out of a stack that is never resumed again.
    ///
    /// # Safety
    /// Called once, while the coroutine does not run.
    unsafe fn take_coroutine(&self) -> Coroutine {
        // SAFETY: the caller's promise: the worker's loop does not hold the coroutine.
        let coroutine = unsafe { self.coroutine.get().read() };
        // SAFETY: the invariant of the field.
        unsafe { coroutine.assume_init() }
    }

    /// Ends an idle stack and its coroutine, and returns the memory.
    ///
    /// # Safety
    /// Called by the loop of the worker that owns the stack, or when that has ended; the stack is
    /// not used afterwards.
    pub(super) unsafe fn end(&self) -> Option<ramie_coro::Stack> {
        // SAFETY: the caller's promise. Without a header, `main` returns.
        unsafe { self.resume() };
        // SAFETY: the coroutine has returned; `self` ends here, and has nothing else to drop.
        let coroutine = unsafe { self.take_coroutine() };
        coroutine.into_stack()
    }

    /// Leaks the coroutine and its memory.
    ///
    /// # Safety
    /// The fiber is suspended and nobody will ever resume it.
    pub(super) unsafe fn leak(&self) {
        // SAFETY: the fiber is suspended and never resumed again: its coroutine is taken once.
        let coroutine = unsafe { self.take_coroutine() };
        coroutine.leak();
    }

    /// The size that was asked for, in bytes; 0: a thread's.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.stack_size
    }

    /// Whether it is time to look at the high-water mark.
    #[inline]
    pub(super) fn needs_check(&self) -> bool {
        self.uses.get().is_multiple_of(USES_PER_CHECK)
    }

    /// Gives back the pages of an idle stack that only deep calls have used.
    #[cold]
    pub(super) fn give_back_deep_pages(&self) {
        debug_assert!(self.is_idle(), "a fiber uses the pages");
        // SAFETY: the stack is idle: its coroutine is not being resumed.
        let coroutine = unsafe { &*self.coroutine.get() };
        // SAFETY: the invariant of the field.
        let memory = unsafe { coroutine.assume_init_ref() }.stack();
        if memory.high_water_mark() > KEEP_BYTES {
            // SAFETY: the stack is idle: its coroutine is suspended in `main`, near the base, far
            // above the part that is released.
            unsafe { memory.release_unused(KEEP_BYTES) };
        }
    }
}

fn main(stack: *const FiberStack, yielder: &Yielder) {
    // SAFETY: it lies at the base of the coroutine's own stack, which is given back only after the
    // coroutine returned (`end`).
    let stack = unsafe { &*stack };
    stack.yielder.set(yielder);
    while let Some(header) = stack.try_header() {
        run_closures(&super::current(), stack, header);
        stack.header.set(ptr::null());
        // SAFETY: on the coroutine's own stack.
        unsafe { yielder.suspend(()) };
    }
}

/// Runs a closure, and then each fresh closure whose turn it is, which saves two switches for each.
fn run_closures(worker: &Worker, stack: &FiberStack, header: &'static StrandHeader) {
    let mut header = header;
    loop {
        stack.start.at_ms.set(worker.running.now_ms());
        crate::core::strand::run_to_end(worker, stack, header);
        match worker.next_fresh_for(stack) {
            Some(next) => header = next,
            None => return,
        }
    }
}

impl FiberStack {
    /// Becomes the stack of a fresh closure.
    #[inline]
    pub(super) fn adopt(&self, header: &'static StrandHeader) {
        self.uses.set(self.uses.get() + 1);
        self.panic_reported.set(UNREPORTED);
        self.strand.set_id(header.id_bits());
        self.stand_for(header);
    }

    /// Forgets the strand of a thread, which has ended.
    pub(super) fn stand_for_none(&self) {
        self.header.set(ptr::null());
    }

    /// Where the strand was spawned; none for a thread that was not spawned.
    pub(super) fn spawned_at(&self) -> Option<&'static Location<'static>> {
        self.spawned_at.get()
    }

    /// The number of full waits that the strand has begun, modulo 2^24.
    pub(super) fn waits(&self, header: &StrandHeader) -> u32 {
        header.epoch().wrapping_sub(self.start.epoch.get()) & ((1 << 24) - 1)
    }

    /// The time since the fiber started.
    pub(super) fn age_ms(&self, now_ms: u32) -> Option<u32> {
        (!self.is_of_thread()).then(|| now_ms.wrapping_sub(self.start.at_ms.get()))
    }

    /// The memory of the stack; none for a thread's. The caller is not on the stack, or runs there.
    pub(crate) fn info(&self) -> Option<ramie_coro::StackInfo> {
        if self.is_of_thread() {
            return None;
        }
        ramie_coro::stack_of(ptr::from_ref(self).addr())
    }

    /// Whether this stands for the stack of a thread.
    pub(crate) fn is_of_thread(&self) -> bool {
        self.stack_size == 0
    }

    /// Keeps the header of a strand that has ended, and whose header may be in use again, until the
    /// loop of the coroutine clears it.
    pub(crate) fn stand_for_ended(&self, header: &'static StrandHeader) {
        self.header.set(header);
    }

    /// Becomes the stack of that strand.
    #[inline]
    pub(crate) fn stand_for(&self, header: &'static StrandHeader) {
        self.header.set(header);
        self.spawned_at.set(header.spawned_at());
        self.start.epoch.set(header.epoch());
        header.stack.set(self);
    }
}
