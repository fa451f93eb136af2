//! The interface for programs that decide which fiber runs next: the trait, and the right to run a
//! fiber.

use std::{fmt, marker::PhantomData};

use super::{Next, Shared, with_existing};
use crate::core::strand::{FiberId, StrandHeader};

/// Decides which of the runnable fibers of a worker runs next.
///
/// # Panics
/// A policy that panics ends the process with a message, because its fibers could not be run any
/// more. A policy also ends the process if [`pop`](Self::pop) returns a fiber of another worker, or
/// `None` although the policy holds fibers, or if fibers are left that it kept when it was dropped.
///
/// A policy may drop a fiber, which is then pushed again; but one that drops all fibers lets none
/// run. It ends the process after a thousand calls of `pop` in a row that gave no fiber although
/// fibers were pushed before each, a million in total.
///
/// A policy runs inside [`no_switch`](crate::no_switch()): it may unpark and spawn fibers, and must
/// not wait.
pub trait Policy {
    /// Takes charge of a fiber that has become runnable.
    fn push(&mut self, runnable: Runnable);

    /// Returns the fiber that is to run next; `None` only if there is none.
    fn pop(&mut self) -> Option<Runnable>;
}

/// The right to run one fiber, once. If it is dropped, the fiber goes to the end of the worker's
/// queue, and from there to the policy again after the present, or the next, call of
/// [`pop`](Policy::pop).
///
/// A `Runnable` stays on its worker:
/// ```compile_fail,E0277
/// fn needs_send<T: Send>() {}
/// needs_send::<ramie::policy::Runnable>();
/// ```
pub struct Runnable {
    next: Option<Next>,
    owner: &'static Shared,
    not_send: PhantomData<*const ()>,
}

impl Runnable {
    pub(crate) fn new(next: Next, owner: &'static Shared) -> Self {
        Runnable { next: Some(next), owner, not_send: PhantomData }
    }

    pub(crate) fn owner(&self) -> &'static Shared {
        self.owner
    }

    pub(crate) fn into_next(mut self) -> Next {
        self.next.take().expect(KEPT)
    }

    fn header(&self) -> Option<&'static StrandHeader> {
        self.next.as_ref().expect(KEPT).header()
    }

    /// Returns the id of the fiber; `None` for the worker's own thread, outside of a fiber.
    #[must_use]
    pub fn id(&self) -> Option<FiberId> {
        self.header().map(StrandHeader::id)
    }

    /// Returns the name that the fiber was given.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.header()?.attributes.shared()?.options.name.as_deref()
    }

    /// Returns the priority that the fiber was given by
    /// [`Builder::priority`](crate::fiber::Builder::priority); 0 by default.
    #[must_use]
    pub fn priority(&self) -> i8 {
        let shared = self.header().and_then(|header| header.attributes.shared());
        shared.map_or(0, |shared| shared.options.priority)
    }

    /// Returns whether the fiber has not started yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self.next, Some(Next::Fresh(_)))
    }
}

const KEPT: &str = "a runnable keeps its fiber until it is run or dropped";

impl Drop for Runnable {
    fn drop(&mut self) {
        if let Some(next) = self.next.take() {
            with_existing(|worker| {
                if std::ptr::eq(self.owner, worker.shared) {
                    worker.plugged.take_back(next, &worker.scheduler);
                }
            });
        }
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runnable").field("id", &self.id()).finish_non_exhaustive()
    }
}
