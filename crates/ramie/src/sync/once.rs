//! A closure that runs once.
//!
//! # Protocol: one word
//!
//! | state | changed by | to |
//! |---|---|---|
//! | `INCOMPLETE`, `POISONED` | the strand that begins | `RUNNING` |
//! | `RUNNING` | that strand | `COMPLETE`; `POISONED` by a panic |
//! | `COMPLETE` | - | |
//!
//! The running strand first changes the state and then unparks all waiters. A waiter reads the
//! state under the lot's lock before it parks. So either the waiter sees the change, or the running
//! strand finds the waiter in the lot.

use std::{
    fmt,
    panic::{RefUnwindSafe, UnwindSafe},
};

use crate::core::{
    primitive::{AtomicU32, Ordering},
    wait::{
        park::{Subject, WaitKind, WaitRecord, abort_wait_while_unwinding},
        parking_lot::ParkingLot,
    },
};

static RUN: WaitKind = WaitKind::about("a Once", Subject::Object);

const INCOMPLETE: u32 = 0;
const POISONED: u32 = 1;
const RUNNING: u32 = 2;
const COMPLETE: u32 = 3;

/// Runs a closure once; twin of [`std::sync::Once`], poisoning included.
///
/// # Examples
/// ```
/// static ONCE: ramie::sync::Once = ramie::sync::Once::new();
/// ONCE.call_once(|| println!("once"));
/// ONCE.call_once(|| unreachable!());
/// assert!(ONCE.is_completed());
/// ```
pub struct Once {
    state: AtomicU32,
    lot: ParkingLot,
}

// As std's is, because a panic poisons it.
impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

/// The initial value of a [`Once`]; twin of [`std::sync::ONCE_INIT`].
#[allow(clippy::declare_interior_mutable_const)]
#[deprecated(note = "use Once::new(); std deprecates its own, too")]
pub const ONCE_INIT: Once = Once::new();

/// The argument of the closure of [`Once::call_once_force`].
///
/// A type of this crate, because only std can make values of std's type.
pub struct OnceState {
    was_poisoned: bool,
}

impl OnceState {
    /// Returns whether an earlier closure panicked.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.was_poisoned
    }
}

/// Ends the run when it is dropped, also if the closure panics.
struct Running<'a> {
    once: &'a Once,
    next: u32,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Release: the writes of the closure are visible to a strand that sees the state.
        self.once.state.store(self.next, Ordering::Release);
        self.once.lot.unpark_all();
    }
}

impl Once {
    /// Makes a `Once` whose closure has not run.
    #[must_use]
    #[allow(clippy::new_without_default)] // as std's
    pub const fn new() -> Self {
        Once { state: AtomicU32::new(INCOMPLETE), lot: ParkingLot::new() }
    }

    /// Calls `f` if no closure has run; if another strand's closure is running, waits for its end.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while another strand's closure runs. A closure
    /// that calls this on the same `Once` waits for itself forever.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// If an earlier closure panicked, or if `f` panics. Inside [`no_switch`](crate::no_switch()),
    /// if the call would have to wait. If it would have to wait on a fiber in a destructor that
    /// runs during a panic, the process ends with a message.
    #[track_caller]
    #[inline]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.run(false, &mut |_| f.take().expect("called once")());
        }
    }

    /// As [`Once::call_once`], but calls `f` even if an earlier closure panicked, and passes that
    /// information to `f`.
    ///
    /// # Blocking
    /// As [`Once::call_once`].
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// As [`Once::call_once`], except that an earlier panic is no reason.
    #[track_caller]
    #[inline]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.run(true, &mut |state| f.take().expect("called once")(state));
        }
    }

    /// Returns whether a closure has run to its end.
    #[inline]
    pub fn is_completed(&self) -> bool {
        // Acquire: pairs with the release of `Running::drop`.
        self.state.load(Ordering::Acquire) == COMPLETE
    }

    /// Waits until a closure has run to its end.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// If a closure has panicked. Otherwise as [`Once::call_once`].
    #[track_caller]
    pub fn wait(&self) {
        self.wait_for_end(false);
    }

    /// As [`Once::wait`], but continues to wait after a closure has panicked, because another may
    /// follow.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    pub fn wait_force(&self) {
        self.wait_for_end(true);
    }

    #[track_caller]
    fn wait_for_end(&self, ignores_poison: bool) {
        loop {
            match self.state.load(Ordering::Acquire) {
                COMPLETE => return,
                POISONED if !ignores_poison => panic_about_poison(),
                state => self.park_in(state),
            }
        }
    }

    #[cold]
    #[track_caller]
    fn run(&self, ignores_poison: bool, f: &mut dyn FnMut(&OnceState)) {
        let state = loop {
            match self.state.load(Ordering::Acquire) {
                COMPLETE => return,
                RUNNING => self.park_in(RUNNING),
                POISONED if !ignores_poison => panic_about_poison(),
                state if self.try_begin(state) => break state,
                _ => {}
            }
        };
        let mut running = Running { once: self, next: POISONED };
        f(&OnceState { was_poisoned: state == POISONED });
        running.next = COMPLETE;
    }

    fn try_begin(&self, state: u32) -> bool {
        let begun =
            self.state.compare_exchange(state, RUNNING, Ordering::Acquire, Ordering::Relaxed);
        begun.is_ok()
    }

    /// Parks while the state is `state`; may return earlier.
    #[track_caller]
    fn park_in(&self, state: u32) {
        let record = WaitRecord::new(&RUN)
            .with_detail(std::ptr::from_ref(&self.state).addr() as u64, u64::from(state));
        let is_same = || self.state.load(Ordering::Acquire) == state;
        if self.lot.park(record, 0, is_same, &|_| ()).is_err() {
            abort_wait_while_unwinding("a Once that another strand runs");
        }
    }
}

#[cold]
#[track_caller]
fn panic_about_poison() -> ! {
    panic!("Once instance has previously been poisoned");
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl fmt::Debug for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceState").field("poisoned", &self.is_poisoned()).finish()
    }
}
