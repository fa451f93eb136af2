//! Coroutines for schedulers: a switch, a stack, and nothing else.
//!
//! | state | left by |
//! |---|---|
//! | fresh: the closure lies on the stack | the first [`BareCoroutine::resume`] |
//! | running | [`BareYielder::suspend`], or the end of the body |
//! | suspended | [`BareCoroutine::resume`]; dropped or leaked: its stack is never used again |
//! | done | nothing; [`BareCoroutine::into_stack`] gives the stack back |
//!
//! **Stack-ownership rule.** A stack is freed or reused only after the function on it has returned
//! or unwound. Therefore dropping a suspended bare coroutine leaks its stack, with all that lives
//! on it, and counts that in [`stats`](crate::stats): whether to unwind is its scheduler's to
//! decide. A dropped fresh coroutine drops its closure.
//!
//! There is no context segment and no check for suspension while unwinding, as in
//! [`Coroutine`](crate::Coroutine): a scheduler has its own. It sets a strand for each of its
//! coroutines, [`set_current`](crate::context::set_current); else what one leaves of its context,
//! such as a [`Coroutine`](crate::Coroutine) in whose middle it suspends, mixes with that of
//! others, and the process aborts when it finds that.
#![allow(unsafe_code)]

use std::{
    fmt,
    mem::ManuallyDrop,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr, thread,
};

use corosensei::CoroutineResult;

use crate::{Resumed, Stack};

/// The largest closure that is moved to the base of its stack; a larger one is boxed. corosensei
/// refuses more.
pub(crate) const MOST_BYTES_ON_STACK: usize = 1024;

/// What corosensei sees of a stack: its bounds.
struct Bounds {
    base: NonZeroUsize,
    limit: NonZeroUsize,
}

// SAFETY: the bounds of a `Stack`, which has a guard at its limit, is larger than MIN_STACK_SIZE
// (`StackSize::MIN_BYTES`), has a 16-aligned base, and is kept in `BareCoroutine::stack`.
unsafe impl corosensei::stack::Stack for Bounds {
    #[inline]
    fn base(&self) -> NonZeroUsize {
        self.base
    }

    #[inline]
    fn limit(&self) -> NonZeroUsize {
        self.limit
    }
}

/// Suspends the coroutine to which it was given.
///
/// A scheduler may keep a raw pointer to it: it lies at the base of the coroutine's stack, and is
/// valid until the body has returned. [`suspend`](Self::suspend) may be called from the stack of
/// any coroutine that this one is, directly or not, in the middle of resuming. Control goes to this
/// one's resumer; resuming this one goes on where `suspend` was called.
#[repr(transparent)]
pub struct BareYielder<Input, Yield>(corosensei::Yielder<Input, Yield>);

impl<Input, Yield> BareYielder<Input, Yield> {
    /// Gives a value to the resumer, and returns the next resumer's input.
    ///
    /// # Safety
    /// It is called on the coroutine's own stack, or on that of one that the coroutine is in the
    /// middle of resuming. A body that lends `self` to another fiber, which only waits for the body
    /// as far as the compiler knows, would have that fiber go on where this one's resumer is.
    /// ```compile_fail,E0133
    /// # let stack = ramie_coro::StackPool::new(Default::default()).take().unwrap();
    /// ramie_coro::bare::BareCoroutine::<(), (), ()>::with_stack(stack, |yielder, ()| {
    ///     let lent = || yielder.suspend(());
    ///     lent();
    /// });
    /// ```
    #[inline(always)]
    pub unsafe fn suspend(&self, value: Yield) -> Input {
        self.0.suspend(value)
    }

    #[inline]
    fn from_ref(yielder: &corosensei::Yielder<Input, Yield>) -> &Self {
        // SAFETY: `repr(transparent)` over the same type.
        unsafe { &*ptr::from_ref(yielder).cast() }
    }
}

impl<Input, Yield> fmt::Debug for BareYielder<Input, Yield> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("BareYielder")
    }
}

/// Runs a closure on a stack of its own, from suspension to suspension.
///
/// It stays on its thread:
/// ```compile_fail,E0277
/// fn needs_send<T: Send>() {}
/// needs_send::<ramie_coro::bare::BareCoroutine<(), (), ()>>();
/// ```
///
/// # Examples
/// ```
/// use ramie_coro::{Resumed, StackPool, StackSize, bare::BareCoroutine};
///
/// let mut pool = StackPool::new(StackSize::default());
/// let mut double = BareCoroutine::with_stack(pool.take()?, |yielder, first: u32| {
///     // SAFETY: on the coroutine's own stack.
///     let second = unsafe { yielder.suspend(2 * first) };
///     2 * second
/// });
/// assert_eq!(double.resume(1), Resumed::Yielded(2));
/// assert_eq!(double.resume(5), Resumed::Returned(10));
/// pool.put(double.into_stack().expect("it is done"));
/// # Ok::<(), ramie_coro::StackError>(())
/// ```
pub struct BareCoroutine<Input, Yield, Return> {
    /// INVARIANT: runs on `stack`, and is dropped only when fresh or done.
    inner: ManuallyDrop<corosensei::Coroutine<Input, Yield, Return, Bounds>>,
    /// INVARIANT: outlives `inner`; dropped only when no function is left on it.
    stack: ManuallyDrop<Stack>,
}

impl<Input, Yield, Return> BareCoroutine<Input, Yield, Return> {
    /// Makes a coroutine that will run `body` on `stack`, onto which it is moved; a closure of more
    /// than 1,024 bytes is boxed first.
    pub fn with_stack<F>(stack: Stack, body: F) -> Self
    where
        F: FnOnce(&BareYielder<Input, Yield>, Input) -> Return + 'static,
        Input: 'static,
        Yield: 'static,
        Return: 'static,
    {
        Self::with_stack_below(stack, 0, body)
    }

    /// The same, but leaves the `reserved` bytes below the stack's base to the caller.
    ///
    /// A scheduler keeps what it knows of the coroutine there, in the very page and, if it likes,
    /// cache line that a switch touches anyway. The memory is the caller's until it gets the stack
    /// back or leaks the coroutine.
    ///
    /// # Panics
    /// When `reserved` is not a multiple of 16, or more than 1,024.
    pub fn with_stack_below<F>(stack: Stack, reserved: usize, body: F) -> Self
    where
        F: FnOnce(&BareYielder<Input, Yield>, Input) -> Return + 'static,
        Input: 'static,
        Yield: 'static,
        Return: 'static,
    {
        // SAFETY: all is 'static.
        unsafe { Self::with_stack_unchecked(stack, reserved, body) }
    }

    /// The same, with a body that may borrow.
    ///
    /// # Safety
    /// When a borrow ends, the body has returned or unwound; or it never runs again and what it
    /// borrowed from its own stack was not lent on to others.
    pub(crate) unsafe fn with_stack_unchecked<F>(stack: Stack, reserved: usize, body: F) -> Self
    where
        F: FnOnce(&BareYielder<Input, Yield>, Input) -> Return,
    {
        assert!(
            reserved.is_multiple_of(16) && reserved <= 1024,
            "{reserved} bytes cannot be reserved at the base of a stack: at most 1,024, a multiple \
             of 16"
        );
        let base = NonZeroUsize::new(stack.base().get() - reserved).expect("far above zero");
        let bounds = Bounds { base, limit: stack.limit() };
        let inner = if const { size_of::<F>() > MOST_BYTES_ON_STACK } {
            let body = Box::new(body);
            let body = move |yielder: &_, input| body(BareYielder::from_ref(yielder), input);
            // SAFETY: the caller's promise.
            unsafe { corosensei::Coroutine::with_stack_unchecked(bounds, body) }
        } else {
            let body = move |yielder: &_, input| body(BareYielder::from_ref(yielder), input);
            // SAFETY: the caller's promise.
            unsafe { corosensei::Coroutine::with_stack_unchecked(bounds, body) }
        };
        BareCoroutine { inner: ManuallyDrop::new(inner), stack: ManuallyDrop::new(stack) }
    }

    /// Runs the coroutine until it suspends itself or is done.
    ///
    /// # Panics
    /// When it is done, or running; and with whatever its body panics, after which it is done.
    #[inline(always)]
    pub fn resume(&mut self, input: Input) -> Resumed<Yield, Return> {
        match self.inner.resume(input) {
            CoroutineResult::Yield(value) => Resumed::Yielded(value),
            CoroutineResult::Return(value) => Resumed::Returned(value),
        }
    }

    /// Tells whether it was resumed at least once.
    #[must_use]
    #[inline]
    pub fn is_started(&self) -> bool {
        self.inner.started()
    }

    /// Tells whether its body has returned or panicked.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        self.inner.done()
    }

    /// Returns its stack, to look at and to label.
    #[must_use]
    #[inline]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Gives the stack back when the coroutine is done; else drops the coroutine.
    #[must_use]
    #[inline]
    pub fn into_stack(self) -> Option<Stack> {
        if !self.is_done() {
            return None;
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: dropped once, here: `this` is not dropped.
        unsafe { ManuallyDrop::drop(&mut this.inner) };
        // SAFETY: taken once, here, after `inner`; it is done, so no function is left on it.
        Some(unsafe { ManuallyDrop::take(&mut this.stack) })
    }

    /// Gives the coroutine up for good: what is on its stack is never dropped, and the stack never
    /// reused. It is counted in [`stats`](crate::stats).
    pub fn leak(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once, here: `this` is not dropped.
        unsafe { ManuallyDrop::take(&mut this.stack) }.leak();
    }

    /// Drops a fresh coroutine's closure, and gives the stack back; with the payload, if the
    /// closure panicked in its destructor.
    pub(crate) fn into_fresh_stack(self) -> (Stack, thread::Result<()>) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: it is fresh; `this` is not dropped.
        let dropped = unsafe { this.drop_inner() };
        // SAFETY: taken once, here, after `inner`. No function was ever on it.
        (unsafe { ManuallyDrop::take(&mut this.stack) }, dropped)
    }

    /// Drops `inner`, and a fresh one's closure with it.
    ///
    /// # Safety
    /// It is fresh or done, and not touched again.
    unsafe fn drop_inner(&mut self) -> thread::Result<()> {
        // If the closure's destructor panics, `inner` does not know that it is gone and would drop
        // it again: so `inner`, which owns nothing else, is forgotten.
        catch_unwind(AssertUnwindSafe(|| self.inner.force_unwind()))?;
        // SAFETY: the caller's promise.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
        Ok(())
    }

    /// Unwinds a suspended body, so that the coroutine is done.
    ///
    /// A body that goes on suspending never ends this, hence not public: the `Yielder` of
    /// [`Coroutine`](crate::Coroutine) sees to it.
    pub(crate) fn unwind(&mut self) {
        self.inner.force_unwind();
    }
}

impl<Input, Yield, Return> Drop for BareCoroutine<Input, Yield, Return> {
    fn drop(&mut self) {
        if self.is_started() && !self.is_done() {
            // SAFETY: taken once: `drop` runs once, and returns right here.
            return unsafe { ManuallyDrop::take(&mut self.stack) }.leak();
        }
        // SAFETY: it was fresh or done, and `drop` runs once.
        let dropped = unsafe { self.drop_inner() };
        // SAFETY: as above, and after `inner`: no function is on it.
        unsafe { ManuallyDrop::drop(&mut self.stack) };
        if let Err(payload) = dropped {
            resume_unwind(payload);
        }
    }
}

impl<Input, Yield, Return> fmt::Debug for BareCoroutine<Input, Yield, Return> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("BareCoroutine")
            .field("is_started", &self.is_started())
            .field("is_done", &self.is_done())
            .field("stack", self.stack())
            .finish()
    }
}
