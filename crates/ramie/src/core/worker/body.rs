//! The body of a fiber: a coroutine on a stack of its own, which runs one closure after another.
//!
//! A stack is costly the first time (a guard, a page fault) and cheap ever after, so bodies are
//! pooled, the hottest first. A pooled body is not a finished coroutine but one suspended at the
//! bottom of its loop: to run the next closure is one resume.
//!
//! | state | `header` | left by |
//! |---|---|---|
//! | idle | none | [`Bodies::assign`], then a resume |
//! | running, suspended | the fiber's | the end of the closure, which takes the next fresh closure at once or goes idle |
//!
//! A thread that waits is a strand too, and has a body for that, which is never resumed.
#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell, UnsafeCell},
    mem::MaybeUninit,
    ptr,
};

use ramie_coro::{
    StackError, StackPool, StackSize,
    bare::{BareCoroutine, BareYielder},
    context,
};

use super::{Shared, Worker, panic_hook::UNTOLD, prefetch};
use crate::core::{local::Locals, strand::StrandHeader, time::Armed, wait::park::WaitRecord};

type Coroutine = BareCoroutine<(), (), ()>;
type Yielder = BareYielder<(), ()>;

/// It lies at the base of its own stack, in the page that every switch touches. What a switch
/// touches shares one cache line with the link to the resumer, which the switch keeps in the 16
/// bytes below; what a wait touches besides, and no more, is in the next:
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
pub(crate) struct Body {
    header: Cell<*const StrandHeader>,
    /// INVARIANT: initialised from `Bodies::make` on, until `retire` or `leak` takes it; never in a
    /// thread's body.
    coroutine: UnsafeCell<MaybeUninit<Coroutine>>,
    yielder: Cell<*const Yielder>,
    /// What the strand waits for, null when it does not wait. Lies in the frame that waits.
    pub(crate) record: Cell<*const WaitRecord>,
    stack_size: usize,
    pub(crate) strand: context::Strand,
    /// The worker that this body never leaves.
    pub(crate) home: &'static Shared,
    pub(crate) armed: Armed,
    uses: Cell<u32>,
    /// For which panic of its strand the panic hook was called last (panic_hook.rs).
    pub(crate) panic_told: Cell<u32>,
    /// INVARIANT: where this body stands in `Bodies::all`.
    position: Cell<usize>,
    pub(crate) locals: Locals,
}

/// A body whose stack reached below this is asked to give the rest back.
const KEEP_BYTES: usize = 16 * 1024;
/// How many closures a body runs between two looks at its high-water mark.
const USES_PER_CHECK: u32 = 64;

impl Body {
    fn new(home: &'static Shared, stack_size: usize, position: usize) -> Self {
        Body {
            header: Cell::new(ptr::null()),
            yielder: Cell::new(ptr::null()),
            record: Cell::new(ptr::null()),
            coroutine: UnsafeCell::new(MaybeUninit::uninit()),
            home,
            armed: Armed::new(),
            strand: context::Strand::new(0),
            stack_size,
            uses: Cell::new(0),
            panic_told: Cell::new(UNTOLD),
            position: Cell::new(position),
            locals: Locals::default(),
        }
    }

    /// Makes the body of a thread that waits: it has no coroutine and is never resumed.
    pub(crate) fn of_thread(home: &'static Shared) -> Self {
        Body::new(home, 0, 0)
    }

    /// Bytes at the base of the stack that are not the coroutine's: 16 less than whole lines.
    const RESERVED: usize = size_of::<Body>().next_multiple_of(64) + 48;

    /// Where the body of that stack goes.
    fn place(stack: &ramie_coro::Stack) -> *mut Body {
        ptr::with_exposed_provenance_mut(stack.base().get() - Self::RESERVED)
    }

    #[inline]
    pub(crate) fn header(&self) -> &'static StrandHeader {
        // SAFETY: callers run on this body, or found it on a run queue: it is not idle, and headers
        // are never unmapped.
        unsafe { &*self.header.get() }
    }

    #[inline]
    pub(crate) fn try_header(&self) -> Option<&'static StrandHeader> {
        // SAFETY: null or a header, which is never unmapped.
        unsafe { self.header.get().as_ref() }
    }

    /// Brings nearer what the end of its wait touches.
    #[inline]
    pub(super) fn prefetch_wait(&self) {
        prefetch::line(self.header.get());
        prefetch::line(self.record.get());
    }

    /// Whether a local variable lies on this body's stack, at whose base the body itself lies.
    #[inline(always)]
    pub(crate) fn has_on_its_stack(&self, local: &u8) -> bool {
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
        // SAFETY: set by `main` before any closure runs; it lies in `main`'s caller's frame, at the
        // bottom of this body's stack, which is alive while a closure runs.
        let yielder = unsafe { &*self.yielder.get() };
        // SAFETY: the worker's current strand calls this: on this stack, or on a coroutine's that
        // its code is resuming.
        unsafe { yielder.suspend(()) };
    }

    /// Runs the body until it suspends or goes idle.
    ///
    /// # Safety
    /// Called by the loop of the worker that owns the body, and not from within the body.
    #[inline(always)]
    pub(crate) unsafe fn resume(&self) {
        // SAFETY: only the worker's loop resumes bodies, and never one that runs: no other borrow.
        let coroutine = unsafe { &mut *self.coroutine.get() };
        // SAFETY: the invariant of the field; a body that is retired or leaked is resumed no more.
        unsafe { coroutine.assume_init_mut() }.resume(());
    }
}

impl Body {
    /// Takes the coroutine out of a body that is never resumed again.
    ///
    /// # Safety
    /// Called once, while the body does not run.
    unsafe fn take_coroutine(&self) -> Coroutine {
        // SAFETY: the caller's promise: the worker's loop does not hold the coroutine.
        let coroutine = unsafe { self.coroutine.get().read() };
        // SAFETY: the invariant of the field.
        unsafe { coroutine.assume_init() }
    }
}

fn main(body: *const Body, yielder: &Yielder) {
    // SAFETY: the body lies on the coroutine's own stack, which is given back only after the
    // coroutine returned (`Bodies::retire`).
    let body = unsafe { &*body };
    body.yielder.set(yielder);
    while let Some(header) = body.try_header() {
        run_closures(&super::current(), body, header);
        body.header.set(ptr::null());
        // SAFETY: on the coroutine's own stack.
        unsafe { yielder.suspend(()) };
    }
}

/// Runs a closure, then those fresh ones whose turn it is: each saves two switches.
fn run_closures(worker: &Worker, body: &Body, header: &'static StrandHeader) {
    let mut header = header;
    loop {
        crate::core::strand::run_to_end(worker, body, header);
        match worker.next_fresh_for(body) {
            Some(next) => header = next,
            None => return,
        }
    }
}

impl Body {
    /// Takes on a fresh closure.
    #[inline]
    pub(super) fn adopt(&self, header: &'static StrandHeader) {
        self.uses.set(self.uses.get() + 1);
        self.panic_told.set(UNTOLD);
        self.strand.set_id(header.id_bits());
        self.stand_for(header);
    }

    /// A thread's strand has ended.
    pub(super) fn stand_for_none(&self) {
        self.header.set(ptr::null());
    }

    /// Whether it is a thread's, and not a fiber's.
    pub(crate) fn is_of_thread(&self) -> bool {
        self.stack_size == 0
    }

    /// Is the body of a strand whose header belongs to others by now, until its loop takes notice.
    pub(crate) fn stand_for_ended(&self, header: &'static StrandHeader) {
        self.header.set(header);
    }

    /// Becomes the body of that strand.
    #[inline]
    pub(crate) fn stand_for(&self, header: &'static StrandHeader) {
        self.header.set(header);
        header.body.set(self);
    }
}

/// The bodies of one worker.
pub(crate) struct Bodies {
    /// Suspended at the bottom of their loop, with the default stack size, the hottest last.
    idle: RefCell<Vec<*const Body>>,
    /// All there are, for dumps and for giving them up.
    all: RefCell<Vec<*const Body>>,
    /// One for each class in use: the default size, and powers of two.
    pools: RefCell<Vec<(usize, StackPool)>>,
    default_size: usize,
    home: &'static Shared,
    /// Bodies went idle since the last look at the high-water marks.
    is_unchecked: Cell<bool>,
}

/// As many idle bodies as are kept however long the worker has been idle.
const IDLE_KEPT: usize = 256;
/// How many are given back between two looks for other work: a stack takes some us.
const GIVEN_BACK_AT_ONCE: usize = 64;

impl Bodies {
    pub(crate) fn new(home: &'static Shared, default_size: usize) -> Self {
        Bodies {
            home,
            idle: RefCell::new(Vec::new()),
            all: RefCell::new(Vec::new()),
            pools: RefCell::new(Vec::new()),
            default_size,
            is_unchecked: Cell::new(false),
        }
    }

    pub(crate) fn default_size(&self) -> usize {
        self.default_size
    }

    /// How many there are, with a fiber or without.
    pub(super) fn count(&self) -> usize {
        self.all.borrow().len()
    }

    #[inline]
    pub(crate) fn fits(&self, body: &Body, header: &StrandHeader) -> bool {
        body.stack_size == self.size_for(header)
    }

    /// Few classes, so that there are few pools, whatever sizes a program asks for.
    fn size_for(&self, header: &StrandHeader) -> usize {
        match crate::core::strand::requested_stack_size(header) {
            0 => self.default_size,
            size if size == self.default_size => size,
            size => size.next_power_of_two(),
        }
    }

    /// Finds or makes a body for a fresh closure.
    ///
    /// # Errors
    /// When there is no memory for one more stack.
    #[inline]
    pub(crate) fn assign(&self, header: &'static StrandHeader) -> Result<&Body, StackError> {
        let size = self.size_for(header);
        let idle = if size == self.default_size { self.idle.borrow_mut().pop() } else { None };
        let body = match idle {
            Some(body) => body,
            None => self.make(size)?,
        };
        // SAFETY: bodies in `idle` and fresh from `make` are alive until `retire`.
        let body = unsafe { &*body };
        body.adopt(header);
        Ok(body)
    }

    #[cold]
    fn make(&self, size: usize) -> Result<*const Body, StackError> {
        let stack = self.take_stack(size)?;
        let body = Body::place(&stack);
        let position = self.all.borrow().len();
        let content = Body::new(self.home, size, position);
        // SAFETY: within the part of the stack that is reserved below; nobody else has the stack.
        unsafe { body.write(content) };
        let pointer: *const Body = body;
        let coroutine = Coroutine::with_stack_below(stack, Body::RESERVED, move |yielder, ()| {
            main(pointer, yielder);
        });
        // SAFETY: just made, nobody else has it.
        let home = unsafe { &*body }.coroutine.get();
        // SAFETY: as above.
        unsafe { (*home).write(coroutine) };
        let mut all = self.all.borrow_mut();
        all.push(pointer);
        // Room for all of them now, while it holds none: a copy when many go idle takes 1 ms.
        self.idle.borrow_mut().reserve(all.capacity());
        Ok(pointer)
    }

    fn take_stack(&self, size: usize) -> Result<ramie_coro::Stack, StackError> {
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

    /// Takes back a body that went idle.
    #[inline]
    pub(crate) fn recycle(&self, body: &Body) {
        if body.stack_size != self.default_size {
            let size = body.stack_size;
            let stack = self.retire(body);
            return self.put_stack(size, stack);
        }
        if body.uses.get().is_multiple_of(USES_PER_CHECK) {
            give_back_deep_pages(body);
        }
        self.is_unchecked.set(true);
        self.idle.borrow_mut().push(body);
    }

    /// Ends an idle body and its coroutine, and returns the stack.
    #[cold]
    fn retire(&self, body: &Body) -> Option<ramie_coro::Stack> {
        // SAFETY: called by the loop, or when the loop has ended. Without a header, `main` returns.
        unsafe { body.resume() };
        self.unlist(body);
        // SAFETY: the invariant of the field; the body ends here, and has nothing else to drop.
        let coroutine = unsafe { body.take_coroutine() };
        coroutine.into_stack()
    }

    fn put_stack(&self, size: usize, stack: Option<ramie_coro::Stack>) {
        let mut pools = self.pools.borrow_mut();
        let pool = pools.iter_mut().find(|(of, _)| *of == size);
        if let (Some((_, pool)), Some(stack)) = (pool, stack) {
            pool.put(stack);
        }
    }

    fn unlist(&self, body: &Body) {
        let mut all = self.all.borrow_mut();
        let position = body.position.get();
        all.swap_remove(position);
        if let Some(moved) = all.get(position) {
            // SAFETY: bodies in `all` are alive.
            unsafe { &**moved }.position.set(position);
        }
    }

    /// Whether a quiet moment could be used to give memory back.
    pub(crate) fn has_surplus(&self) -> bool {
        self.is_unchecked.get() || self.idle.borrow().len() > IDLE_KEPT
    }

    /// Gives back pages of deep calls, and half of the idle bodies beyond those kept: little by
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
        for bodies in hottest.chunks(GIVEN_BACK_AT_ONCE) {
            if is_wanted() {
                return;
            }
            for body in bodies {
                // SAFETY: bodies in `idle` are alive, and leave it only when a fiber starts, or
                // below.
                give_back_deep_pages(unsafe { &**body });
            }
        }
        self.is_unchecked.set(false);
    }

    /// Ends idle bodies: those below the ones kept, so that hardly any move in the list.
    fn give_back(&self, count: usize) {
        let surplus: Vec<_> = {
            let mut idle = self.idle.borrow_mut();
            let end = idle.len().saturating_sub(IDLE_KEPT);
            idle.drain(end.saturating_sub(count)..end).collect()
        };
        for body in surplus {
            // SAFETY: it was in `idle`: alive, and suspended at the bottom of its loop.
            let body = unsafe { &*body };
            // Dropped rather than pooled, a stack gives all its memory back.
            drop(self.retire(body));
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

    /// The fibers that have started and not ended.
    pub(crate) fn live(&self) -> Vec<(*const Body, &'static StrandHeader)> {
        let all = self.all.borrow();
        // SAFETY: bodies in `all` are alive.
        all.iter().filter_map(|body| Some((*body, unsafe { &**body }.try_header()?))).collect()
    }

    /// Gives up a live fiber for good: its stack is never touched, freed or reused again.
    ///
    /// # Safety
    /// The fiber is suspended and nobody will ever schedule it.
    pub(crate) unsafe fn leak(&self, body: *const Body) {
        // SAFETY: listed in `all` until now: alive; it stays so, because its stack is leaked.
        let body = unsafe { &*body };
        self.unlist(body);
        // SAFETY: the fiber is suspended and never resumed again: its coroutine is taken once.
        let coroutine = unsafe { body.take_coroutine() };
        coroutine.leak();
    }
}

fn with_stack<R>(body: &Body, f: impl FnOnce(&ramie_coro::Stack) -> R) -> R {
    // SAFETY: the body is idle: its coroutine is not being resumed.
    let coroutine = unsafe { &*body.coroutine.get() };
    // SAFETY: the invariant of the field.
    f(unsafe { coroutine.assume_init_ref() }.stack())
}

#[cold]
fn give_back_deep_pages(body: &Body) {
    with_stack(body, |stack| {
        if stack.high_water_mark() > KEEP_BYTES {
            // SAFETY: the body is idle: its coroutine is suspended in `main`, at the bottom of its
            // stack, far above the part that is released.
            unsafe { stack.release_unused(KEEP_BYTES) };
        }
    });
}

impl Drop for Bodies {
    fn drop(&mut self) {
        for body in self.idle.take() {
            // SAFETY: it was in `idle`: alive and suspended at the bottom of its loop.
            self.retire(unsafe { &*body });
        }
    }
}
