//! A run-queue policy that the program plugs in.
//!
//! Runnable fibers go to the worker's own queue nevertheless, so that no push is slower; before
//! each choice the queue is emptied into the policy.

use std::{
    cell::{Cell, RefCell},
    ptr,
};

use ramie_coro::context::without_coroutines;

use super::{
    Next, NoSwitch, Scheduler, Worker,
    policy::{Policy, Runnable},
};

/// A policy ends the process when it was called this many times in a row, and handed
/// [`VAIN_PUSHES`] fibers meanwhile, without giving one. Both, because a policy that drops nearly
/// all fibers by chance gives one of a few within so many pushes, and one of many within so many
/// calls.
const VAIN_CALLS: u32 = 1_000;
const VAIN_PUSHES: u64 = 1_000_000;

/// The policy of one worker, if it has one.
#[derive(Default)]
pub(super) struct Plugged {
    policy: RefCell<Option<Box<dyn Policy>>>,
    /// How many runnables the policy holds.
    held: Cell<usize>,
    /// The calls since the policy gave a fiber, and the fibers that it was handed meanwhile.
    in_vain: Cell<(u32, u64)>,
}

impl Plugged {
    pub(super) fn is_some(&self) -> bool {
        self.policy.borrow().is_some()
    }

    pub(super) fn holds_any(&self) -> bool {
        self.held.get() > 0
    }
}

/// Ends the process when the policy panics: the fibers it holds would never run again.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            abort("the run-queue policy panicked, and with it the fibers that it held are lost");
        }
    }
}

#[cold]
fn abort(what: &str) -> ! {
    ramie_driver::sys::fatal(&format!(
        "{what}. Mend the type that is given to Builder::policy. Aborting."
    ))
}

impl Worker {
    /// Lets `policy` decide which fiber runs next.
    pub(crate) fn plug(&mut self, policy: Box<dyn Policy>) {
        self.plugged.policy = RefCell::new(Some(policy));
        self.scheduler.may_chain = false;
    }
}

impl Plugged {
    /// Gives the policy all fibers that have become runnable, and asks it for the next one.
    #[inline(never)]
    pub(super) fn next(&self, worker: &Worker) -> Option<Next> {
        // The policy's code is no fiber's, and must not wait.
        worker.leave_fibers();
        let _no_switch = NoSwitch::new(worker);
        let _abort = AbortOnPanic;
        // Otherwise the unwinding of a body around `run` would look like a panic of the policy.
        without_coroutines(|| self.ask(worker))
    }

    fn ask(&self, worker: &Worker) -> Option<Next> {
        let mut policy = self.policy.borrow_mut();
        let policy = policy.as_mut()?;
        let (scheduler, shared) = (&worker.scheduler, worker.shared);
        // Not the fibers that the policy drops meanwhile: one that drops all would never be asked.
        let count = scheduler.ready.len();
        let started = std::iter::from_fn(|| scheduler.ready.pop()).take(count);
        let member = worker.membership.as_ref();
        let fresh = member.and_then(|member| member.pop_to_start(shared.live()));
        let mut pushes = 0;
        for next in started.chain(fresh.map(Next::Fresh)) {
            self.held.set(self.held.get() + 1);
            policy.push(Runnable::new(next, shared));
            pushes += 1;
        }
        match policy.pop() {
            Some(runnable) if !ptr::eq(runnable.owner(), shared) => {
                abort("the run-queue policy gave a fiber of another worker")
            }
            Some(runnable) => {
                self.held.set(self.held.get() - 1);
                self.in_vain.set((0, 0));
                Some(runnable.into_next())
            }
            None if scheduler.ready.is_empty() && self.holds_any() => {
                abort("the run-queue policy holds fibers, and gave none of them")
            }
            None => {
                self.count_in_vain(pushes);
                None
            }
        }
    }

    /// Counts a call for which the policy gave no fiber. The fibers that it dropped are in the
    /// queue again, so the worker calls it again at once.
    fn count_in_vain(&self, pushes: u64) {
        let (calls, before) = self.in_vain.get();
        // Without a fiber to run, no fiber is withheld.
        let in_vain = if pushes == 0 { (0, 0) } else { (calls.saturating_add(1), before + pushes) };
        self.in_vain.set(in_vain);
        if in_vain.0 >= VAIN_CALLS && in_vain.1 >= VAIN_PUSHES {
            abort("the run-queue policy drops the fibers that it is handed, and gives none of them")
        }
    }

    /// Counts a fiber that the policy dropped, and queues it again.
    pub(super) fn take_back(&self, next: Next, scheduler: &Scheduler) {
        self.held.set(self.held.get().saturating_sub(1));
        match next {
            Next::Fiber(stack) => scheduler.ready.push_stack(stack),
            Next::Fresh(header) => scheduler.ready.push_fresh(header),
            Next::Root => scheduler.ready.push_root(),
        }
    }

    /// Drops the policy; its fibers are in the queue again.
    pub(super) fn unplug(&self, worker: &Worker) {
        let policy = self.policy.take();
        if policy.is_some() {
            let _no_switch = NoSwitch::new(worker);
            let _abort = AbortOnPanic;
            without_coroutines(|| drop(policy));
        }
        if self.holds_any() {
            abort("the run-queue policy is gone, and fibers that it was handed did not come back");
        }
    }
}
