//! A semaphore.
//!
//! # Protocol: one word
//! Bit 0: strands wait in the lot. Bit 1: closed. The other bits: the number of free permits. While
//! bit 0 is set, strands do not take permits themselves; permits are granted to them, under the
//! lot's lock. The bit is set and cleared only under that lock. A strand that gives permits back
//! adds them to the word and then, if strands wait, grants them.
//!
//! *The race to fear*: permits come back while a strand decides to wait. The strand sets bit 0 in
//! the same step in which it finds too few permits, so a strand that gives permits back afterwards
//! finds the bit set. A waiter for many permits that gives up may have held back waiters for few
//! behind it, so it grants permits, too.
//!
//! *Another race*: one strand closes the semaphore, and a second sees that and gives permits back
//! before the first has refused the waiters. So a strand that grants reads bit 1 in the step in
//! which it takes permits for a waiter, and refuses the waiter if the bit is set.

use std::{error, fmt, mem, sync::Arc, time::Duration};

use crate::core::{
    cancel::{self, errors_with_cancelled},
    primitive::{AtomicU64, Ordering},
    time::Deadline,
    wait::{
        park::{Refused, Subject, WaitKind, WaitRecord},
        parking_lot::{LEFT, Parked, ParkingLot, Token},
    },
};

static ACQUIRE: WaitKind = WaitKind::about("a Semaphore's permits", Subject::Object);

const WAITERS: u64 = 1;
const CLOSED: u64 = 2;
const PERMIT: u64 = 4;

const REFUSED: Token = 0;
const GRANTED: Token = 1;

/// A counting semaphore: a number of permits, which strands take and give back.
///
/// Permits are granted in the order of requests, so strands that want few do not overtake a strand
/// that wants many.
///
/// # Examples
/// ```
/// use ramie::{fiber, sync::Semaphore};
///
/// let two_at_a_time = Semaphore::new(2);
/// ramie::run(|| {
///     fiber::scope(|s| {
///         for _ in 0..5 {
///             s.spawn(|| {
///                 let _permit = two_at_a_time.acquire().unwrap();
///                 fiber::yield_now();
///             });
///         }
///     });
/// });
/// assert_eq!(two_at_a_time.available_permits(), 2);
/// ```
pub struct Semaphore {
    word: AtomicU64,
    lot: ParkingLot,
}

/// Permits of a borrowed [`Semaphore`], which are given back when this is dropped.
#[must_use = "the permits are held only as long as this lives"]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    count: u32,
}

/// Permits of a shared [`Semaphore`], which are given back when this is dropped.
#[must_use = "the permits are held only as long as this lives"]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    count: u32,
}

/// The error of a wait for permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcquireError {
    /// The semaphore is closed.
    Closed,
    /// The strand is cancelled.
    Cancelled,
}

/// The error of a call that does not wait for permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryAcquireError {
    /// Too few permits are free, or other strands wait.
    NoPermits,
    /// The semaphore is closed.
    Closed,
}

/// The error of a wait with a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcquireTimeoutError {
    /// The timeout passed first.
    Timeout,
    /// The semaphore is closed.
    Closed,
    /// The strand is cancelled.
    Cancelled,
}

impl Semaphore {
    /// The largest number of permits.
    pub const MAX_PERMITS: usize = u32::MAX as usize;

    /// Makes a semaphore with `permits` free permits.
    ///
    /// # Panics
    /// If `permits` is more than [`Semaphore::MAX_PERMITS`].
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        assert!(permits <= Self::MAX_PERMITS, "a Semaphore has at most 4294967295 permits");
        Semaphore { word: AtomicU64::new(permits as u64 * PERMIT), lot: ParkingLot::new() }
    }

    /// Returns the number of free permits.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        (self.word.load(Ordering::Relaxed) / PERMIT) as usize
    }

    /// Waits for one permit.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while too few permits are free or earlier
    /// requests wait.
    ///
    /// # Cancellation
    /// A cancel point, even if permits are free.
    ///
    /// # Errors
    /// The semaphore is closed, or the strand was cancelled. Also `Cancelled` if the call would
    /// have to wait on a fiber in a destructor that runs during a panic.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    pub fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many(1)
    }

    /// Waits until `count` permits are free, and takes them together.
    ///
    /// # Blocking
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancellation
    /// A cancel point, even if permits are free.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # Panics
    /// As [`Semaphore::acquire`].
    #[track_caller]
    pub fn acquire_many(&self, count: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.wait(count, Deadline::NEVER).map_err(untimed)?;
        Ok(SemaphorePermit { semaphore: self, count })
    }

    /// Waits for `count` permits, for at most `timeout`.
    ///
    /// # Blocking
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancellation
    /// A cancel point, as [`Semaphore::acquire`].
    ///
    /// # Errors
    /// The timeout passed first. Otherwise as [`Semaphore::acquire`].
    ///
    /// # Panics
    /// As [`Semaphore::acquire`].
    #[track_caller]
    pub fn acquire_timeout(
        &self,
        count: u32,
        timeout: Duration,
    ) -> Result<SemaphorePermit<'_>, AcquireTimeoutError> {
        self.wait(count, Deadline::after(timeout))?;
        Ok(SemaphorePermit { semaphore: self, count })
    }

    /// Waits for `count` permits, which share the semaphore instead of borrowing it.
    ///
    /// # Blocking
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancellation
    /// A cancel point, even if permits are free.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # Panics
    /// As [`Semaphore::acquire`].
    #[track_caller]
    pub fn acquire_owned(
        self: Arc<Self>,
        count: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.wait(count, Deadline::NEVER).map_err(untimed)?;
        Ok(OwnedSemaphorePermit { semaphore: self, count })
    }

    /// Takes `count` permits if that is possible without waiting.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// Too few permits are free, other strands wait, or the semaphore is closed.
    pub fn try_acquire_many(&self, count: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_take(count)?;
        Ok(SemaphorePermit { semaphore: self, count })
    }

    /// Takes one permit if that is possible without waiting.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire_many`].
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Adds `count` free permits.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Panics
    /// If more than [`Semaphore::MAX_PERMITS`] would be free.
    pub fn add_permits(&self, count: usize) {
        let free = self.available_permits().saturating_add(count);
        assert!(free <= Self::MAX_PERMITS, "a Semaphore has at most 4294967295 permits");
        self.give_back(count as u64);
    }

    /// Closes the semaphore: present waits and later calls fail. Permits that strands hold stay
    /// valid.
    ///
    /// # Blocking
    /// Never.
    pub fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::Release);
        self.lot.unpark_while(|_| true, |_| REFUSED, || self.unmark_waiting());
    }

    /// Returns whether the semaphore is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    fn try_take(&self, count: u32) -> Result<(), TryAcquireError> {
        let request = u64::from(count) * PERMIT;
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word & CLOSED != 0 {
                return Err(TryAcquireError::Closed);
            }
            if word & WAITERS != 0 || word < request {
                return Err(TryAcquireError::NoPermits);
            }
            // Acquire: pairs with the release in `give_back`.
            match self.word.compare_exchange_weak(
                word,
                word - request,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(()),
                Err(seen) => word = seen,
            }
        }
    }

    #[track_caller]
    fn wait(&self, count: u32, deadline: Deadline) -> Result<(), AcquireTimeoutError> {
        loop {
            if cancel::is_cancelled_here() {
                return Err(AcquireTimeoutError::Cancelled);
            }
            match self.try_take(count) {
                Ok(()) => return Ok(()),
                Err(TryAcquireError::Closed) => return Err(AcquireTimeoutError::Closed),
                Err(TryAcquireError::NoPermits) => {}
            }
            let record = WaitRecord::new(&ACQUIRE)
                .until(deadline)
                .cancellable()
                .with_detail(std::ptr::from_ref(self).addr() as u64, count.into());
            let request = u64::from(count) * PERMIT;
            let must_wait = || self.mark_waiting(request);
            match self.lot.park(record, request, must_wait, &|token| self.pass_on(request, token)) {
                Ok(Parked::Woken(GRANTED)) => return Ok(()),
                Ok(Parked::TimedOut) => {
                    self.grant();
                    return Err(AcquireTimeoutError::Timeout);
                }
                Ok(Parked::Cancelled) | Err(Refused::Cancelled | Refused::Unwinding) => {
                    self.grant();
                    return Err(AcquireTimeoutError::Cancelled);
                }
                Ok(Parked::Refused | Parked::Woken(_)) => {}
            }
        }
    }

    /// Sets the bit for waiters, unless the permits can be taken. Called under the lot's lock.
    fn mark_waiting(&self, request: u64) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 {
                return false;
            }
            if word & WAITERS != 0 {
                return true;
            }
            if word >= request {
                return false;
            }
            let marked = self.word.compare_exchange_weak(
                word,
                word | WAITERS,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match marked {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
    }

    /// Clears the bit for waiters, because no strand waits any more. Called under the lot's lock.
    fn unmark_waiting(&self) {
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
    }

    /// Called when the strand of a waiter is abandoned: gives back the permits that the waiter was
    /// granted, or grants permits to the waiters behind it.
    fn pass_on(&self, request: u64, token: Token) {
        match token {
            GRANTED => self.give_back(request / PERMIT),
            LEFT => self.grant(),
            _ => {}
        }
    }

    fn give_back(&self, count: u64) {
        // Release: the work of this holder happens before that of the next one.
        let word = self.word.fetch_add(count * PERMIT, Ordering::Release);
        if word & WAITERS != 0 {
            self.grant();
        }
    }

    /// Grants the requests of the first waiters for which there are permits. If the semaphore is
    /// closed, refuses them, because `close` may not have reached them yet.
    #[cold]
    fn grant(&self) {
        self.lot.unpark_while(
            |request| {
                let word = self.word.load(Ordering::Relaxed);
                word & CLOSED != 0 || word & !(PERMIT - 1) >= request
            },
            |request| if self.take_for_waiter(request) { GRANTED } else { REFUSED },
            || self.unmark_waiting(),
        );
    }

    /// Takes free permits, unless the semaphore is closed. Called under the lot's lock with the bit
    /// for waiters set, so that no other strand takes permits.
    fn take_for_waiter(&self, request: u64) -> bool {
        // Acquire: on behalf of the waiter; its wake-up orders this before the waiter runs.
        let taken = self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
            (word & CLOSED == 0).then(|| word - request)
        });
        taken.is_ok()
    }
}

fn untimed(error: AcquireTimeoutError) -> AcquireError {
    match error {
        AcquireTimeoutError::Cancelled => AcquireError::Cancelled,
        AcquireTimeoutError::Closed | AcquireTimeoutError::Timeout => AcquireError::Closed,
    }
}

impl SemaphorePermit<'_> {
    /// Returns the number of permits held.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.count as usize
    }

    /// Removes the permits from the semaphore for good.
    pub fn forget(self) {
        mem::forget(self);
    }
}

impl OwnedSemaphorePermit {
    /// Returns the number of permits held.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.count as usize
    }

    /// Removes the permits from the semaphore for good.
    pub fn forget(mut self) {
        self.count = 0;
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        self.semaphore.give_back(self.count.into());
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        self.semaphore.give_back(self.count.into());
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available_permits", &self.available_permits())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

const CANCELLED: &str = "the wait for permits was cancelled";

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AcquireError::Closed => "the semaphore is closed",
            AcquireError::Cancelled => CANCELLED,
        })
    }
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::NoPermits => "too few permits are free",
            TryAcquireError::Closed => "the semaphore is closed",
        })
    }
}

impl fmt::Display for AcquireTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AcquireTimeoutError::Timeout => "too few permits became free before the timeout",
            AcquireTimeoutError::Closed => "the semaphore is closed",
            AcquireTimeoutError::Cancelled => CANCELLED,
        })
    }
}

impl error::Error for TryAcquireError {}
errors_with_cancelled!(AcquireError, AcquireTimeoutError(Timeout));
