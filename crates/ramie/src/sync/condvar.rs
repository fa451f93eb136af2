//! A condition variable.
//!
//! # Protocol
//! `turn` counts notifications. A waiter reads it while it holds the Mutex, releases the Mutex, and
//! parks only if it finds the turn unchanged under the lot's lock; a notifier increments the turn
//! and unparks afterwards. *The race to fear*: a notification between the release and the park. It
//! changes `turn`, so the waiter does not park.

use std::{
    fmt,
    sync::{LockResult, PoisonError},
    time::Duration,
};

use super::{Mutex, MutexGuard};
use crate::core::{
    cancel::{self, Cancelled},
    primitive::{AtomicU64, Ordering},
    time::Deadline,
    wait::{
        park::{Refused, Subject, WaitKind, WaitRecord, abort_wait_while_unwinding},
        parking_lot::{LEFT, Parked, ParkingLot},
    },
};

static NOTIFY: WaitKind = WaitKind::about("a Condvar", Subject::Object);

/// The way in which a wait ended.
#[derive(PartialEq, Eq)]
enum Slept {
    /// Notified, or woken without a notification.
    Notified,
    TimedOut,
    Cancelled,
    /// The strand could not wait, because it runs a destructor during a panic.
    Unwinding,
}

impl Slept {
    /// Aborts if the strand could not wait; for callers whose signature cannot report that.
    fn or_abort(self) -> Slept {
        if self == Slept::Unwinding {
            abort_wait_while_unwinding("a Condvar");
        }
        self
    }
}

/// Lets strands wait until another notifies them of a change of the value under a [`Mutex`]; twin
/// of [`std::sync::Condvar`].
///
/// Waiters are notified in the order in which they came. As in std, a wait may end without a
/// notification, so check the condition in a loop, or use [`Condvar::wait_while`].
///
/// # Examples
/// ```
/// use ramie::{fiber, sync::{Condvar, Mutex}};
///
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// ramie::run(|| {
///     fiber::scope(|s| {
///         s.spawn(|| drop(changed.wait_while(ready.lock().unwrap(), |ready| !*ready).unwrap()));
///         *ready.lock().unwrap() = true;
///         changed.notify_one();
///     });
/// });
/// ```
pub struct Condvar {
    turn: AtomicU64,
    lot: ParkingLot,
}

/// The result of a timed wait, which may have ended by its timeout.
///
/// A type of this crate, because only std can make values of std's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether the timeout passed.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Makes a condition variable without waiters.
    #[must_use]
    pub const fn new() -> Self {
        Condvar { turn: AtomicU64::new(0), lot: ParkingLot::new() }
    }

    /// Releases the lock, waits for a notification and takes the lock again.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// Returns early, without having been notified; each repeated early return waits a little
    /// longer (see [`cancel`](crate::cancel)). [`wait_or_cancelled`](Self::wait_or_cancelled)
    /// returns an error instead.
    ///
    /// # Errors
    /// The lock is poisoned when it is taken again; the error contains the guard.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()); the lock is then free. On a fiber in a destructor
    /// that runs during a panic, the process ends with a message, because no other fiber could run
    /// to notify.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let mutex = guard.mutex;
        if self.sleep(guard, Deadline::NEVER, true).or_abort() == Slept::Cancelled {
            cancel::back_off();
        }
        mutex.lock()
    }

    /// Releases the lock, waits for a notification and takes the lock again. If the strand is
    /// cancelled, the lock stays released. Not in std.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    ///
    /// # Cancellation
    /// A cancel point until the notification; the wait for the lock that follows is not one. If a
    /// notification has woken this strand, a cancellation does not turn that into an error.
    ///
    /// # Errors
    /// The outer error: the strand was cancelled, or is a fiber that runs a destructor during a
    /// panic. The inner error: as for [`Condvar::wait`].
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()); the lock is then free.
    #[track_caller]
    pub fn wait_or_cancelled<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
    ) -> Result<LockResult<MutexGuard<'a, T>>, Cancelled> {
        let mutex = guard.mutex;
        match self.sleep(guard, Deadline::NEVER, true) {
            Slept::Cancelled | Slept::Unwinding => Err(cancel::cancelled()),
            Slept::Notified | Slept::TimedOut => Ok(mutex.lock()),
        }
    }

    /// Waits as long as `condition` holds.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    ///
    /// # Cancellation
    /// Not a cancel point; [`wait_while_or_cancelled`](Self::wait_while_or_cancelled) is.
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    ///
    /// # Panics
    /// As [`Condvar::wait`].
    #[track_caller]
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            let mutex = guard.mutex;
            let _ = self.sleep(guard, Deadline::NEVER, false).or_abort();
            guard = mutex.lock()?;
        }
        Ok(guard)
    }

    /// Waits as long as `condition` holds. If the strand is cancelled, the lock stays released. Not
    /// in std.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    ///
    /// # Cancellation
    /// A cancel point, as [`wait_or_cancelled`](Self::wait_or_cancelled), if `condition` holds.
    ///
    /// # Errors
    /// As [`wait_or_cancelled`](Self::wait_or_cancelled).
    ///
    /// # Panics
    /// As [`Condvar::wait`].
    #[track_caller]
    pub fn wait_while_or_cancelled<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> Result<LockResult<MutexGuard<'a, T>>, Cancelled>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = match self.wait_or_cancelled(guard)? {
                Ok(guard) => guard,
                poisoned => return Ok(poisoned),
            };
        }
        Ok(Ok(guard))
    }

    /// Waits for a notification, for at most `timeout`; then takes the lock, however long that
    /// takes.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    ///
    /// # Cancellation
    /// Returns early, as [`Condvar::wait`].
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    ///
    /// # Panics
    /// As [`Condvar::wait`].
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_until(guard, Deadline::after(timeout), true)
    }

    /// Waits for a notification, for at most `ms` milliseconds; returns `true` if there was one in
    /// time. Deprecated in std in favour of [`Condvar::wait_timeout`].
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    ///
    /// # Cancellation
    /// Returns early, as [`Condvar::wait`].
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    #[deprecated(note = "use wait_timeout")]
    #[track_caller]
    pub fn wait_timeout_ms<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        ms: u32,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        match self.wait_timeout(guard, Duration::from_millis(ms.into())) {
            Ok((guard, result)) => Ok((guard, !result.timed_out())),
            Err(error) => {
                let (guard, result) = error.into_inner();
                Err(PoisonError::new((guard, !result.timed_out())))
            }
        }
    }

    /// Waits as long as `condition` holds, for at most `timeout`.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    ///
    /// # Panics
    /// As [`Condvar::wait`].
    #[track_caller]
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let deadline = Deadline::after(timeout);
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if deadline.has_passed() {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            guard = self.wait_until(guard, deadline, false)?.0;
        }
    }

    #[track_caller]
    fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Deadline,
        is_cancel_point: bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let mutex = guard.mutex;
        let slept = self.sleep(guard, deadline, is_cancel_point).or_abort();
        if slept == Slept::Cancelled {
            cancel::back_off();
        }
        let result = WaitTimeoutResult(slept == Slept::TimedOut);
        match mutex.lock() {
            Ok(guard) => Ok((guard, result)),
            Err(error) => Err(PoisonError::new((error.into_inner(), result))),
        }
    }

    /// Releases the lock and parks until a notification, the deadline or a cancellation.
    #[track_caller]
    fn sleep<T>(
        &self,
        guard: MutexGuard<'_, T>,
        deadline: Deadline,
        is_cancel_point: bool,
    ) -> Slept {
        let turn = self.turn.load(Ordering::Relaxed);
        let mutex: &Mutex<T> = guard.mutex;
        let record = WaitRecord::new(&NOTIFY)
            .until(deadline)
            .cancellable_if(is_cancel_point)
            .with_detail(std::ptr::from_ref(mutex).addr() as u64, turn);
        drop(guard);
        let is_same_turn = || self.turn.load(Ordering::Relaxed) == turn;
        let pass_on = |token| {
            if token != LEFT {
                self.notify_one();
            }
        };
        match self.lot.park(record, 0, is_same_turn, &pass_on) {
            Ok(Parked::TimedOut) => Slept::TimedOut,
            Ok(Parked::Cancelled) | Err(Refused::Cancelled) => Slept::Cancelled,
            Ok(Parked::Refused | Parked::Woken(_)) => Slept::Notified,
            Err(Refused::Unwinding) => Slept::Unwinding,
        }
    }

    /// Wakes the strand that has waited longest, if one waits.
    ///
    /// # Blocking
    /// Never.
    pub fn notify_one(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
        self.lot.unpark_one(|_| 0);
    }

    /// Wakes all strands that wait.
    ///
    /// # Blocking
    /// Never.
    pub fn notify_all(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
        self.lot.unpark_all();
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
