//! One event that happens once, such as the end of a strand or of a job on the blocking pool, and
//! at most one strand that waits for it. Instead of a strand, a future may wait: it leaves its
//! waker.
//!
//! # Protocol: one word
//!
//! | word | meaning | changed by |
//! |---|---|---|
//! | `OPEN` | has not happened, nobody waits | the waiter, to its reference; a future, to its waker; `finish`, to `DONE`; the handle, to `DETACHED` |
//! | a [`WakeRef`] | has not happened, this strand waits | `finish`, to `DONE`, which then owes the wake; the waiter, back to `OPEN` |
//! | the address of a boxed `Waker` | has not happened, a future waits | `finish`, to `DONE`, which then owns the waker; the future, back to `OPEN` |
//! | `DETACHED` | nobody will ever wait | `finish`, to `DONE` |
//! | `DONE` | has happened | - (if the event is reused: the waiter, to `OPEN`) |
//!
//! `finish` is one swap: in one step it marks the event and takes the waiter's reference or waker,
//! and afterwards it does not touch the word. The thread that takes a waker's address out of the
//! word owns the waker, and nobody dereferences the address before. So the waiter may free the
//! word's memory as soon as it sees `DONE`. *The race to fear* is a waiter that leaves between the
//! mark and the look for a waiter; because both are one step, there is no such moment.
#![allow(unsafe_code)]

use std::{ptr, task::Waker};

use crate::core::{
    primitive::{AtomicU64, Ordering},
    strand::{Wake, WakeRef},
    wait::park::{self, Refused, WaitRecord},
    worker,
};

const OPEN: u64 = 0;
const DONE: u64 = 1;
const DETACHED: u64 = 2;

/// The word of the protocol.
pub(crate) struct Completion(AtomicU64);

impl Completion {
    pub(crate) fn new() -> Self {
        Completion(AtomicU64::new(OPEN))
    }

    /// Resets the word, in memory that is reused.
    pub(crate) fn reset(&self) {
        self.0.store(OPEN, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: pairs with the release of `finish`; the result is visible.
        self.0.load(Ordering::Acquire) == DONE
    }

    /// Returns whether the waiter's side is gone; then `finish` alone owns the data of both sides.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.0.load(Ordering::Acquire) == DETACHED
    }

    /// Marks the event as happened and returns the waiter to wake. The word may be freed
    /// afterwards.
    #[inline]
    #[must_use]
    pub(crate) fn finish(&self) -> Finished {
        // AcqRel: releases the result; acquires the writes of a detaching handle.
        match self.0.swap(DONE, Ordering::AcqRel) {
            OPEN | DONE => Finished::Unobserved,
            DETACHED => Finished::Detached,
            bits => match WakeRef::from_bits(bits) {
                Some(wait) => Finished::Wake(wait),
                // SAFETY: bits that are none of the above are a waker's address, and the swap took
                // it out.
                None => Finished::Waker(unsafe { own_waker(bits) }),
            },
        }
    }

    /// Announces that nobody will wait; returns false if the event has happened already.
    pub(crate) fn detach(&self) -> bool {
        let open = self.0.compare_exchange(OPEN, DETACHED, Ordering::AcqRel, Ordering::Acquire);
        open.is_ok()
    }

    /// Returns whether the event has happened; if it has not, leaves a waker for when it does.
    pub(crate) fn poll(&self, waker: &Waker) -> bool {
        let kept = match self.take_waker() {
            Some(kept) if kept.will_wake(waker) => kept,
            _ if self.is_done() => return true,
            _ => Box::new(waker.clone()),
        };
        let bits = Box::into_raw(kept).expose_provenance() as u64;
        // Release: `finish` sees the waker. Acquire: the event's writes are seen here.
        if self.0.compare_exchange(OPEN, bits, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return false;
        }
        // SAFETY: made above, and not left in the word.
        drop(unsafe { own_waker(bits) });
        true
    }

    /// Takes back the waker of a future that waits no more, if the event has not happened.
    pub(crate) fn take_waker(&self) -> Option<Box<Waker>> {
        let bits = self.0.load(Ordering::Acquire);
        if matches!(bits, OPEN | DONE | DETACHED) || WakeRef::from_bits(bits).is_some() {
            return None;
        }
        let taken = self.0.compare_exchange(bits, OPEN, Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: bits that are none of the above are a waker's address, and the exchange took it
        // out.
        taken.ok().map(|_| unsafe { own_waker(bits) })
    }

    /// Resets an event that has happened, so that it may happen again. All earlier calls of
    /// `finish` are complete.
    pub(crate) fn take_back(&self) {
        // Acquire: sees the writes before the last `finish`.
        let _ = self.0.compare_exchange(DONE, OPEN, Ordering::Acquire, Ordering::Relaxed);
    }

    /// Waits until the event has happened, or the record's deadline; returns whether it has
    /// happened.
    ///
    /// # Errors
    /// When the strand unwinds and must not suspend; when the strand is cancelled and the record is
    /// cancellable.
    #[inline]
    pub(crate) fn wait(&self, record: &WaitRecord) -> Result<bool, Refused> {
        while !self.is_done() {
            match self.wait_once(&worker::current(), record)? {
                Wake::Woken => {}
                Wake::TimedOut => return Ok(self.is_done()),
                Wake::Cancelled if self.is_done() => return Ok(true),
                Wake::Cancelled => return Err(Refused::Cancelled),
            }
        }
        Ok(true)
    }

    fn wait_once(&self, worker: &worker::Worker, record: &WaitRecord) -> Result<Wake, Refused> {
        let prepared = park::prepare(worker, record)?;
        let bits = prepared.wake_ref().to_bits();
        if self.0.compare_exchange(OPEN, bits, Ordering::AcqRel, Ordering::Acquire).is_err() {
            prepared.abort_or_suspend();
            return Ok(Wake::Woken);
        }
        let reason = prepared.suspend();
        // Back to `OPEN`, unless the event has happened, which the word then shows.
        let _ = self.0.compare_exchange(bits, OPEN, Ordering::AcqRel, Ordering::Acquire);
        Ok(reason)
    }
}

/// The state that [`Completion::finish`] found.
pub(crate) enum Finished {
    Unobserved,
    Detached,
    Wake(WakeRef),
    /// A waker, which is called in a region that must not suspend, because it is code of the
    /// program.
    Waker(Box<Waker>),
}

/// Takes back the waker whose address was in a word.
///
/// # Safety
/// The bits are the address of a waker that [`Completion::poll`] boxed; the caller took them out of
/// the word.
unsafe fn own_waker(bits: u64) -> Box<Waker> {
    // SAFETY: the caller's promise.
    unsafe { Box::from_raw(ptr::with_exposed_provenance_mut(bits as usize)) }
}

impl Finished {
    /// Wakes the waiter, if there is one.
    #[inline]
    pub(crate) fn wake(self) {
        match self {
            Finished::Wake(wait) => drop(wait.wake(Wake::Woken)),
            Finished::Waker(waker) => crate::core::wait::wake(*waker),
            Finished::Unobserved | Finished::Detached => {}
        }
    }
}
