//! The one queue of waiting strands under every primitive of [`sync`](crate::sync).
//!
//! The shape is Trio's `ParkingLot` (one lot inside each primitive, first in, first out) with
//! WebKit's `ParkingLot` protocol (validate and enqueue under the lot's lock; dequeue and change
//! the primitive's state under the same lock).
//!
//! # Protocol
//! - *Park*: lock the lot; `validate` looks at the primitive's state; if it returns false, unlock
//!   and return. Else begin the wait, put a [`LotWaiter`] that lies in this frame at the end,
//!   unlock, suspend.
//! - *Unpark*: lock; take waiters off the front until one's wait can be claimed; let the caller
//!   change the primitive's state; unlock; schedule the claimed strand. *Unpark while* repeats this
//!   for the first waiters, as long as their requests can be granted.
//!
//! | a waiter is | changed by |
//! |---|---|
//! | queued | the unparker that takes it off; its own strand, when its wait ended otherwise; the unlink hook, when its strand is abandoned |
//! | taken off, claimed | - (its strand is being woken by that unparker; if it is abandoned before it runs, the unlink hook passes the wake-up on) |
//! | taken off, not claimed | - (its wait had ended already; the unparker went on to the next) |
//!
//! *The race to fear*: a wake-up is spent on a waiter that has just timed out. The claim decides:
//! an unparker whose claim fails takes the next waiter, and a waiter whose wait timed out reports
//! that, whether or not somebody took it off meanwhile. So no wake-up is lost.
//!
//! The lot's lock is a spin lock. It is held for some ten instructions, never across a suspension
//! or a call into user code.
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    panic::{RefUnwindSafe, UnwindSafe},
    ptr,
};

use crate::core::{
    primitive::Cell,
    spin_lock::RawSpinLock,
    strand::{FiberId, StrandHeader, Wake, WakeRef},
    wait::park::{self, Refused, WaitRecord},
    worker,
};

/// The token that a waiter gets from its unparker.
pub(crate) type Token = u64;

/// The token for `pass_on` when an abandoned waiter had not been woken: the strands behind it may
/// be able to continue now.
pub(crate) const LEFT: Token = Token::MAX;

/// How many waiters are scheduled between two holds of the lot's lock.
const BATCH: usize = 16;

/// The result of a wait in the lot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parked {
    /// `validate` returned false: the strand did not wait.
    Refused,
    /// Woken, with the unparker's token; or woken for no reason, with token 0.
    Woken(Token),
    TimedOut,
    /// Cancelled, if the record is cancellable.
    Cancelled,
}

/// An entry of the queue, in the frame of the strand that waits.
struct LotWaiter<'a> {
    wait: WakeRef,
    strand: FiberId,
    /// A number for the unparker, to which the primitive gives a meaning.
    request: u64,
    lot: *const ParkingLot,
    /// Gives the wake-up, with its token, to somebody else.
    pass_on: &'a dyn Fn(Token),
    token: Cell<Token>,
    is_queued: Cell<bool>,
    is_claimed: Cell<bool>,
    /// The waiter's number, in the order of arrival.
    arrival: Cell<u64>,
    next: Cell<*const QueuedWaiter>,
    previous: Cell<*const QueuedWaiter>,
}

/// A waiter in the queue, without the lifetime of its frame's borrows: they are alive as long as it
/// is queued.
type QueuedWaiter = LotWaiter<'static>;

#[derive(Clone, Copy)]
struct Queue {
    first: *const QueuedWaiter,
    last: *const QueuedWaiter,
    /// The number of waiters that have ever been queued.
    arrivals: u64,
}

pub(crate) struct ParkingLot {
    lock: RawSpinLock,
    /// INVARIANT: touched only while the lock is held; links waiters whose frames are alive,
    /// because a waiter leaves its frame only after it was taken off.
    queue: Cell<Queue>,
}

// SAFETY: all but the lock is touched only under the lock.
unsafe impl Send for ParkingLot {}
// SAFETY: as above.
unsafe impl Sync for ParkingLot {}
// No panic leaves the queue half changed.
impl UnwindSafe for ParkingLot {}
impl RefUnwindSafe for ParkingLot {}

/// The waiter an unparker is about to wake.
pub(crate) struct Candidate {
    pub(crate) strand: FiberId,
    pub(crate) request: u64,
    /// Others wait behind it.
    pub(crate) has_more: bool,
}

impl ParkingLot {
    pub(crate) const fn new() -> Self {
        ParkingLot {
            lock: RawSpinLock::new(),
            queue: Cell::new(Queue { first: ptr::null(), last: ptr::null(), arrivals: 0 }),
        }
    }

    fn lock(&self) -> LockedLot<'_> {
        self.lock.lock();
        LockedLot { lot: self }
    }

    /// Waits in the lot if `validate`, called under the lot's lock, returns true. If the strand is
    /// abandoned, `pass_on` is called: with its token if the strand was woken and has not run yet,
    /// with [`LEFT`] if it is queued.
    ///
    /// # Errors
    /// When the strand unwinds and must not suspend; when the strand is cancelled and the record is
    /// cancellable.
    pub(crate) fn park(
        &self,
        record: WaitRecord,
        request: u64,
        validate: impl FnOnce() -> bool,
        pass_on: &dyn Fn(Token),
    ) -> Result<Parked, Refused> {
        let worker = worker::current();
        let waiter: UnsafeCell<Option<LotWaiter>> = UnsafeCell::new(None);
        let record = record.with_unlink(unlink, waiter.get().cast());
        // Before `validate`, because `validate` may leave marks for others, and then a waiter must
        // follow.
        worker.check_can_wait_by(&record);
        let locked = self.lock();
        if !validate() {
            return Ok(Parked::Refused);
        }
        let prepared = park::prepare(&worker, &record)?;
        let entry = LotWaiter {
            wait: prepared.wake_ref(),
            strand: worker.current_header().id(),
            request,
            lot: self,
            pass_on,
            token: Cell::new(0),
            is_queued: Cell::new(true),
            is_claimed: Cell::new(false),
            arrival: Cell::new(0),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
        };
        // SAFETY: nobody else knows the waiter yet.
        let slot = unsafe { &mut *waiter.get() };
        let entry: *const LotWaiter = slot.insert(entry);
        let entry: *const QueuedWaiter = entry.cast();
        locked.push(entry);
        drop(locked);
        let reason = prepared.suspend();
        // SAFETY: the waiter lies in this frame.
        let entry = unsafe { &*entry };
        // Both its queue entry and its token are settled under the lock.
        let locked = self.lock();
        if entry.is_queued.get() {
            locked.remove(entry);
        }
        let token = entry.token.get();
        drop(locked);
        Ok(match reason {
            Wake::Woken => Parked::Woken(token),
            Wake::TimedOut => Parked::TimedOut,
            Wake::Cancelled => Parked::Cancelled,
        })
    }

    /// Calls `f` under the lot's lock, as `validate` and `decide` are called.
    pub(crate) fn under_lock<R>(&self, f: impl FnOnce() -> R) -> R {
        let _locked = self.lock();
        f()
    }

    /// Wakes the first waiter that still waits.
    ///
    /// `decide` is called under the lot's lock, with that waiter or with `None` if there is none,
    /// so that it can change the primitive's state in the same step; it returns the token. The lot
    /// may be gone when this returns.
    pub(crate) fn unpark_one(&self, decide: impl FnOnce(Option<Candidate>) -> Token) {
        let locked = self.lock();
        let woken = locked.claim_first();
        let candidate = woken.map(|(_, waiter)| {
            // SAFETY: its strand is claimed by us and not scheduled yet: it stays in its frame.
            let waiter = unsafe { &*waiter };
            Candidate {
                strand: waiter.strand,
                request: waiter.request,
                has_more: !locked.queue().first.is_null(),
            }
        });
        let token = decide(candidate);
        if let Some((_, waiter)) = woken {
            // SAFETY: as above.
            let waiter = unsafe { &*waiter };
            waiter.token.set(token);
            waiter.is_claimed.set(true);
        }
        drop(locked);
        if let Some((header, _)) = woken {
            worker::schedule(header);
        }
    }

    /// Wakes waiters from the front for as long as `may` allows a waiter's request.
    ///
    /// `grant` is called for each waiter that still waits, and returns its token; `emptied` is
    /// called when no waiter is left. All three run under the lot's lock, which is released after
    /// each batch of waiters. The call does not wake a strand that was queued after the call began.
    pub(crate) fn unpark_while(
        &self,
        may: impl Fn(u64) -> bool,
        grant: impl Fn(u64) -> Token,
        emptied: impl Fn(),
    ) {
        let mut newest = None;
        loop {
            let mut batch = [None; BATCH];
            let locked = self.lock();
            let newest = *newest.get_or_insert(locked.queue().arrivals);
            let claimed = batch.iter_mut().map_while(|entry| {
                *entry = Some(locked.claim_first_if(newest, &may, &grant)?);
                Some(())
            });
            let is_done = claimed.count() < BATCH;
            if is_done && locked.queue().first.is_null() {
                emptied();
            }
            drop(locked);
            batch.into_iter().flatten().for_each(worker::schedule);
            if is_done {
                return;
            }
        }
    }

    /// Wakes all that wait now.
    pub(crate) fn unpark_all(&self) {
        self.unpark_while(|_| true, |_| 0, || ());
    }
}

/// Takes the waiter of an abandoned strand off its queue, or passes its wake-up on.
unsafe fn unlink(target: *const ()) {
    // SAFETY: `park` set this hook with the address of its waiter, and the strand is suspended.
    let waiter = unsafe { &*target.cast::<Option<QueuedWaiter>>() };
    let Some(waiter) = waiter else { return };
    // SAFETY: a waiter borrows its lot for as long as it waits.
    let locked = unsafe { &*waiter.lot }.lock();
    let was_queued = waiter.is_queued.get();
    if was_queued {
        locked.remove(waiter);
    }
    drop(locked);
    if waiter.is_claimed.get() {
        (waiter.pass_on)(waiter.token.get());
    } else if was_queued {
        (waiter.pass_on)(LEFT);
    }
}

/// The lot while its lock is held.
struct LockedLot<'a> {
    lot: &'a ParkingLot,
}

impl Drop for LockedLot<'_> {
    fn drop(&mut self) {
        self.lot.lock.unlock();
    }
}

impl LockedLot<'_> {
    fn queue(&self) -> Queue {
        self.lot.queue.get()
    }

    fn set_queue(&self, queue: Queue) {
        self.lot.queue.set(queue);
    }

    fn push(&self, waiter: *const QueuedWaiter) {
        let mut queue = self.queue();
        // SAFETY: queued waiters are alive (invariant of `queue`).
        match unsafe { queue.last.as_ref() } {
            Some(last) => last.next.set(waiter),
            None => queue.first = waiter,
        }
        queue.arrivals += 1;
        // SAFETY: the caller's own waiter.
        let entry = unsafe { &*waiter };
        entry.previous.set(queue.last);
        entry.arrival.set(queue.arrivals);
        queue.last = waiter;
        self.set_queue(queue);
    }

    fn remove(&self, waiter: &QueuedWaiter) {
        let mut queue = self.queue();
        let (previous, next) = (waiter.previous.get(), waiter.next.get());
        // SAFETY: neighbours in the queue are alive (invariant of `queue`).
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => queue.first = next,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.previous.set(previous),
            None => queue.last = previous,
        }
        waiter.is_queued.set(false);
        self.set_queue(queue);
    }

    /// Takes waiters off the front until one's wait is claimed.
    fn claim_first(&self) -> Option<(&'static StrandHeader, *const QueuedWaiter)> {
        loop {
            // SAFETY: queued waiters are alive (invariant of `queue`).
            let waiter = unsafe { self.queue().first.as_ref() }?;
            self.remove(waiter);
            if let Some(header) = waiter.wait.claim(Wake::Woken) {
                return Some((header, waiter));
            }
        }
    }
    /// Claims the first waiter and grants its request, if `may` allows it and the waiter is not
    /// newer than `newest`.
    fn claim_first_if(
        &self,
        newest: u64,
        may: impl Fn(u64) -> bool,
        grant: impl Fn(u64) -> Token,
    ) -> Option<&'static StrandHeader> {
        loop {
            // SAFETY: queued waiters are alive (invariant of `queue`).
            let waiter = unsafe { self.queue().first.as_ref() }?;
            if waiter.arrival.get() > newest || !may(waiter.request) {
                return None;
            }
            self.remove(waiter);
            if let Some(header) = waiter.wait.claim(Wake::Woken) {
                waiter.token.set(grant(waiter.request));
                waiter.is_claimed.set(true);
                return Some(header);
            }
        }
    }
}
