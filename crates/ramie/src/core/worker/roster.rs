//! The threads for which the end of a runtime waits, so that their own waits for that end can be
//! refused instead of lasting for ever.
//!
//! The end waits for strands, and for code of the program that is on no strand: a job of the
//! blocking pool, for which a fiber waits; a function at the start or end of a worker; a destructor
//! of a thread-local of a worker's thread, because the thread is joined. On the thread of another
//! program's loop it is different: a wait there keeps that loop from giving turns. Only a fiber of
//! another worker that has turns may wait there, because the loop goes on meanwhile.
//!
//! A thread enters before it runs code of the program, and never leaves: ids of threads are never
//! used again, and once the runtime has ended nobody waits for it.

use std::{
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread::{self, ThreadId},
};

use super::{RuntimeRef, with_existing};

/// The threads of one runtime.
#[derive(Default)]
pub(crate) struct Roster {
    own: Mutex<Vec<ThreadId>>,
    /// The thread of the loop that drives worker 0.
    of_loop: OnceLock<ThreadId>,
}

/// How the calling code stands to the end of a runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// The end does not wait for it, or has come.
    Outside,
    /// The end waits for it.
    Within,
    /// The end needs turns, which the thread does not give while it waits.
    InLoop,
}

impl Roster {
    fn own(&self) -> MutexGuard<'_, Vec<ThreadId>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of the runtime waits for the calling thread.
    pub(crate) fn enter(&self) {
        self.own().push(thread::current().id());
    }

    /// The calling thread has the loop that drives worker 0.
    pub(crate) fn enter_loop(&self) {
        let _ = self.of_loop.set(thread::current().id());
    }

    fn has_this_thread(&self) -> bool {
        self.own().contains(&thread::current().id())
    }

    fn is_loop_here(&self) -> bool {
        self.of_loop.get() == Some(&thread::current().id())
    }
}

impl RuntimeRef {
    /// How the calling code stands to the end of the runtime.
    pub(crate) fn standing(&self) -> Standing {
        let entrance = self.entrance();
        if entrance.has_ended() {
            return Standing::Outside;
        }
        let is_in_job =
            || matches!(self, RuntimeRef::Workers(workers) if workers.pool.is_serving_here());
        if self.is_current() || entrance.roster.has_this_thread() || is_in_job() {
            return Standing::Within;
        }
        let has_turns = || {
            with_existing(|it| it.running.is_fiber() && it.root.guest.is_in_turn()) == Some(true)
        };
        match entrance.roster.is_loop_here() && !has_turns() {
            true => Standing::InLoop,
            false => Standing::Outside,
        }
    }

    /// Whether a fiber that is spawned from outside would only run in turns of the calling thread.
    pub(crate) fn needs_turns_of_this_thread(&self) -> bool {
        let RuntimeRef::Workers(workers) = self else { return false };
        workers.len() == 1 && self.standing() == Standing::InLoop
    }
}
