//! The protocol of a mutual exclusion lock that parks the strands that wait for it.
//!
//! # Protocol: one word
//! Without its two flags, the word is `0` if the lock is free, and otherwise the id of the owner.
//! Ids use neither bit of the flags:
//! - `WAITERS`: strands wait in the lot;
//! - `WOKEN`: `unlock` has woken a waiter, which has neither taken the lock nor parked again.
//!
//! | change | by |
//! |---|---|
//! | free to owner, flags kept | `lock`, `try_lock` |
//! | free to owner, `WOKEN` cleared | the waiter that was woken |
//! | owner, `WAITERS` set | a strand that is about to park |
//! | owner, `WAITERS` set and `WOKEN` cleared | the waiter that was woken, about to park again |
//! | owner to free, flags kept | `unlock`, unless the flags are `WAITERS` alone |
//! | owner + `WAITERS` to `WOKEN` or another owner, `WAITERS` if more wait | `unlock`, in the lot |
//! | `WOKEN` cleared | whoever abandons the waiter that was woken, before it runs |
//!
//! At most one woken waiter is on its way, as in Go's `sync.Mutex`. While it is, `unlock` wakes no
//! other one, because all but one would find the lock taken and park again. So each lock that is
//! held while its owner yields would cost a wake-up on another worker.
//!
//! The race to fear: `unlock` relies on the woken waiter, and this waiter parks again without a
//! wake-up to come. It cannot, because one compare-and-swap clears `WOKEN` and sees the owner: this
//! owner's `unlock` finds `WAITERS` alone, and wakes the next waiter.
//!
//! # Fairness
//! Any strand may take a released lock before the waiter that was woken, so that a running strand
//! need not stop. But if a waiter was woken [`LOSSES`] times and found the lock taken each time, it
//! requests that the next `unlock` hands the lock over to it, so no waiter starves. (The lock is
//! not handed over at the first loss, because a lock that two workers contend for would then be
//! idle while the new owner wakes up: each lock would take 300 to 600 ns instead of 30.)

use crate::core::{
    primitive::{AtomicU64, Ordering},
    spin_lock::SpinWait,
    time::Deadline,
    wait::{
        park::{Refused, Subject, WaitKind, WaitRecord, abort_wait_while_unwinding},
        parking_lot::{LEFT, Parked, ParkingLot, Token},
    },
    worker::{self, Turns},
};

static LOCK: WaitKind = WaitKind::about("a Mutex", Subject::Mutex);

const FREE: u64 = 0;
// The low half of an id is an index of less than 28 bits (`core/strand/slab.rs`).
const WAITERS: u64 = 1 << 31;
const WOKEN: u64 = 1 << 30;
const FLAGS: u64 = WAITERS | WOKEN;

/// The number of times that a woken waiter may lose the race before it requests the lock.
const LOSSES: u32 = 16;
/// The number of times that a strand tries again before it waits for an owner on another worker,
/// unless the CPU is crowded.
const LOOKS: u32 = 10;

/// A waiter's request that `unlock` hands the lock over, instead of waking the waiter to compete
/// for it.
const HAND_OVER: u64 = 1;
/// The token of a waiter to which the lock was handed over.
const HANDED_OVER: Token = 1;

/// The timeout passed first, or the strand was cancelled.
pub(super) struct NotLocked;

/// The id of the owner in the word of a lock; 0: it has none.
pub(crate) fn owner_of(word: u64) -> u64 {
    word & !FLAGS
}

/// The lock without the value.
pub(super) struct RawMutex {
    word: AtomicU64,
    lot: ParkingLot,
}

impl RawMutex {
    pub(super) const fn new() -> Self {
        RawMutex { word: AtomicU64::new(FREE), lot: ParkingLot::new() }
    }

    /// Waits for the lock. Without a deadline, and if the wait is no cancel point, it always
    /// succeeds.
    #[track_caller]
    #[inline]
    pub(super) fn lock(&self, deadline: Deadline, is_cancel_point: bool) -> Result<(), NotLocked> {
        let me = own_id();
        // Acquire: pairs with the release in `unlock`.
        if self.word.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
        self.lock_contended(me, deadline, is_cancel_point)
    }

    /// Takes the lock if it is free; returns whether it was.
    pub(super) fn try_lock(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let new = own_id() | word & FLAGS;
        owner_of(word) == FREE
            && self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// `inline`, because the caller's crate then compiles it with the caller's deadline, usually a
    /// constant: 540 instructions for each contended lock instead of 550.
    #[cold]
    #[inline]
    #[track_caller]
    fn lock_contended(
        &self,
        me: u64,
        deadline: Deadline,
        is_cancel_point: bool,
    ) -> Result<(), NotLocked> {
        let mut losses = 0;
        // `WOKEN` from the wake-up of this waiter until it has taken the lock or is about to park.
        let mut woken = 0;
        let (mut looks, mut back_off) = (looks_worth(), SpinWait::new());
        let mut turns = Turns::default();
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if owner_of(word) == FREE {
                let new = me | word & FLAGS & !woken;
                if self.try_change(word, new) {
                    return Ok(());
                }
                continue;
            }
            assert!(
                owner_of(word) != me,
                "this strand holds the Mutex already and would wait for itself forever; drop the \
                 first guard before locking again"
            );
            if word & WAITERS == 0 && looks > 0 {
                let is_worth = back_off.spin() || turns.give();
                looks = if is_worth { looks - 1 } else { 0 };
                continue;
            }
            let waiting = (word | WAITERS) & !woken;
            if word != waiting && !self.try_change(word, waiting) {
                continue;
            }
            woken = 0;
            let record = WaitRecord::new(&LOCK)
                .until(deadline)
                .cancellable_if(is_cancel_point)
                .with_detail(std::ptr::from_ref(&self.word).expose_provenance() as u64, word);
            let still_held = || {
                let word = self.word.load(Ordering::Relaxed);
                word & WAITERS != 0 && owner_of(word) != FREE
            };
            let request = if losses < LOSSES { 0 } else { HAND_OVER };
            match self.lot.park(record, request, still_held, &|token| self.pass_on(token)) {
                Ok(Parked::Woken(HANDED_OVER)) => return Ok(()),
                Ok(Parked::TimedOut | Parked::Cancelled) | Err(Refused::Cancelled) => {
                    return Err(NotLocked);
                }
                Ok(Parked::Refused) => {}
                Ok(_) => {
                    losses += 1;
                    woken = WOKEN;
                    (looks, back_off) = (looks_worth(), SpinWait::new());
                    turns = Turns::default();
                }
                Err(Refused::Unwinding) if is_cancel_point || deadline != Deadline::NEVER => {
                    return Err(NotLocked);
                }
                Err(Refused::Unwinding) => {
                    abort_wait_while_unwinding("a Mutex that another strand holds")
                }
            }
        }
    }

    /// Called when the strand of a waiter is abandoned: passes on the lock that was handed over to
    /// it, or the wake-up.
    fn pass_on(&self, token: Token) {
        match token {
            HANDED_OVER => self.unlock(),
            LEFT => {}
            _ => self.clear_woken(),
        }
    }

    /// Lets the next `unlock` wake the next waiter. If the lock is free, takes it in order to
    /// unlock it.
    fn clear_woken(&self) {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let is_free = owner_of(word) == FREE;
            let owner = if is_free { own_id() } else { FREE };
            if self.try_change(word, (word | owner) & !WOKEN) {
                if is_free {
                    self.unlock();
                }
                return;
            }
        }
    }

    fn try_change(&self, word: u64, new: u64) -> bool {
        // Acquire: pairs with the release in `unlock`, if this takes the lock.
        self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(super) fn unlock(&self) {
        let word = self.word.load(Ordering::Relaxed);
        if word & FLAGS == WAITERS || !self.try_free(word) {
            self.unlock_contended();
        }
    }

    fn try_free(&self, word: u64) -> bool {
        let flags = word & FLAGS;
        // Release: the writes of this owner are visible to the next one.
        self.word.compare_exchange(word, flags, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn unlock_contended(&self) {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & FLAGS == WAITERS {
                break;
            }
            if self.try_free(word) {
                return;
            }
        }
        self.lot.unpark_one(|candidate| {
            let Some(next) = candidate else {
                self.word.store(FREE, Ordering::Release);
                return 0;
            };
            let waiters = if next.has_more { WAITERS } else { 0 };
            let is_handed_over = next.request == HAND_OVER;
            let owner = if is_handed_over { next.strand.as_u64() } else { FREE | WOKEN };
            self.word.store(owner | waiters, Ordering::Release);
            if is_handed_over { HANDED_OVER } else { 0 }
        });
    }
}

/// Returns how often to try again before parking: 0 if all rivals are fibers of one worker, because
/// then the owner cannot unlock while this fiber runs.
fn looks_worth() -> u32 {
    if worker::current().has_rivals() { LOOKS } else { 0 }
}

fn own_id() -> u64 {
    worker::current().current_header().id_bits()
}
