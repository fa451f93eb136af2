//! Handles that wait for a strand's end and take its value.
#![allow(unsafe_code)]

use std::{fmt, marker::PhantomData, mem::ManuallyDrop, ptr, thread};

use super::Fiber;
use crate::core::{
    cancel::{self, Cancelled},
    primitive::{AtomicPtr, Ordering},
    strand::{self, NoValue, Raised, ScopeData, StrandHeader, label, take_outcome},
    wait::{
        completion::Completion,
        park::{Refused, Subject, WaitKind, WaitRecord},
    },
    worker,
};

static JOIN: WaitKind = WaitKind::about("the end of a strand", Subject::Strand);

/// The only handle of a strand, without the type of its value.
///
/// INVARIANT: each strand gets one handle, right after its spawn, and the handle is dropped or
/// consumed once. Until then the header is not freed.
///
/// A handle is one word, because programs keep millions of them: the address of the header; or,
/// with the lowest bit set, that of the box that the first call of [`fiber`](Self::fiber) makes.
pub(super) struct RawHandle {
    word: AtomicPtr<()>,
}

/// A header together with its `Fiber`.
struct Named {
    header: &'static StrandHeader,
    fiber: Fiber,
}

const NAMED: usize = 1;

impl RawHandle {
    #[inline]
    pub(super) fn new(header: &'static StrandHeader) -> Self {
        RawHandle { word: AtomicPtr::new(ptr::from_ref(header).cast_mut().cast()) }
    }

    #[inline]
    fn header(&self) -> &'static StrandHeader {
        // Acquire: pairs with the release in `fiber`.
        let word = self.word.load(Ordering::Acquire);
        match Self::named(word) {
            Some(named) => named.header,
            // SAFETY: the word came from `new`; headers are never unmapped.
            None => unsafe { &*word.cast::<StrandHeader>() },
        }
    }

    /// The box whose address is in the word, if it is one.
    #[inline]
    fn named<'a>(word: *mut ()) -> Option<&'a Named> {
        let is_named = word.addr() & NAMED != 0;
        let named: *const Named = word.map_addr(|address| address & !NAMED).cast();
        // SAFETY: a word with the bit set came from `fiber`; the box lives as long as the handle,
        // which the callers borrow for longer than the result.
        is_named.then(|| unsafe { &*named })
    }

    fn fiber(&self) -> &Fiber {
        let word = self.word.load(Ordering::Acquire);
        if let Some(named) = Self::named(word) {
            return &named.fiber;
        }
        let header = self.header();
        let new = Box::into_raw(Box::new(Named { header, fiber: Fiber::of(header) }));
        let new = new.cast::<()>().map_addr(|address| address | NAMED);
        // Release: a strand that sees the box sees its content.
        match self.word.compare_exchange(word, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            // Another thread stored its box first, so this box is dropped.
            Err(_) => drop_named(new),
        }
        &Self::named(self.word.load(Ordering::Acquire)).expect("made just now").fiber
    }

    /// Waits for the end and takes the outcome.
    ///
    /// # Safety
    /// `T` is the type of the strand's value.
    #[track_caller]
    #[inline(always)]
    unsafe fn join<T>(self) -> Result<T, Raised> {
        let header = self.header();
        if !header.join.is_done() {
            check_not_own(header);
            if header.join.wait(&Self::record(header)).is_err() {
                // Dropping the handle detaches the strand, which continues.
                let why = "a strand cannot be joined in a destructor that runs during a panic";
                return Err(Raised::new(NoValue::NotRun, Box::new(why)));
            }
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the strand has ended, this is its only handle, `T` is the caller's promise.
        let outcome = unsafe { take_outcome::<T>(header) };
        free(header);
        drop_named(this.word.load(Ordering::Relaxed));
        outcome
    }

    #[track_caller]
    fn record(header: &StrandHeader) -> WaitRecord {
        WaitRecord::new(&JOIN).with_detail(header.id_bits(), 0)
    }

    /// Waits for the end, unless the strand that waits is cancelled. It takes `&mut self` because a
    /// strand has one waiter at a time.
    #[track_caller]
    fn wait(&mut self) -> Result<(), Cancelled> {
        let header = self.header();
        check_not_own(header);
        match header.join.wait(&Self::record(header).cancellable()) {
            Ok(_) => Ok(()),
            Err(Refused::Cancelled | Refused::Unwinding) => Err(cancel::cancelled()),
        }
    }

    /// Consumes the handle; calls `on_end` before the outcome of an ended strand is dropped.
    fn release(&self, on_end: impl FnOnce(&StrandHeader)) {
        let header = self.header();
        if header.join.detach() {
            return;
        }
        on_end(header);
        // SAFETY: not detached, so it is done: the outcome is there and belongs to this handle.
        unsafe { header.drop_outcome() };
        free(header);
    }
}

impl Drop for RawHandle {
    fn drop(&mut self) {
        self.release(|_| ());
        drop_named(*self.word.get_mut());
    }
}

/// Drops the box whose address is in the word, if it is one.
#[inline]
fn drop_named(word: *mut ()) {
    if word.addr() & NAMED != 0 {
        let named: *mut Named = word.map_addr(|address| address & !NAMED).cast();
        // SAFETY: the box came from `Box::into_raw`; the callers are the handle's end, or never
        // published it.
        drop(unsafe { Box::from_raw(named) });
    }
}

#[track_caller]
fn check_not_own(header: &StrandHeader) {
    assert!(
        !ptr::eq(worker::current().current_header(), header),
        "a strand cannot join itself: it would wait forever"
    );
}

#[inline]
fn free(header: &'static StrandHeader) {
    // SAFETY: the callers are the only handle of an ended strand and took its outcome.
    let freed = worker::with_existing(|worker| unsafe { worker.headers.free(header) });
    if freed.is_none() {
        // SAFETY: as above.
        unsafe { strand::free_without_worker(header) };
    }
}

/// Waits for a strand and takes its value; twin of [`std::thread::JoinHandle`].
///
/// Dropping the handle detaches the strand, which then continues by itself.
///
/// The handle is `Send` only if the value is:
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
    /// Not a cancel point; [`wait`](Self::wait) is.
    ///
    /// # Errors
    /// If the strand panicked, the error is the panic's payload. If the strand could not start, or
    /// its runtime abandoned it, the error is a text with the reason, a `&'static str` or a
    /// `String`. If `join` is called in a destructor during a panic, before the strand has ended,
    /// the error is such a text, and the strand is detached.
    #[track_caller]
    #[inline(always)]
    pub fn join(self) -> thread::Result<T> {
        self.join_raised().map_err(Raised::into_payload)
    }

    /// As `join`, but resumes the strand's panic instead of returning it.
    #[track_caller]
    pub(crate) fn join_or_raise(self) -> T {
        self.join_raised().unwrap_or_else(|raised| raised.raise())
    }

    /// As `join`, but returns a panic's payload with the information recorded about it.
    // Both are always inlined, because a spawn and its join otherwise take 6 % more instructions.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn join_raised(self) -> Result<T, Raised> {
        // SAFETY: `new`'s callers spawned the strand with a value of type `T`.
        unsafe { self.raw.join() }
    }

    /// Waits until the strand has ended, so that [`join`](Self::join) returns at once.
    ///
    /// # Blocking
    /// As [`join`](Self::join).
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// The strand that waits was cancelled before the other ended, or is a fiber that runs a
    /// destructor during a panic.
    #[track_caller]
    pub fn wait(&mut self) -> Result<(), Cancelled> {
        self.raw.wait()
    }

    /// Returns the handle with which the strand can be unparked.
    #[must_use]
    pub fn fiber(&self) -> &Fiber {
        self.raw.fiber()
    }

    /// As `fiber`, by the name that std uses.
    #[must_use]
    pub fn thread(&self) -> &Fiber {
        self.fiber()
    }

    /// Returns whether the strand has ended, so that `join` would return at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.raw.header().join.is_done()
    }

    /// For the future of this handle, which is then the strand's only waiter.
    pub(crate) fn completion(&self) -> &Completion {
        &self.raw.header().join
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("fiber", self.fiber()).finish_non_exhaustive()
    }
}

/// Waits for a strand of a scope; twin of [`std::thread::ScopedJoinHandle`].
///
/// The handle is `Send` only if the value is:
/// ```compile_fail,E0277
/// ramie::fiber::scope(|scope| {
///     let local = scope.spawn_local(|| std::rc::Rc::new(1));
///     scope.spawn(move || local.join().is_ok());
/// });
/// ```
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
    /// A panic that `join` returned does not make the scope panic.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, unless the strand has ended already.
    ///
    /// # Cancellation
    /// Not a cancel point; [`wait`](Self::wait) is.
    ///
    /// # Errors
    /// As for [`JoinHandle::join`].
    #[track_caller]
    pub fn join(self) -> thread::Result<T> {
        self.join_raised().map_err(Raised::into_payload)
    }

    /// As `join`, but resumes the strand's panic instead of returning it.
    #[track_caller]
    pub(crate) fn join_or_raise(self) -> T {
        self.join_raised().unwrap_or_else(|raised| raised.raise())
    }

    /// As `join`, but returns a panic's payload with the information recorded about it.
    #[track_caller]
    pub(crate) fn join_raised(self) -> Result<T, Raised> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the field is taken once.
        let raw = unsafe { ManuallyDrop::take(&mut this.raw) };
        // SAFETY: `new`'s callers spawned the strand with a value of type `T`.
        unsafe { raw.join() }
    }

    /// Waits until the strand has ended, so that [`join`](Self::join) returns at once.
    ///
    /// # Blocking
    /// As [`join`](Self::join).
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As for [`JoinHandle::wait`].
    #[track_caller]
    pub fn wait(&mut self) -> Result<(), Cancelled> {
        self.raw.wait()
    }

    /// Returns the handle with which the strand can be unparked.
    #[must_use]
    pub fn fiber(&self) -> &Fiber {
        self.raw.fiber()
    }

    /// As `fiber`, by the name that std uses.
    #[must_use]
    pub fn thread(&self) -> &Fiber {
        self.fiber()
    }

    /// Returns whether the strand has ended, so that `join` would return at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.raw.header().join.is_done()
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// For the future of this handle, which is then the strand's only waiter.
    pub(crate) fn completion(&self) -> &Completion {
        &self.raw.header().join
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        self.raw.release(|header| {
            // SAFETY: `release` has found the strand ended: its outcome belongs to this handle.
            if let Some(why) = unsafe { header.why_no_value() } {
                self.scope.note_panic(label(header), why);
            }
        });
        drop_named(*self.raw.word.get_mut());
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("fiber", self.fiber()).finish_non_exhaustive()
    }
}
