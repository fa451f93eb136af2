//! Suspending a coroutine by its name, from the stacks of others.
//!
//! A coroutine is found by its tag, in the list of [`crate::context`]; that it is there says that
//! it is in the middle of running the code that asks. The tag is the [`TypeId`] of a private type
//! made of the name's, so that it also says what values go in and come out.
#![allow(unsafe_code)]

use std::{
    any::{TypeId, type_name},
    marker::PhantomData,
    ptr::NonNull,
};

use super::{Coroutine, Yielder, control::Control, pools};
use crate::{StackSize, bare::BareYielder, context::find_owner};

/// Names coroutines, so that code inside them can suspend a certain one of several nested ones.
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
///         // Suspends the parser, with all that it is in the middle of.
///         first.len() + suspend_to(Parsing, "more, please").len()
///     });
///     inner.resume(()).returned()
/// });
/// assert_eq!(parser.resume("ab"), Resumed::Yielded("more, please"));
/// assert_eq!(parser.resume("cde"), Resumed::Returned(Some(5)));
/// assert!(parser.is_done());
/// ```
pub trait ContinuationScope: 'static {
    /// What a resumer gives.
    type Input: 'static;
    /// What a suspension gives.
    type Yield: 'static;
}

/// The type whose id is a scope's tag.
struct Named<S>(PhantomData<S>);

impl<Input: 'static, Yield: 'static, Return: 'static> Coroutine<Input, Yield, Return> {
    /// Makes a coroutine as [`new`](Self::new) does, in a scope by which [`suspend_to`] finds it.
    ///
    /// # Panics
    /// When there is no stack to be had.
    #[must_use]
    pub fn in_scope<S, F>(_scope: S, body: F) -> Self
    where
        S: ContinuationScope<Input = Input, Yield = Yield>,
        F: FnOnce(&Yielder<Input, Yield>, Input) -> Return + 'static,
    {
        let stack = pools::take(StackSize::default());
        let stack = stack.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: all is 'static, and the tag stands for these types.
        unsafe { Coroutine::on_stack_unchecked(stack, Some(TypeId::of::<Named<S>>()), body) }
    }
}

/// Suspends the innermost running coroutine of this scope, with all that it is in the middle of,
/// gives a value to its resumer, and returns the next resumer's input.
///
/// The coroutines in between stay as they are: running, and not to be resumed by anybody. All go on
/// when the one that was suspended is resumed, and are unwound, from the inside, when it is
/// dropped.
///
/// # Panics
/// When no coroutine of this scope is running on this strand. What applies to
/// [`Yielder::suspend`] applies here.
#[inline(always)]
#[track_caller]
pub fn suspend_to<S: ContinuationScope>(_scope: S, value: S::Yield) -> S::Input {
    // SAFETY: `in_scope` alone uses the tag, for coroutines of these types.
    let target = unsafe { Running::<S::Input, S::Yield>::find(TypeId::of::<Named<S>>()) };
    target.unwrap_or_else(|| none_of_scope::<S>()).suspend(value)
}

#[cold]
#[track_caller]
fn none_of_scope<S>() -> ! {
    panic!(
        "suspended to the scope `{}` where no coroutine of that scope is running: call suspend_to \
         inside the body of one made by Coroutine::in_scope, and on the same fiber",
        type_name::<S>()
    )
}

/// A coroutine that is in the middle of running the caller's code.
pub(crate) struct Running<Input, Yield> {
    /// INVARIANT: of a coroutine of these types that is in the current strand's list.
    control: NonNull<Control>,
    _types: PhantomData<fn(Yield) -> Input>,
}

impl<Input, Yield> Running<Input, Yield> {
    /// Finds the innermost one with this tag.
    ///
    /// # Safety
    /// Coroutines with this tag are of these types. What is found is used at once.
    #[inline(always)]
    pub(crate) unsafe fn find(tag: TypeId) -> Option<Self> {
        let control = find_owner(tag)?.cast();
        Some(Running { control, _types: PhantomData })
    }

    /// Suspends it, as [`Yielder::suspend`] does.
    #[inline(always)]
    pub(crate) fn suspend(self, value: Yield) -> Input {
        // SAFETY: owners of segments in the list are controls, which live as long as the body runs.
        let control = unsafe { self.control.as_ref() };
        control.check_suspension();
        let yielder: *const BareYielder<Input, Yield> = control.yielder().cast();
        // SAFETY: it is of these types (`find`), lies at the base of a stack whose body runs, and
        // so began and set it.
        let yielder = unsafe { &*yielder };
        // SAFETY: the caller is on that stack or on one that the body is resuming.
        unsafe { yielder.suspend(value) }
    }
}
