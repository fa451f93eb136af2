//! Handles that wait for a strand's end and take its value.
#![allow(unsafe_code)]

use std::{fmt, marker::PhantomData, mem::ManuallyDrop, thread};

use super::{Fiber, ScopeData, label};
use crate::{
    park::{WaitKind, WaitRecord},
    strand::{self, Slot, take_outcome},
    worker,
};

static JOIN: WaitKind = WaitKind::new("the end of a strand");

/// The one handle of a strand, without its type.
///
/// INVARIANT: made once for each strand, right after its spawn; dropped or consumed once. Until
/// then the slot is not freed.
///
/// It knows its slot by the id alone: programs keep these by the million.
pub(super) struct RawHandle {
    fiber: Fiber,
}

impl RawHandle {
    #[inline]
    pub(super) fn new(slot: &'static Slot) -> Self {
        RawHandle { fiber: Fiber::of(slot) }
    }

    #[inline]
    fn slot(&self) -> &'static Slot {
        strand::slot_at(self.fiber.id().index())
    }

    /// Waits for the end and takes the outcome.
    ///
    /// # Safety
    /// `T` is the type of the strand's value.
    #[track_caller]
    #[inline]
    unsafe fn join<T>(self) -> thread::Result<T> {
        let slot = self.slot();
        if !slot.join.is_done() {
            assert!(
                worker::current().current_slot().id() != self.fiber.id(),
                "a strand cannot join itself: it would wait for ever"
            );
            let record = WaitRecord::new(&JOIN).with_detail(self.fiber.id().as_u64(), 0);
            if slot.join.wait(&record).is_err() {
                // Dropping the handle detaches the strand, which runs on.
                return Err(Box::new(
                    "a strand cannot be joined in a destructor that runs during a panic",
                ));
            }
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the strand has ended, this is its only handle, `T` is the caller's promise.
        let outcome = unsafe { take_outcome::<T>(slot) };
        free(slot);
        // SAFETY: `this` is never dropped, its field is taken once.
        drop(unsafe { std::ptr::read(&this.fiber) });
        outcome
    }

    /// Gives the handle up; returns whether the strand had ended with a panic.
    fn release(&self) -> bool {
        let slot = self.slot();
        if slot.join.detach() {
            return false;
        }
        // SAFETY: not detached, so it is done: the outcome is there and belongs to this handle.
        let panicked = unsafe { slot.drop_outcome() };
        free(slot);
        panicked
    }
}

impl Drop for RawHandle {
    fn drop(&mut self) {
        self.release();
    }
}

#[inline]
fn free(slot: &'static Slot) {
    // SAFETY: the callers are the only handle of an ended strand and took its outcome.
    let freed = worker::with_existing(|worker| unsafe { worker.slots().free(slot) });
    if freed.is_none() {
        // SAFETY: as above.
        unsafe { strand::free_without_worker(slot) };
    }
}

/// Waits for a strand and takes its value; twin of [`std::thread::JoinHandle`].
///
/// Dropping it detaches the strand, which then runs on by itself.
///
/// It may be sent to another strand only if the value may:
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// ramie::run(|| send(ramie::fiber::spawn_local(|| std::rc::Rc::new(1))));
/// ```
pub struct JoinHandle<T> {
    raw: RawHandle,
    value: PhantomData<*const T>,
}

// SAFETY: the handle gives its holder the value, which may then be on another thread, if `T: Send`.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: through a shared handle one can only ask whether the strand ended and unpark it.
unsafe impl<T> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    #[inline]
    pub(super) fn new(raw: RawHandle) -> Self {
        JoinHandle { raw, value: PhantomData }
    }

    /// Waits until the strand has ended and returns its value, or the payload of its panic.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, unless the strand has ended already.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// The strand panicked: the payload. It could not start, or its runtime gave it up: a text
    /// that says so. Called in a destructor during a panic before the strand has ended: a text;
    /// the strand is detached.
    #[track_caller]
    #[inline]
    pub fn join(self) -> thread::Result<T> {
        // SAFETY: `new`'s callers spawned the strand with a value of type `T`.
        unsafe { self.raw.join() }
    }

    /// Returns the handle with which the strand can be unparked.
    #[must_use]
    pub fn fiber(&self) -> &Fiber {
        &self.raw.fiber
    }

    /// The same by std's name.
    #[must_use]
    pub fn thread(&self) -> &Fiber {
        self.fiber()
    }

    /// Tells whether the strand has ended, so that `join` would return at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.raw.slot().join.is_done()
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("fiber", self.fiber()).finish_non_exhaustive()
    }
}

/// Waits for a strand of a scope; twin of [`std::thread::ScopedJoinHandle`].
pub struct ScopedJoinHandle<'scope, T> {
    raw: ManuallyDrop<RawHandle>,
    scope: &'scope ScopeData,
    value: PhantomData<*const T>,
}

// SAFETY: as for `JoinHandle`.
unsafe impl<T: Send> Send for ScopedJoinHandle<'_, T> {}
// SAFETY: as for `JoinHandle`.
unsafe impl<T> Sync for ScopedJoinHandle<'_, T> {}

impl<'scope, T> ScopedJoinHandle<'scope, T> {
    pub(super) fn new(raw: RawHandle, scope: &'scope ScopeData) -> Self {
        ScopedJoinHandle { raw: ManuallyDrop::new(raw), scope, value: PhantomData }
    }

    /// Waits until the strand has ended and returns its value, or the payload of its panic.
    ///
    /// A panic that is taken this way does not make the scope panic.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, unless the strand has ended already.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// As for [`JoinHandle::join`].
    #[track_caller]
    pub fn join(self) -> thread::Result<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the field is taken once.
        let raw = unsafe { ManuallyDrop::take(&mut this.raw) };
        // SAFETY: `new`'s callers spawned the strand with a value of type `T`.
        unsafe { raw.join() }
    }

    /// Returns the handle with which the strand can be unparked.
    #[must_use]
    pub fn fiber(&self) -> &Fiber {
        &self.raw.fiber
    }

    /// The same by std's name.
    #[must_use]
    pub fn thread(&self) -> &Fiber {
        self.fiber()
    }

    /// Tells whether the strand has ended, so that `join` would return at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.raw.slot().join.is_done()
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        // The name goes with the slot, so it is read first.
        let label = self.is_finished().then(|| label(self.raw.slot()));
        if self.raw.release() {
            self.scope.note_panic(label.unwrap_or_else(|| format!("{:?}", self.fiber())));
        }
        // SAFETY: the raw handle was released above and must not be again; its other field is
        // taken once.
        drop(unsafe { std::ptr::read(&self.raw.fiber) });
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("fiber", self.fiber()).finish_non_exhaustive()
    }
}
