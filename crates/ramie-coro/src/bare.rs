//! Coroutines for schedulers: a stack and a switch, without context or checks.
//!
//! | state | changed by |
//! |---|---|
//! | fresh: the closure lies on the stack | the first [`BareCoroutine::resume`] |
//! | running | [`BareYielder::suspend`], or the end of the body |
//! | suspended | [`BareCoroutine::resume`]; dropped or leaked: its stack is never used again |
//! | done | nothing; [`BareCoroutine::into_stack`] returns the stack |
//!
//! **Stack-ownership rule.** A stack is freed or reused only after the function on it has returned
//! or unwound. Therefore dropping a suspended bare coroutine leaks its stack and every value on it,
//! and counts the leak in [`stats`](crate::stats), because only the scheduler can decide whether to
//! unwind. Dropping a fresh coroutine drops its closure.
//!
//! A bare coroutine has no context segment, and it does not check whether it suspends while
//! unwinding. [`Coroutine`](crate::Coroutine) does both; a scheduler does them in its own way. The
//! scheduler sets a strand for each of its coroutines
//! ([`set_current`](crate::context::set_current)). Otherwise the contexts of several coroutines
//! mix, for example if one suspends inside the body of a [`Coroutine`](crate::Coroutine), and the
//! process aborts when it detects that.
#![allow(unsafe_code)]

use std::{
    fmt,
    mem::ManuallyDrop,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr, thread,
};

use corosensei::CoroutineResult;

use crate::{Resumed, Stack, saved::STACK_POINTER_WORD};

/// The largest closure that is moved to the base of its stack. A larger one is boxed, because
/// corosensei refuses it.
pub(crate) const MAX_INLINE_BYTES: usize = 1024;

/// The bounds of a stack, in the form that corosensei asks for.
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

/// Suspends the coroutine whose body received it.
///
/// It lies at the base of the coroutine's stack and is valid until the body has returned, so a
/// scheduler may keep a raw pointer to it. [`suspend`](Self::suspend) may be called on the
/// coroutine's stack, and on the stack of any coroutine that this one is resuming, directly or not.
/// It passes control to the resumer of this coroutine. The next resume continues after `suspend`.
#[repr(transparent)]
pub struct BareYielder<Input, Yield>(corosensei::Yielder<Input, Yield>);

impl<Input, Yield> BareYielder<Input, Yield> {
    /// Passes a value to the resumer, and returns the input of the next resume.
    ///
    /// # Safety
    /// The caller runs on the coroutine's own stack, or on the stack of a coroutine that this one
    /// is resuming. The compiler cannot check this: if a body lent `self` to another fiber and that
    /// fiber called `suspend`, the fiber would continue at this coroutine's resumer.
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

/// Runs a closure on its own stack, from suspension to suspension.
///
/// A bare coroutine stays on its thread:
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
    /// Creates a coroutine that will run `body` on `stack`. The closure is moved onto the stack; a
    /// closure of more than 1,024 bytes is boxed first.
    pub fn with_stack<F>(stack: Stack, body: F) -> Self
    where
        F: FnOnce(&BareYielder<Input, Yield>, Input) -> Return + 'static,
        Input: 'static,
        Yield: 'static,
        Return: 'static,
    {
        Self::with_stack_below(stack, 0, body)
    }

    /// Like [`with_stack`](Self::with_stack), but leaves `reserved` bytes at the stack's base to
    /// the caller.
    ///
    /// A scheduler keeps its data about the coroutine there, in the page (and, if it likes, the
    /// cache line) that a switch touches anyway. The memory belongs to the caller until it takes
    /// the stack back or leaks the coroutine.
    ///
    /// # Panics
    /// If `reserved` is not a multiple of 16, or more than 1,024.
    pub fn with_stack_below<F>(stack: Stack, reserved: usize, body: F) -> Self
    where
        F: FnOnce(&BareYielder<Input, Yield>, Input) -> Return + 'static,
        Input: 'static,
        Yield: 'static,
        Return: 'static,
    {
        // SAFETY: the body is 'static.
        unsafe { Self::with_stack_unchecked(stack, reserved, body) }
    }

    /// Like [`with_stack_below`](Self::with_stack_below), with a body that may borrow.
    ///
    /// # Safety
    /// Before a borrow ends, the body has returned or unwound; or the body never runs again, and
    /// references to its own stack were not lent to other code.
    pub(crate) unsafe fn with_stack_unchecked<F>(stack: Stack, reserved: usize, body: F) -> Self
    where
        F: FnOnce(&BareYielder<Input, Yield>, Input) -> Return,
    {
        assert!(
            reserved.is_multiple_of(16) && reserved <= 1024,
            "cannot reserve {reserved} bytes at the base of a stack: expected a multiple of 16, at \
             most 1,024"
        );
        let base = NonZeroUsize::new(stack.base().get() - reserved).expect("far above zero");
        let bounds = Bounds { base, limit: stack.limit() };
        let inner = if const { size_of::<F>() > MAX_INLINE_BYTES } {
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
    /// If the coroutine is done or running. A panic of the body propagates; the coroutine is done
    /// then.
    #[inline(always)]
    pub fn resume(&mut self, input: Input) -> Resumed<Yield, Return> {
        match self.inner.resume(input) {
            CoroutineResult::Yield(value) => Resumed::Yielded(value),
            CoroutineResult::Return(value) => Resumed::Returned(value),
        }
    }

    /// Returns whether it was resumed at least once.
    #[must_use]
    #[inline]
    pub fn is_started(&self) -> bool {
        self.inner.started()
    }

    /// Returns whether its body has returned or panicked.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        self.inner.done()
    }

    /// Returns its stack, to inspect or label it.
    #[must_use]
    #[inline]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Returns the stack pointer at which a suspended coroutine continues, for prefetches: with
    /// another version of the crate below, the address may be a different one.
    #[must_use]
    #[inline(always)]
    pub fn presumed_stack_pointer(&self) -> *const u8 {
        const { assert!(STACK_POINTER_WORD < size_of::<Self>() / size_of::<usize>()) };
        let words = ptr::from_ref(self).cast::<*const u8>();
        // SAFETY: the coroutine has that word, by the check above.
        let word = unsafe { words.add(STACK_POINTER_WORD) };
        // SAFETY: the first fields of a coroutine are words, without gaps between them.
        unsafe { word.read() }
    }

    /// Returns the stack if the coroutine is done; otherwise drops the coroutine.
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

    /// Abandons the coroutine: the values on its stack are never dropped, and the stack is never
    /// reused. The leak is counted in [`stats`](crate::stats).
    pub fn leak(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once, here: `this` is not dropped.
        unsafe { ManuallyDrop::take(&mut this.stack) }.leak();
    }

    /// Drops the closure of a fresh coroutine and returns the stack. If the closure's destructor
    /// panicked, returns the payload as well.
    pub(crate) fn into_fresh_stack(self) -> (Stack, thread::Result<()>) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: it is fresh; `this` is not dropped.
        let dropped = unsafe { this.drop_inner() };
        // SAFETY: taken once, here, after `inner`. No function was ever on it.
        (unsafe { ManuallyDrop::take(&mut this.stack) }, dropped)
    }

    /// Drops `inner`, and the closure of a fresh coroutine with it.
    ///
    /// # Safety
    /// The coroutine is fresh or done, and is not used again.
    unsafe fn drop_inner(&mut self) -> thread::Result<()> {
        // If the closure's destructor panics, `inner` does not notice that the closure is gone and
        // would drop it again. So `inner`, which owns nothing else, is forgotten in that case.
        catch_unwind(AssertUnwindSafe(|| self.inner.force_unwind()))?;
        // SAFETY: the caller's promise.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
        Ok(())
    }

    /// Unwinds a suspended body, so that the coroutine is done.
    ///
    /// Not public, because a body that suspends again and again would never let this return. The
    /// `Yielder` of [`Coroutine`](crate::Coroutine) prevents that.
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
