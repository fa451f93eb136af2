//! The ends of strands: by running to the end, without a start, without a stack, by abandonment.
#![allow(unsafe_code)]

use std::{any::Any, task::Waker};

use ramie_coro::{StackError, StackInfo, overflow::REMEDY};
use ramie_driver::{say, visible};

use crate::core::{
    strand::{ScopeData, SpawnOptions, StrandHeader},
    wait::completion::Finished,
    worker::{FiberStack, NoSwitch, Worker, end_contexts, with_existing},
};

/// The payload of the error from joining an abandoned fiber.
pub(crate) const ABANDONED: &str =
    "the fiber was abandoned, because it had not ended when its runtime's grace period expired";

/// Runs the closure of a fiber, and ends the fiber.
#[inline]
pub(crate) fn run_to_end(worker: &Worker, stack: &FiberStack, header: &'static StrandHeader) {
    run_and_end(worker, stack, header);
    worker.running.leave_no_switch();
    // Last of all, because destructors of a dropped outcome may have waited, too.
    worker.timers.forget(stack);
    worker.note_finished(true);
}

/// The same for an OS thread, which its worker does not count among its fibers.
pub(crate) fn run_thread_to_end(worker: &Worker, header: &'static StrandHeader) {
    run_and_end(worker, worker.running_stack(), header);
    worker.running.leave_no_switch();
    // From its end on, the header belongs to the handle, and may be another strand's already.
    worker.root.forget(&worker.timers);
    worker.note_finished(false);
}

#[inline(always)]
fn run_and_end(worker: &Worker, stack: &FiberStack, header: &'static StrandHeader) {
    // SAFETY: a scope waits for its strands: its data outlives this strand's end, below.
    let scope = unsafe { header.attributes.scope().as_ref() };
    worker.running.recorder.note_start(stack, header);
    let run = || {
        // SAFETY: the callers took the header off a queue of fresh closures, or made it for this
        // thread.
        unsafe { header.run_job() }
    };
    let panicked = match scope.and_then(ScopeData::inherited) {
        None => run(),
        Some(inherited) => inherited.enter(run),
    };
    destroy_locals(worker, stack);
    // SAFETY: the job has stored its outcome.
    unsafe { end(worker, header, panicked, Some(stack)) };
    // The destructors ran while the header was still this strand's. Only the memory is left.
    if !stack.locals.is_empty() {
        free_locals(worker, stack);
    }
}

/// Runs the destructors of the locals of the running strand, which continues.
pub(crate) fn destroy_own_locals() {
    let worker = crate::core::worker::current();
    destroy_locals(&worker, worker.running_stack());
}

/// Runs the destructors of a strand's locals before anybody learns of its end.
#[inline]
fn destroy_locals(worker: &Worker, stack: &FiberStack) {
    if !stack.locals.is_empty() {
        // They may wait, even if a coroutine was left suspended in a `no_switch` region.
        worker.running.leave_no_switch();
        stack.locals.destroy();
        // Hooks and destructors may initialize locals and attach contexts.
        while end_contexts(worker, stack) {
            stack.locals.destroy();
        }
    }
}

/// Frees the locals of a strand that has ended; their destructors have run.
#[cold]
fn free_locals(worker: &Worker, stack: &FiberStack) {
    destroy_locals(worker, stack);
    stack.locals.free();
}

/// Publishes the outcome, or drops it if no handle is left, and leaves the scope. `stack` is the
/// stack of the caller if the strand ends itself.
///
/// # Safety
/// The header's payload holds the outcome, and this is the strand's one end.
#[inline]
unsafe fn end(
    worker: &Worker,
    header: &'static StrandHeader,
    panicked: bool,
    stack: Option<&FiberStack>,
) {
    worker.running.recorder.note_end(header, panicked);
    let scope = header.attributes.scope();
    // SAFETY: a scope waits for its strands: its data outlives `child_ended` below.
    let scope = unsafe { scope.as_ref() };
    if panicked && let Some(scope) = scope {
        scope.note_interruption();
    }
    if header.join.is_detached() {
        // SAFETY: nobody holds a handle: the outcome and the header are this end's.
        unsafe { end_detached(worker, header, scope, panicked, stack) };
    } else {
        // From here on the header belongs to the handle, unless that has just gone.
        match header.join.finish() {
            // SAFETY: the handle detached before `finish`: the header is this end's after all.
            Finished::Detached => unsafe { end_detached(worker, header, scope, panicked, stack) },
            Finished::Waker(waker) => return wake_future(worker, *waker, header, scope, stack),
            finished => finished.wake(),
        }
    }
    if let Some(scope) = scope {
        scope.child_ended();
    }
}

/// Leaves the scope, then calls the waker of the future that waits for the strand. A waker is code
/// of the program: it may ask for the current strand, and the fiber-locals that it initializes are
/// destroyed, which may wait. But the header belongs to the handle by now, and may be another
/// strand's already. So a strand that ends by itself calls the waker under a temporary strand id,
/// with a header of its own. Its fiber-locals are still those of the ended strand: a local that the
/// strand has used is destroyed, and using it in the waker panics.
#[cold]
fn wake_future(
    worker: &Worker,
    waker: Waker,
    ended: &'static StrandHeader,
    scope: Option<&ScopeData>,
    stack: Option<&FiberStack>,
) {
    if let Some(scope) = scope {
        // Not later, because the scope does not wait for the waker.
        scope.child_ended();
    }
    let Some(stack) = stack else { return crate::core::wait::wake(waker) };
    let Ok(header) = worker.headers.take(stack.is_of_thread()) else {
        ramie_driver::sys::fatal(
            "there is no memory to wake a future that waits for the end of a strand; raise the \
             address space limit (ulimit -v) or run fewer strands at once. Aborting.",
        )
    };
    stack.stand_for(header);
    crate::core::wait::wake(waker);
    destroy_locals(worker, stack);
    worker.timers.forget(stack);
    stack.stand_for_ended(ended);
    // SAFETY: nobody has a handle of this strand, and its payload was never filled.
    unsafe { worker.headers.free(header) };
}

#[cold]
unsafe fn end_detached(
    worker: &Worker,
    header: &'static StrandHeader,
    scope: Option<&ScopeData>,
    panicked: bool,
    stack: Option<&FiberStack>,
) {
    if let Some(scope) = scope.filter(|_| panicked)
        // SAFETY: the caller's promise: the outcome is this end's.
        && let Some(why) = unsafe { header.why_no_value() }
    {
        scope.note_panic(label(header), why);
    }
    // SAFETY: the caller's promise: the payload holds the outcome and is this end's.
    unsafe { header.drop_outcome() };
    if let Some(stack) = stack {
        // Destroys the locals that the outcome's destructor has initialized.
        destroy_locals(worker, stack);
    }
    // SAFETY: the outcome is dropped, nobody holds the header.
    unsafe { worker.headers.free(header) };
}

/// Ends a strand that will never start: drops its closure, and lets joining it fail with `why`.
///
/// # Safety
/// The caller took the header off a queue of fresh closures.
pub(crate) unsafe fn end_unstarted(
    worker: &Worker,
    header: &'static StrandHeader,
    why: Box<dyn Any + Send>,
) {
    header.forget_spawn();
    // SAFETY: the caller's promise.
    unsafe { header.discard_job(why) };
    // SAFETY: `discard_job` has stored the outcome.
    unsafe { end(worker, header, true, None) };
    worker.note_finished(false);
}

/// Ends a fiber for which there is no stack.
///
/// # Safety
/// As for [`end_unstarted`].
#[cold]
pub(crate) unsafe fn fail_to_start(
    worker: &Worker,
    header: &'static StrandHeader,
    error: StackError,
) {
    // The program's logger and the closure's destructor run in the worker's loop. The loop runs
    // because the thread's own strand waits, so waiting here would begin a second wait of that
    // strand.
    let _no_switch = NoSwitch::new(worker);
    let label = label(header);
    let why = format!("{label} cannot start: {error}");
    say!(Error, "{why}");
    let why: Box<dyn Any + Send> = Box::new(why);
    // SAFETY: the caller's promise.
    unsafe { end_unstarted(worker, header, why) };
}

/// Ends a started fiber that will never run again: joining it gives an error.
///
/// # Safety
/// Nobody will ever schedule the fiber.
pub(crate) unsafe fn end_abandoned(
    worker: &Worker,
    stack: &FiberStack,
    header: &'static StrandHeader,
) {
    worker.timers.forget(stack);
    // SAFETY: its closure began and will never end: the payload is empty.
    unsafe { header.store_error(Box::new(ABANDONED)) };
    // The fiber stays on the count of its scope, because its borrows may still be in use.
    let scope = header.attributes.scope();
    header.attributes.forget_scope();
    // SAFETY: the outcome is stored.
    unsafe { end(worker, header, false, None) };
    // SAFETY: the scope waits for its strands, and this strand never ends, so the scope's data
    // stays.
    if let Some(scope) = unsafe { scope.as_ref() } {
        scope.child_lost(&worker.stacks.loans);
    }
    worker.note_finished(true);
}

/// Returns the name of a strand for messages.
pub(crate) fn label(header: &StrandHeader) -> String {
    label_with(header, header.attributes.shared().and_then(|shared| shared.options.name.as_deref()))
}

/// The same for a strand of that name.
pub(crate) fn label_with(header: &StrandHeader, name: Option<&str>) -> String {
    let noun = if header.is_thread() { "thread" } else { "fiber" };
    match name {
        Some(name) => format!("{noun} '{}'", visible::line(name)),
        None => format!("{noun} {}", header.id()),
    }
}

/// The stack size that the spawner requested, in bytes; 0: the default.
#[inline]
pub(crate) fn requested_stack_size(header: &StrandHeader) -> usize {
    header.attributes.shared().map_or(0, |shared| shared.options.stack_size)
}

/// Whether the strand was placed on a worker that `Builder::on` names.
#[inline]
pub(crate) fn is_placed(header: &StrandHeader) -> bool {
    header.attributes.shared().is_some_and(|shared| shared.options.is_placed)
}

/// Gives the strand of an OS thread that thread's name.
pub(crate) fn name_after_thread(header: &StrandHeader) {
    let name = std::thread::current().name().map(str::to_owned);
    header.attributes.install(std::ptr::null(), SpawnOptions { name, ..SpawnOptions::default() });
}

/// Frees the header of a thread that was a strand without having been spawned.
pub(crate) fn free_root(worker: &Worker, header: &'static StrandHeader) {
    if !header.is_spawned() {
        // SAFETY: nobody has a handle of a strand that was not spawned, and its payload was never
        // filled; outstanding ids become stale.
        unsafe { worker.headers.free(header) };
    }
}

/// Lets reports of stack overflows name the fiber and the remedy.
pub(crate) fn describe_overflows() {
    let describe = |overflowed: &StackInfo, out: &mut dyn std::fmt::Write| {
        let fiber = |worker: &Worker| {
            let fiber = worker.running.fiber()?;
            let is_own = fiber.info().is_some_and(|own| own.base() == overflowed.base());
            Some((worker.current_header(), is_own))
        };
        let Some((header, is_own)) = with_existing(fiber).flatten() else { return false };
        let _ = report_overflow(header, is_own, out);
        true
    };
    // SAFETY: the function only reads the current thread's worker and header, and writes to `out`.
    unsafe { ramie_coro::overflow::set_describer(describe) };
}

/// Says whose stack it is, and what to do. Runs in a signal handler.
fn report_overflow(
    header: &StrandHeader,
    is_own: bool,
    out: &mut dyn std::fmt::Write,
) -> std::fmt::Result {
    if is_own {
        out.write_str("It is the stack of ")?;
        describe(header, out)?;
        out.write_str(
            "; enlarge it with Builder::stack_size, or those of all fibers with RAMIE_STACK",
        )
    } else {
        describe(header, out)?;
        write!(out, " runs it in a coroutine. {REMEDY}")
    }
}

/// Runs in a signal handler: reads the header, allocates nothing.
fn describe(header: &StrandHeader, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
    match header.attributes.shared().and_then(|shared| shared.options.name.as_deref()) {
        Some(name) => write!(out, "fiber '{}'", visible::line(name)),
        None => write!(out, "fiber {}", header.id()),
    }
}
