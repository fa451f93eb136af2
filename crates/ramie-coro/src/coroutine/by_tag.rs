//! Suspending a coroutine by its tag, from the stacks of other coroutines.
//!
//! A search in the list of [`crate::context`] finds the coroutine by its tag. If it is in the list,
//! it is running the code that searches. The tag is the [`TypeId`] of a private type that is
//! generic over the scope, so it also determines the types of the input and the yielded value.
#![allow(unsafe_code)]

use std::{
    any::{TypeId, type_name},
    marker::PhantomData,
    ptr::NonNull,
};

use super::{Coroutine, Yielder, control::Control, pools};
use crate::{StackSize, bare::BareYielder, context::find_owner};

/// Names coroutines, so that code inside several nested ones can suspend a particular one.
///
/// # Examples
/// ```
/// use ramie_coro::{ContinuationScope, Coroutine, Resumed, suspend_to};
///
/// struct Parsing;
/// impl ContinuationScope for Parsing {
///     type Input = &'static str;
///     type Yield = &'static str;
/// }
///
/// let parser = Coroutine::in_scope(Parsing, |_, first| {
///     let inner = Coroutine::<(), (), usize>::new(move |_, ()| {
///         // Suspends the parser, including the inner coroutine that it is resuming.
///         first.len() + suspend_to(Parsing, "more, please").len()
///     });
///     inner.resume(()).returned()
/// });
/// assert_eq!(parser.resume("ab"), Resumed::Yielded("more, please"));
/// assert_eq!(parser.resume("cde"), Resumed::Returned(Some(5)));
/// assert!(parser.is_done());
/// ```
pub trait ContinuationScope: 'static {
    /// The value that a resumer passes in.
    type Input: 'static;
    /// The value that a suspension passes out.
    type Yield: 'static;
}

/// The type whose id is a scope's tag.
struct ScopeTag<S>(PhantomData<S>);

impl<Input: 'static, Yield: 'static, Return: 'static> Coroutine<Input, Yield, Return> {
    /// Creates a coroutine as [`new`](Self::new) does, in a scope by which [`suspend_to`] finds it.
    ///
    /// # Panics
    /// If the system provides no memory for a stack.
    #[must_use]
    pub fn in_scope<S, F>(_scope: S, body: F) -> Self
    where
        S: ContinuationScope<Input = Input, Yield = Yield>,
        F: FnOnce(&Yielder<Input, Yield>, Input) -> Return + 'static,
    {
        let stack = pools::take(StackSize::default());
        let stack = stack.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: the body is 'static, and the tag stands for these types.
        unsafe { Coroutine::on_stack_unchecked(stack, Some(TypeId::of::<ScopeTag<S>>()), body) }
    }
}

/// Suspends the innermost running coroutine of this scope, including the coroutines that it is
/// resuming. Passes `value` to its resumer, and returns the input of the next resume.
///
/// The coroutines in between stay running, so they cannot be resumed. They continue when the
/// suspended coroutine is resumed, and are unwound, innermost first, when it is dropped.
///
/// # Panics
/// If no coroutine of this scope is running on this strand. The panics and aborts of
/// [`Yielder::suspend`] apply, too.
#[inline(always)]
#[track_caller]
pub fn suspend_to<S: ContinuationScope>(_scope: S, value: S::Yield) -> S::Input {
    // SAFETY: only `in_scope` uses the tag, for coroutines of these types.
    let target =
        unsafe { TaggedCoroutine::<S::Input, S::Yield>::find(TypeId::of::<ScopeTag<S>>()) };
    target.unwrap_or_else(|| none_of_scope::<S>()).suspend(value)
}

#[cold]
#[track_caller]
fn none_of_scope<S>() -> ! {
    panic!(
        "no coroutine of scope `{}` is running here: call suspend_to inside the body of a \
         coroutine made by Coroutine::in_scope, and on the same fiber",
        type_name::<S>()
    )
}

/// A coroutine that is running the caller's code.
pub(crate) struct TaggedCoroutine<Input, Yield> {
    /// INVARIANT: the control of a coroutine of these types in the current strand's list.
    control: NonNull<Control>,
    _types: PhantomData<fn(Yield) -> Input>,
}

impl<Input, Yield> TaggedCoroutine<Input, Yield> {
    /// Finds the innermost coroutine with this tag.
    ///
    /// # Safety
    /// Coroutines with this tag are of these types. The result is used before the list changes.
    #[inline(always)]
    pub(crate) unsafe fn find(tag: TypeId) -> Option<Self> {
        let control = find_owner(tag)?.cast();
        Some(TaggedCoroutine { control, _types: PhantomData })
    }

    /// Suspends the coroutine, as [`Yielder::suspend`] does.
    #[inline(always)]
    pub(crate) fn suspend(self, value: Yield) -> Input {
        // SAFETY: owners of segments in the list are controls, which live as long as the body runs.
        let control = unsafe { self.control.as_ref() };
        control.check_suspension();
        let yielder: *const BareYielder<Input, Yield> = control.yielder().cast();
        // SAFETY: it is of these types (`find`) and lies at the base of a stack whose body runs, so
        // the body has set it.
        let yielder = unsafe { &*yielder };
        // SAFETY: the caller is on that stack or on one that the body is resuming.
        unsafe { yielder.suspend(value) }
    }
}
