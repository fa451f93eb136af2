//! The protocol of a lock for many readers or one writer.
//!
//! # Protocol: one word
//! Bit 0: a writer holds the lock. Bit 1: strands wait in the lot. The other bits: the number of
//! readers that hold the lock. While bit 1 is set, strands do not take the lock themselves; it is
//! granted to them, under the lot's lock. The bit is set and cleared only under that lock. A
//! release subtracts from the word without the lot's lock; the release that leaves the lock free
//! while strands wait grants the lock.
//!
//! *The race to fear*: the last holder releases the lock while a strand decides to wait. The strand
//! sets bit 1 in the same step in which it sees the lock held, so the holder, which releases later,
//! sees the bit. A writer that is cancelled may have held back readers behind it, so it grants the
//! lock, too.
//!
//! # Fairness
//! First come, first served: a reader or writer that comes while others wait goes to the end of the
//! queue. So neither side starves the other. Adjacent readers are granted the lock together.

use std::panic::RefUnwindSafe;

use crate::core::{
    cancel::{self, Cancelled},
    primitive::{AtomicU64, Ordering},
    wait::{
        park::{Refused, Subject, WaitKind, WaitRecord, abort_wait_while_unwinding},
        parking_lot::{LEFT, Parked, ParkingLot, Token},
    },
    worker,
};

static READ: WaitKind = WaitKind::about("a RwLock, for reading", Subject::RwLock);
static WRITE: WaitKind = WaitKind::about("a RwLock, for writing", Subject::RwLock);

const FREE: u64 = 0;
pub(super) const WRITER: u64 = 1;
const WAITERS: u64 = 2;
/// One reader. The request and the token of a waiter are the value that a holder adds to the word:
/// this, or [`WRITER`].
pub(super) const READER: u64 = 4;

/// Where the word lies in a [`RawRwLock`], to which guards point.
pub(crate) const WORD_OFFSET: usize = std::mem::offset_of!(RawRwLock, word);

/// The number of readers in the word of a lock.
pub(crate) fn readers_of(word: u64) -> u64 {
    word / READER
}

/// The lock without the value, so that a guard for reading is covariant in the value's type.
pub(super) struct RawRwLock {
    word: AtomicU64,
    /// The id of the writer, for dumps; 0 if none has noted itself. Not one of the atomics that
    /// models check, because no protocol depends on it.
    writer: std::sync::atomic::AtomicU64,
    lot: ParkingLot,
}

impl RefUnwindSafe for RawRwLock {}

impl RawRwLock {
    pub(super) const fn new() -> Self {
        let writer = std::sync::atomic::AtomicU64::new(0);
        RawRwLock { word: AtomicU64::new(FREE), writer, lot: ParkingLot::new() }
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
                Ok(_) => {
                    self.note_holder(holder);
                    return true;
                }
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Notes the writer, so that a dump can name the owner of the lock.
    #[inline]
    fn note_holder(&self, holder: u64) {
        if holder == WRITER {
            let id = worker::current().current_header().id_bits();
            self.writer.store(id, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Called by the writer before it gives the lock up.
    #[inline]
    fn forget_writer(&self) {
        self.writer.store(0, std::sync::atomic::Ordering::Relaxed);
    }

    /// Waits until the strand holds the lock; returns `false` if the wait is a cancel point and was
    /// cancelled.
    #[cold]
    #[track_caller]
    pub(super) fn wait_for(&self, holder: u64, is_cancel_point: bool) -> bool {
        let kind = if holder == READER { &READ } else { &WRITE };
        let detail = std::ptr::from_ref(&self.word).expose_provenance() as u64;
        let writer = std::ptr::from_ref(&self.writer).expose_provenance() as u64;
        loop {
            let record =
                WaitRecord::new(kind).cancellable_if(is_cancel_point).with_detail(detail, writer);
            let must_wait = || self.mark_waiting(holder);
            match self.lot.park(record, holder, must_wait, &|token| self.pass_on(token)) {
                Ok(Parked::Woken(token)) if token == holder => {
                    self.note_holder(holder);
                    return true;
                }
                Err(Refused::Unwinding) if !is_cancel_point => {
                    abort_wait_while_unwinding("a RwLock that another strand holds")
                }
                Ok(Parked::Cancelled) | Err(Refused::Cancelled | Refused::Unwinding) => {
                    // The waiters behind this strand may have waited only because of it.
                    self.grant();
                    return false;
                }
                Ok(_) if self.try_add(holder) => return true,
                Ok(_) => {}
            }
        }
    }

    /// Sets the bit for waiters, unless the lock can be taken. Called under the lot's lock.
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

    /// Called when the strand of a waiter is abandoned: releases the lock if it was granted, which
    /// the token shows.
    fn pass_on(&self, token: Token) {
        match token {
            LEFT => self.grant(),
            holder => self.release(holder),
        }
    }

    #[inline]
    pub(super) fn release(&self, holder: u64) {
        if holder == WRITER {
            self.forget_writer();
        }
        // Release: the writes of a writer and the reads of a reader come before the next holder.
        let word = self.word.fetch_sub(holder, Ordering::Release) - holder;
        if word == WAITERS {
            self.grant();
        }
    }

    /// Turns the writer into a reader.
    pub(super) fn downgrade(&self) {
        self.forget_writer();
        // Release: the writes are visible to the readers that follow.
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
                // Acquire: on behalf of the waiter; its wake-up orders this before the waiter runs.
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
