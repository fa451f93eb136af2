//! The part of a worker that other threads touch: its inbox and its sleep.
//!
//! `Shared` values are type-stable: made once, reused by later workers, never freed. If a waker
//! comes after its worker has ended, it finds a valid inbox, and wakes a later worker for nothing.
//!
//! # Protocol of falling asleep
//!
//! | state | meaning | changed by |
//! |---|---|---|
//! | `RUNNING` | the worker will look at its inbox before it sleeps | any pusher, to `NOTIFIED`; the worker, to `SLEEPING` |
//! | `SLEEPING` | the worker is in the kernel, or about to be | any pusher, to `NOTIFIED`; then it owes one kernel wake |
//! | `NOTIFIED` | somebody pushed since the worker last looked | the worker, when it next falls asleep or wakes |
//!
//! 1. The worker swaps in `SLEEPING`.
//! 2. It looks again at its inbox, at the timers of a manual clock, which may have been moved, at
//!    the queues it steals from and at the runtime's flags. If there is something, it goes on to 4.
//! 3. It enters the kernel.
//! 4. It swaps in `RUNNING`.
//!
//! A pusher pushes first, then swaps in `NOTIFIED`. *The race to fear* is a push between steps 2
//! and 3. All writes of the state are swaps, and each acquires what the ones before it released.
//! Either the pusher's swap comes after that of step 1: then it finds `SLEEPING` and makes the
//! kernel wake, which is sticky. Or it comes before: then step 2 sees the push, even if step 4 of
//! an earlier sleep came in between, because that was a swap, too. At most one pusher of a sleep
//! finds `SLEEPING`, so a sleeping worker is woken by one system call, however many push.

use std::sync::Mutex;

use super::ThreadWaker;
use crate::core::{
    figures::{Recorded, WorkerRecord},
    primitive::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    strand::StrandHeader,
};

const RUNNING: u32 = 0;
const SLEEPING: u32 = 1;
const NOTIFIED: u32 = 2;

pub(crate) struct Shared {
    inbox: AtomicPtr<StrandHeader>,
    state: AtomicU32,
    waker: Mutex<Option<ThreadWaker>>,
    /// Strands spawned by this worker; written by it alone.
    pub(crate) spawned: AtomicU64,
    /// Strands that ended on this worker; written by it alone.
    pub(crate) finished: AtomicU64,
    /// Fibers alive that were started by this worker; written by it alone.
    live: AtomicUsize,
    /// What this worker, and those before it that had this value, have recorded; written by the
    /// worker alone.
    pub(crate) record: WorkerRecord,
}

/// All values that were made.
static ALL: Mutex<Vec<&'static Shared>> = Mutex::new(Vec::new());
static UNUSED: Mutex<Vec<&'static Shared>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    /// Takes an unused value, or makes one that will never be freed.
    pub(crate) fn take(waker: ThreadWaker) -> &'static Shared {
        let reused = lock(&UNUSED).pop();
        let shared = reused.unwrap_or_else(|| {
            let shared: &'static Shared = Box::leak(Box::new(Shared {
                inbox: AtomicPtr::new(std::ptr::null_mut()),
                state: AtomicU32::new(RUNNING),
                waker: Mutex::new(None),
                spawned: AtomicU64::new(0),
                finished: AtomicU64::new(0),
                live: AtomicUsize::new(0),
                record: WorkerRecord::default(),
            }));
            lock(&ALL).push(shared);
            shared
        });
        shared.spawned.store(0, Ordering::Relaxed);
        shared.finished.store(0, Ordering::Relaxed);
        shared.live.store(0, Ordering::Relaxed);
        shared.record.clear_levels();
        shared.set_waker(Some(waker));
        shared
    }

    /// Adds up what all workers of the process have recorded since it began.
    pub(crate) fn sum_of_all() -> Recorded {
        let (mut sum, all) = (Recorded::default(), lock(&ALL));
        // First the ends of all strands, because one that has ended was spawned before, possibly by
        // another worker.
        sum.ended = all.iter().map(|shared| shared.record.ended.get()).sum();
        all.iter().for_each(|shared| sum.add(&shared.record));
        sum
    }

    /// Gives the value back for reuse when its worker is gone.
    pub(crate) fn release(&'static self) {
        self.set_waker(None);
        lock(&UNUSED).push(self);
    }

    pub(crate) fn set_waker(&self, waker: Option<ThreadWaker>) {
        *lock(&self.waker) = waker;
    }

    /// Counts a strand that this thread, the worker's own, has spawned.
    #[inline]
    pub(crate) fn note_spawned(&self) {
        self.record.spawned.add_one();
        let spawned = self.spawned.load(Ordering::Relaxed);
        // Release: a worker that sums up `spawned` after seeing a later `finished` sees this.
        self.spawned.store(spawned + 1, Ordering::Release);
    }

    /// Counts a strand that has ended on this thread, the worker's own.
    #[inline]
    pub(crate) fn note_finished(&self) {
        self.record.ended.add_one();
        let finished = self.finished.load(Ordering::Relaxed);
        // Release: a thread that sums up the finished strands sees all strands that they spawned.
        self.finished.store(finished + 1, Ordering::Release);
    }

    /// The number of live fibers of this worker. Another thread may read an old number.
    #[inline]
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Counts a fiber that starts on this thread, the worker's own.
    #[inline]
    pub(crate) fn note_started(&self) {
        self.set_live(self.live() + 1);
    }

    /// Sets the number of live fibers; called on this thread, the worker's own.
    #[inline]
    pub(crate) fn set_live(&self, live: usize) {
        self.live.store(live, Ordering::Relaxed);
    }

    /// Hands over a strand that the caller has the right to schedule.
    pub(crate) fn push(&self, header: &'static StrandHeader) {
        let new = std::ptr::from_ref(header).cast_mut();
        let mut head = self.inbox.load(Ordering::Relaxed);
        loop {
            header.link.store(head, Ordering::Relaxed);
            // Release: the link and all the pusher wrote are visible to `drain`.
            let pushed =
                self.inbox.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed);
            match pushed {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.wake();
    }

    /// Makes the worker look at its inbox and the runtime's flags soon.
    pub(crate) fn wake(&self) {
        // AcqRel: releases the push to the look of step 2; acquires the worker's waker.
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == SLEEPING {
            self.wake_thread();
        }
    }

    #[cold]
    fn wake_thread(&self) {
        let waker = lock(&self.waker).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes all that was handed over, oldest first.
    pub(crate) fn drain(&self, mut each: impl FnMut(&'static StrandHeader)) {
        let mut newest = self.inbox.swap(std::ptr::null_mut(), Ordering::Acquire);
        let mut oldest = std::ptr::null_mut();
        while let Some(header) = header_ref(newest) {
            let next = header.link.load(Ordering::Relaxed);
            header.link.store(oldest, Ordering::Relaxed);
            oldest = newest;
            newest = next;
        }
        while let Some(header) = header_ref(oldest) {
            // Read the link first: once handed on, the header may be pushed again.
            oldest = header.link.load(Ordering::Relaxed);
            each(header);
        }
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        // Relaxed: before a sleep the swap of step 1 makes the push visible.
        !self.inbox.load(Ordering::Relaxed).is_null()
    }

    /// Whether somebody has woken the worker since it last fell asleep or woke.
    pub(crate) fn is_notified(&self) -> bool {
        // Relaxed: a caller that acts on this looks at the inbox again after the swap of step 4.
        self.state.load(Ordering::Relaxed) == NOTIFIED
    }

    /// Lets the worker fall asleep in `sleep`, unless there is mail, or `may_sleep`, the rest of
    /// the look of step 2, returns false.
    pub(crate) fn fall_asleep(&self, may_sleep: impl FnOnce() -> bool, sleep: impl FnOnce()) {
        self.announce_sleep();
        if may_sleep() && !self.has_mail() {
            sleep();
        }
        self.announce_running();
    }

    /// Step 1.
    #[inline]
    pub(super) fn announce_sleep(&self) {
        // AcqRel, here and in step 4: the module's doc says why.
        self.state.swap(SLEEPING, Ordering::AcqRel);
    }

    /// Step 4.
    #[inline]
    pub(super) fn announce_running(&self) {
        self.state.swap(RUNNING, Ordering::AcqRel);
    }
}

#[allow(unsafe_code)]
fn header_ref(pointer: *mut StrandHeader) -> Option<&'static StrandHeader> {
    // SAFETY: the inbox and its links hold null or headers put there by `push`; headers are never
    // unmapped (`core/strand/memory.rs`).
    unsafe { pointer.as_ref() }
}
