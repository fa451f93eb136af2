//! The entrance of a runtime: spawns by threads that are none of its workers, the beginning of its
//! end, and the threads that wait for its end.
//!
//! # Protocol
//!
//! | the entrance is | changed by |
//! |---|---|
//! | open | [`close`](Entrance::close), to closed: the closure of `run` has returned, or a shutdown has begun |
//! | closed: spawns are refused, the strands alive go on | [`end`](Entrance::end), to ended: the workers are gone |
//! | ended | - |
//!
//! *The race to fear*: a closure is admitted, and the workers find that no strand is alive before
//! it is counted, so nobody starts it. A spawner holds the lock for reading from its look at the
//! state until its closure is counted and queued. `close` writes under the same lock, and the
//! workers look for the end only after that. So whatever was admitted is counted by then.
//!
//! No code of the program runs under the lock, so a lock of std is right also on fibers.
//!
//! The *end* may be awaited by any number of strands, threads and futures. Each leaves a
//! [`Completion`] under the lock of `end`.
//!
//! # Fork
//! The child of a fork has a copy of the entrance, and none of the workers. There all calls fail.

use std::{
    error::Error,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
    task::Waker,
};

use ramie_driver::sys::fork::ForkMark;

use super::{Roster, Workers};
use crate::core::{
    strand::{FreeList, StrandHeader},
    wait::{
        completion::Completion,
        park::{Refused, WaitKind, WaitRecord},
    },
};

static END: WaitKind = WaitKind::new("the end of a runtime");

/// The runtime of a handle has ended, or its end has begun, so it takes no more fibers.
///
/// As an [`io::Error`] it is of kind `Other`; [`RuntimeEnded::of`] finds it there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuntimeEnded {
    is_forked: bool,
}

impl RuntimeEnded {
    pub(crate) const ENDED: RuntimeEnded = RuntimeEnded { is_forked: false };
    const FORKED: RuntimeEnded = RuntimeEnded { is_forked: true };

    /// Returns the value in an I/O error, if the error is one of these.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&RuntimeEnded> {
        error.get_ref()?.downcast_ref()
    }

    /// Returns whether the reason is that this process is the child of a fork, which has none of
    /// the workers.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.is_forked
    }
}

impl fmt::Display for RuntimeEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_forked {
            false => {
                "the runtime has ended, or its shutdown has begun; keep it alive while its handles \
                 are used"
            }
            true => {
                "the runtime belongs to the process that was forked, and its workers do not run in \
                 the child; fork before the first runtime starts, or exec in the child"
            }
        })
    }
}

impl Error for RuntimeEnded {}

impl From<RuntimeEnded> for io::Error {
    fn from(ended: RuntimeEnded) -> io::Error {
        io::Error::other(ended)
    }
}

/// The entrance of one runtime.
pub(crate) struct Entrance {
    is_open: RwLock<bool>,
    /// Headers for spawners, which need not have a worker of their own.
    headers: Mutex<FreeList>,
    end: Mutex<EntranceEnd>,
    /// The threads for which the end waits.
    pub(crate) roster: Roster,
    mark: ForkMark,
}

#[derive(Default)]
struct EntranceEnd {
    /// What was abandoned, a line for each strand, once the runtime has ended.
    abandoned: Option<Arc<[String]>>,
    waiters: Vec<Arc<Completion>>,
}

/// The right to enter, which keeps the entrance open.
pub(crate) struct Admission<'a> {
    entrance: &'a Entrance,
    _open: RwLockReadGuard<'a, bool>,
}

impl Default for Entrance {
    fn default() -> Self {
        Entrance {
            is_open: RwLock::new(true),
            headers: Mutex::new(FreeList::new()),
            end: Mutex::default(),
            roster: Roster::default(),
            mark: ForkMark::get(),
        }
    }
}

impl Entrance {
    /// Admits a spawn, or another call that needs the workers. The caller runs no code of the
    /// program while it keeps the value.
    pub(crate) fn admit(&self) -> Result<Admission<'_>, RuntimeEnded> {
        // First, because another thread may have held a lock at the moment of the fork.
        if self.mark.is_child() {
            return Err(RuntimeEnded::FORKED);
        }
        let is_open = self.is_open.read().unwrap_or_else(PoisonError::into_inner);
        if !*is_open {
            return Err(RuntimeEnded::ENDED);
        }
        Ok(Admission { entrance: self, _open: is_open })
    }

    /// Refuses all further spawns; those that were admitted are complete. Returns whether the
    /// entrance was open.
    pub(crate) fn close(&self) -> bool {
        let mut is_open = self.is_open.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *is_open, false)
    }

    /// Whether the entrance is open, in the process to which it belongs.
    pub(crate) fn is_open(&self) -> bool {
        self.admit().is_ok()
    }

    /// Whether this process is the child of a fork.
    pub(crate) fn is_forked(&self) -> bool {
        self.mark.is_child()
    }

    fn lock_end(&self) -> MutexGuard<'_, EntranceEnd> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the runtime has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock_end().abandoned.is_some()
    }

    /// The runtime has ended: its workers are gone.
    pub(crate) fn end(&self, abandoned: Arc<[String]>) {
        self.close();
        let waiters = {
            let mut end = self.lock_end();
            end.abandoned.get_or_insert(abandoned);
            std::mem::take(&mut end.waiters)
        };
        waiters.iter().for_each(|waiter| waiter.finish().wake());
    }

    /// Waits until the runtime has ended, and returns the lines of the strands that were abandoned.
    ///
    /// # Errors
    /// A fiber that unwinds does not wait.
    #[track_caller]
    pub(crate) fn wait_for_end(&self) -> Result<Arc<[String]>, Refused> {
        let waiter = Arc::new(Completion::new());
        {
            let mut end = self.lock_end();
            if let Some(abandoned) = &end.abandoned {
                return Ok(Arc::clone(abandoned));
            }
            end.waiters.push(Arc::clone(&waiter));
        }
        let waited = waiter.wait(&WaitRecord::new(&END));
        self.forget_waiter(&waiter);
        waited?;
        Ok(self.abandoned())
    }

    /// Returns the lines if the runtime has ended; otherwise leaves a waker in the waiter of a
    /// future, which the first poll makes.
    pub(crate) fn poll_end(
        &self,
        waiter: &mut Option<Arc<Completion>>,
        waker: &Waker,
    ) -> Option<Arc<[String]>> {
        let waiter = match waiter {
            Some(waiter) => waiter,
            None => {
                let mut end = self.lock_end();
                if let Some(abandoned) = &end.abandoned {
                    return Some(Arc::clone(abandoned));
                }
                let new = waiter.insert(Arc::new(Completion::new()));
                end.waiters.push(Arc::clone(new));
                new
            }
        };
        // Without the lock, because the waker is code of the program.
        waiter.poll(waker).then(|| self.abandoned())
    }

    /// Nobody waits by this any more.
    pub(crate) fn forget_waiter(&self, waiter: &Arc<Completion>) {
        self.lock_end().waiters.retain(|other| !Arc::ptr_eq(other, waiter));
    }

    /// The lines, once a waiter was finished, which happens after the end was noted.
    fn abandoned(&self) -> Arc<[String]> {
        self.lock_end().abandoned.clone().expect("the runtime has ended")
    }
}

impl Admission<'_> {
    /// Takes a header for a strand that is spawned from outside.
    ///
    /// # Errors
    /// No memory for one more.
    pub(crate) fn take_header(&self, is_thread: bool) -> io::Result<&'static StrandHeader> {
        let headers = self.entrance.headers.lock().unwrap_or_else(PoisonError::into_inner);
        headers.take(is_thread)
    }
}

impl Workers {
    /// Checks the index of a worker that a spawner outside asks for.
    ///
    /// # Errors
    /// The runtime has no such worker.
    pub(crate) fn check_place(&self, index: usize) -> io::Result<usize> {
        super::placed::check_index(index, self.len())
    }

    /// The worker with the fewest fibers; the first of several.
    pub(crate) fn least_loaded(&self) -> usize {
        let loads = self.entries.iter().map(super::workers::WorkerEntry::load).enumerate();
        loads.min_by_key(|(_, load)| *load).map_or(0, |(index, _)| index)
    }

    /// Queues a closure that has no stack yet, from outside; for the worker of this index if there
    /// is one.
    pub(crate) fn enqueue_from_outside(
        &self,
        _admission: &Admission<'_>,
        header: &'static StrandHeader,
        place: Option<usize>,
    ) {
        self.note_spawned_outside();
        match place {
            None if self.len() > 1 => self.push_outside(header),
            _ => {
                let is_sent = self.hand_over(header, place.unwrap_or(0));
                // A gate closes when its worker abandons its fibers, and no worker does so before
                // the entrance is closed.
                assert!(is_sent, "a worker abandons its fibers while its runtime is open");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn nothing_is_admitted_once_it_is_closed() {
        let entrance = Entrance::default();
        assert!(entrance.admit().is_ok() && entrance.is_open());
        assert!(entrance.close() && !entrance.close());
        assert_eq!(entrance.admit().err(), Some(RuntimeEnded::ENDED));
    }

    #[test]
    fn closing_waits_for_those_that_were_admitted() {
        let entrance = Entrance::default();
        thread::scope(|s| {
            let Ok(admission) = entrance.admit() else { panic!("it is open") };
            let closes = s.spawn(|| entrance.close());
            assert!(!closes.is_finished(), "it is closed while a spawn is under way");
            drop(admission);
            assert!(closes.join().expect("no panic"));
        });
    }

    #[test]
    fn all_that_wait_for_the_end_are_told() {
        let entrance = Entrance::default();
        thread::scope(|s| {
            let wait = || entrance.wait_for_end().ok().map(|lines| lines.len());
            let waiters = [(); 3].map(|()| s.spawn(wait));
            entrance.end(Arc::from(["one".to_owned()]));
            let lens = waiters.map(|waiter| waiter.join().expect("no panic"));
            assert_eq!(lens, [Some(1); 3]);
        });
        assert!(entrance.wait_for_end().is_ok() && !entrance.is_open());
    }
}
