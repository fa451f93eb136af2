//! The protocol of a mutual exclusion lock that parks the strand that waits for it.
//!
//! # Protocol: one word
//! `0`: free. Otherwise the id of the owner; bit 31, unused in ids, is set while strands wait in
//! the lot. (A free lock may have the bit set too: the waiter that was woken has not come yet.)
//!
//! | from | to | by |
//! |---|---|---|
//! | `0` | owner | `lock`, `try_lock` |
//! | `WAITERS` | owner + `WAITERS` | `lock`, `try_lock` that barge in; the waiter that was woken |
//! | owner | owner + `WAITERS` | a strand that is about to park |
//! | owner | `0` | `unlock` |
//! | owner + `WAITERS` | `0`, `WAITERS`, or another owner (+ `WAITERS`) | `unlock`, under the lot's lock |
//!
//! # Fairness
//! The first strand that comes may take a released lock, which keeps a running strand running. But
//! if a waiter was woken [`LOSSES`] times and found the lock taken again, it requests that the next
//! `unlock` hands the lock to it, so no strand loses the race more often. (If the lock were handed
//! over at the first loss, a lock that two workers contend for would be unused while the new owner
//! wakes: 300 to 600 ns for each lock instead of 30.)

use crate::core::{
    primitive::{AtomicU64, Ordering},
    spin_lock::SpinWait,
    time::Deadline,
    wait::{
        park::{Refused, WaitKind, WaitRecord, abort_wait_while_unwinding},
        parking_lot::{LEFT, Parked, ParkingLot, Token},
    },
    worker,
};

static LOCK: WaitKind = WaitKind::new("a Mutex");

const FREE: u64 = 0;
const WAITERS: u64 = 1 << 31;

/// The number of times that a woken waiter may lose the race before it requests the lock.
const LOSSES: u32 = 16;
/// The number of times that a strand tries again before it waits for an owner on another worker.
const LOOKS: u32 = 10;

/// A waiter's request: to be given the lock rather than a chance to take it.
const HAND_OVER: u64 = 1;
/// The token with which a waiter was given the lock.
const HANDED_OVER: Token = 1;

/// The timeout passed first, or the strand was cancelled.
pub(super) struct NotLocked;

/// The lock without the value.
pub(super) struct RawMutex {
    word: AtomicU64,
    lot: ParkingLot,
}

impl RawMutex {
    pub(super) const fn new() -> Self {
        RawMutex { word: AtomicU64::new(FREE), lot: ParkingLot::new() }
    }

    /// Waits for the lock. Without a deadline, and if it is no cancel point, it ends with the lock
    /// only.
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

    /// Takes the lock if it is free; returns whether it did.
    pub(super) fn try_lock(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let is_free = word & !WAITERS == FREE;
        let new = own_id() | word & WAITERS;
        is_free
            && self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// `inline`, because the caller's crate then compiles it with the caller's deadline, a constant
    /// as a rule: 540 instructions for each contended lock instead of 550.
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
        let (mut looks, mut back_off) = (looks_worth(), SpinWait::new());
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & !WAITERS == FREE {
                let new = me | word & WAITERS;
                if self.try_change(word, new) {
                    return Ok(());
                }
                continue;
            }
            assert!(
                word & !WAITERS != me,
                "this strand holds the Mutex already and would wait for itself forever; drop the \
                 first guard before locking again"
            );
            if word & WAITERS == 0 && looks > 0 {
                looks -= 1;
                back_off.pause();
                continue;
            }
            if word & WAITERS == 0 && !self.try_change(word, word | WAITERS) {
                continue;
            }
            let record = WaitRecord::new(&LOCK)
                .until(deadline)
                .cancellable_if(is_cancel_point)
                .with_detail(std::ptr::from_ref(&self.word).addr() as u64, word);
            let still_held = || {
                let word = self.word.load(Ordering::Relaxed);
                word & WAITERS != 0 && word != WAITERS
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
                    (looks, back_off) = (looks_worth(), SpinWait::new());
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

    /// Passes on what an abandoned waiter got: the lock, or the wake-up to take it.
    fn pass_on(&self, token: Token) {
        match token {
            HANDED_OVER => self.unlock(),
            LEFT => {}
            // Its owner wakes the next waiter, which is this strand if the lock is free.
            _ if self.try_lock() => self.unlock(),
            _ => {}
        }
    }

    fn try_change(&self, word: u64, new: u64) -> bool {
        // Acquire: if it takes the lock, it pairs with the release in `unlock`.
        self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(super) fn unlock(&self) {
        let word = self.word.load(Ordering::Relaxed);
        let is_plain = word & WAITERS == 0;
        // Release: the writes of the owner are visible to the next one.
        let freed = is_plain
            && self.word.compare_exchange(word, FREE, Ordering::Release, Ordering::Relaxed).is_ok();
        if !freed {
            self.unlock_contended();
        }
    }

    #[cold]
    fn unlock_contended(&self) {
        self.lot.unpark_one(|candidate| {
            let Some(next) = candidate else {
                self.word.store(FREE, Ordering::Release);
                return 0;
            };
            let waiters = if next.has_more { WAITERS } else { 0 };
            let is_handed_over = next.request == HAND_OVER;
            let owner = if is_handed_over { next.strand.as_u64() } else { FREE };
            self.word.store(owner | waiters, Ordering::Release);
            if is_handed_over { HANDED_OVER } else { 0 }
        });
    }
}

/// Returns 0 if all rivals are fibers of one worker, because then none unlocks meanwhile.
fn looks_worth() -> u32 {
    if worker::current().has_rivals() { LOOKS } else { 0 }
}

fn own_id() -> u64 {
    worker::current().current_header().id_bits()
}
