//! The protocol of a lock for many readers or one writer.
//!
//! # Protocol: one word
//! Bit 0: a writer holds the lock. Bit 1: strands wait in the lot. The rest: the number of readers
//! that hold the lock. While bit 1 is set, the lock is only granted, under the lot's lock, and not
//! taken; the bit is set and cleared only under that lock. A release subtracts from the word
//! without the lot's lock; the release that leaves the lock free while strands wait grants the
//! lock.
//!
//! *The race to fear*: the last holder releases the lock while a strand decides to wait. The strand
//! sets bit 1 in the same step in which it sees the lock held, so the holder, which releases later,
//! sees the bit. A writer that is cancelled may have held back readers, so it grants, too.
//!
//! # Fairness
//! First come, first served: a reader or writer that comes while others wait goes to the end of the
//! queue. So neither side starves the other. Adjacent readers are granted the lock together.

use std::panic::RefUnwindSafe;

use crate::core::{
    cancel::{self, Cancelled},
    primitive::{AtomicU64, Ordering},
    wait::{
        park::{Refused, WaitKind, WaitRecord, abort_wait_while_unwinding},
        parking_lot::{LEFT, Parked, ParkingLot, Token},
    },
};

static READ: WaitKind = WaitKind::new("a RwLock, to read");
static WRITE: WaitKind = WaitKind::new("a RwLock, to write");

const FREE: u64 = 0;
pub(super) const WRITER: u64 = 1;
const WAITERS: u64 = 2;
/// One reader. A strand's request and its token are the value that it adds to the word.
pub(super) const READER: u64 = 4;

/// The lock without the value, so that a guard to read is covariant in the value's type.
pub(super) struct RawRwLock {
    word: AtomicU64,
    lot: ParkingLot,
}

impl RefUnwindSafe for RawRwLock {}

impl RawRwLock {
    pub(super) const fn new() -> Self {
        RawRwLock { word: AtomicU64::new(FREE), lot: ParkingLot::new() }
    }

    #[track_caller]
    pub(super) fn add_or_cancelled(&self, holder: u64) -> Result<(), Cancelled> {
        cancel::check_cancelled()?;
        if self.try_add(holder) || self.wait_for(holder, true) {
            return Ok(());
        }
        Err(cancel::cancelled())
    }

    /// Adds a holder if it can share the lock with the holders and no strand waits.
    #[inline]
    pub(super) fn try_add(&self, holder: u64) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WAITERS == 0 && may_join(word, holder) {
            // Acquire: pairs with the releases in `release` and `downgrade`.
            match self.word.compare_exchange_weak(
                word,
                word + holder,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Waits until it is a holder; returns `false` if the wait is a cancel point and was cancelled.
    #[cold]
    #[track_caller]
    pub(super) fn wait_for(&self, holder: u64, is_cancel_point: bool) -> bool {
        let kind = if holder == READER { &READ } else { &WRITE };
        let detail = std::ptr::from_ref(&self.word).addr() as u64;
        loop {
            let record =
                WaitRecord::new(kind).cancellable_if(is_cancel_point).with_detail(detail, holder);
            let must_wait = || self.mark_waiting(holder);
            match self.lot.park(record, holder, must_wait, &|token| self.pass_on(token)) {
                Ok(Parked::Woken(token)) if token == holder => return true,
                Err(Refused::Unwinding) if !is_cancel_point => {
                    abort_wait_while_unwinding("a RwLock that another strand holds")
                }
                Ok(Parked::Cancelled) | Err(Refused::Cancelled | Refused::Unwinding) => {
                    // The waiters behind it may have waited only because it was before them.
                    self.grant();
                    return false;
                }
                Ok(_) if self.try_add(holder) => return true,
                Ok(_) => {}
            }
        }
    }

    /// Sets the bit, unless the lock can be had. Under the lot's lock.
    fn mark_waiting(&self, holder: u64) -> bool {
        use Ordering::Relaxed;
        let mut word = self.word.load(Relaxed);
        loop {
            if word & WAITERS != 0 {
                return true;
            }
            if may_join(word, holder) {
                return false;
            }
            match self.word.compare_exchange_weak(word, word | WAITERS, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
    }

    /// Passes on what an abandoned waiter got: by its token, the lock.
    fn pass_on(&self, token: Token) {
        match token {
            LEFT => self.grant(),
            holder => self.release(holder),
        }
    }

    #[inline]
    pub(super) fn release(&self, holder: u64) {
        // Release: the writes of a writer and the reads of a reader come before the next holder.
        let word = self.word.fetch_sub(holder, Ordering::Release) - holder;
        if word == WAITERS {
            self.grant();
        }
    }

    /// Turns the writer into a reader.
    pub(super) fn downgrade(&self) {
        // Release: the writes are visible to the readers that are let in.
        let word = self.word.fetch_add(READER - WRITER, Ordering::Release);
        if word & WAITERS != 0 {
            self.grant();
        }
    }

    /// Grants the lock to the waiters at the front of the queue that can share it.
    #[cold]
    fn grant(&self) {
        self.lot.unpark_while(
            |holder| may_join(self.word.load(Ordering::Relaxed), holder),
            |holder| {
                // Acquire: in place of the granted strand's, which follows by its wake-up.
                self.word.fetch_add(holder, Ordering::Acquire);
                holder
            },
            || {
                self.word.fetch_and(!WAITERS, Ordering::Relaxed);
            },
        );
    }
}

/// Whether `holder` can share the lock with those that hold it.
fn may_join(word: u64, holder: u64) -> bool {
    match holder {
        READER => word & WRITER == 0,
        _ => word & !WAITERS == FREE,
    }
}
