//! The coroutine for everyone.
//!
//! | state | left by |
//! |---|---|
//! | [`State::Suspended`], fresh or not | [`Coroutine::resume`]; dropped or reset: it is unwound |
//! | [`State::Running`] | [`Yielder::suspend`], the end of the body, a panic of the body |
//! | [`State::Done`] | [`Coroutine::reset`] |
//!
//! What to fear is code that runs in the middle of a transition: destructors that run while the
//! body is unwound and suspend again (abort, `control`), a resumer that is
//! resumed by its own coroutine (a panic, `control`), and a handle that is forgotten:
//! its stack stays as it is, and since nothing on it may borrow, nobody notices.
#![allow(unsafe_code)]

mod builder;
mod control;
mod named;
mod pools;
mod yielder;

use std::{
    any::{Any, TypeId},
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
};

use self::control::Control;
pub(crate) use self::named::Running;
pub use self::{
    builder::Builder,
    named::{ContinuationScope, suspend_to},
    yielder::Yielder,
};
use crate::{
    Resumed, Stack, StackSize,
    abort::abort_with,
    bare::{BareCoroutine, BareYielder, MOST_BYTES_ON_STACK},
    thread_end,
};

/// Says what a coroutine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It waits to be resumed, for the first time or again.
    Suspended,
    /// It runs, or it has resumed another coroutine that runs.
    Running,
    /// Its body has returned or panicked.
    Done,
}

/// Runs a closure on a stack of its own, from one suspension to the next.
///
/// The body is given a [`Yielder`], with which it suspends itself from however deep a call; and the
/// first input.
///
/// # Dropping
/// A suspended coroutine's stack is unwound, so that what lives on it is dropped: the body's
/// pending [`Yielder::suspend`] does not return but unwinds, as by a panic, without a message.
/// - A body that stops this unwinding, with `catch_unwind`, may return, but not suspend again: that
///   aborts the process. So does a panic in a destructor, as it does in any unwinding.
/// - While the thread is unwinding from a panic of its own, it works all the same.
/// - With `panic = "abort"` there is no unwinding: the stack is leaked, with what lives on it, and
///   counted in [`stats`](crate::stats). The same holds if the body is suspended inside
///   [`context::with`](crate::context::with) on another strand than the one that drops it.
/// - In the destructors of thread-locals at the end of a thread the stack is leaked, too, because
///   the body may refer to a thread-local that is destroyed already (it suspended inside
///   `LocalKey::with`). This crate learns that those destructors run from thread-locals of its own,
///   which it first uses when a coroutine starts: for each of a thread's first 16, and then
///   whenever their number has doubled. Of the destructors that run before the first of those it
///   knows nothing; see below.
///
/// Forgetting a coroutine leaks its stack and is otherwise harmless.
///
/// # What a body must not do
/// Suspend inside the initialiser of a `thread_local!`, or inside any closure-style access that
/// relies on being left in the reverse order of being entered, as `scoped-tls` does: others run on
/// the same thread in the meantime. The compiler cannot check it.
///
/// Nor may a coroutine that is suspended inside `LocalKey::with` be kept in a thread-local: when
/// the thread ends, the value may be destroyed before the coroutine is resumed or dropped. This
/// crate leaks such a coroutine where it knows that the thread's destructors run (see above). Where
/// the thread-local was first used after the last of this crate's own, it does not know it, because
/// std does not tell when those destructors begin; and a program cannot see when that was.
///
/// # No borrows, no sending
/// A handle can be forgotten, so neither body nor values may borrow:
/// ```compile_fail,E0597
/// let word = String::new();
/// let borrowed: &str = &word;
/// ramie_coro::Coroutine::<(), (), ()>::new(move |_, ()| drop(borrowed));
/// ```
/// ```compile_fail,E0597
/// let coroutine = ramie_coro::Coroutine::<&String, (), ()>::new(|_, _| ());
/// let word = String::new();
/// coroutine.resume(&word);
/// ```
/// ```compile_fail,E0310
/// fn yields<T>(value: T) {
///     ramie_coro::Coroutine::<(), T, ()>::new(|_, ()| ());
/// }
/// ```
/// ```compile_fail,E0310
/// fn returns<T>() {
///     ramie_coro::Coroutine::<(), (), Option<T>>::new(|_, ()| None);
/// }
/// ```
///
/// # Examples
/// ```
/// use ramie_coro::{Coroutine, Resumed, State};
///
/// let average = Coroutine::new(|yielder, first: f64| {
///     let (mut sum, mut count) = (first, 1.0);
///     while sum < 100.0 {
///         sum += yielder.suspend(sum / count);
///         count += 1.0;
///     }
///     "enough"
/// });
/// assert_eq!(average.resume(4.0), Resumed::Yielded(4.0));
/// assert_eq!(average.resume(8.0), Resumed::Yielded(6.0));
/// assert_eq!(average.state(), State::Suspended);
/// assert_eq!(average.resume(90.0), Resumed::Returned("enough"));
/// assert_eq!(average.state(), State::Done);
/// ```
pub struct Coroutine<Input, Yield, Return> {
    /// None only if `reset` found no stack. INVARIANT: borrowed only by `resume`, while the state
    /// is Running, and through `&mut self`.
    bare: UnsafeCell<Option<BareCoroutine<Input, Yield, Return>>>,
    control: Rc<Control>,
    /// A coroutine stays on its thread:
    /// ```compile_fail,E0277
    /// fn needs_send<T: Send>() {}
    /// needs_send::<ramie_coro::Coroutine<(), (), ()>>();
    /// ```
    /// ```compile_fail,E0277
    /// fn needs_sync<T: Sync>() {}
    /// needs_sync::<ramie_coro::Coroutine<(), (), ()>>();
    /// ```
    _stays: PhantomData<*mut ()>,
}

impl<Input: 'static, Yield: 'static, Return: 'static> Coroutine<Input, Yield, Return> {
    /// Makes a coroutine with a stack of the default size from this thread's pool.
    ///
    /// The body's closure is moved to the base of that stack; one of more than 1 KiB is boxed, and
    /// in a build without optimization copied to the stack when it is called.
    ///
    /// # Panics
    /// When there is no stack to be had; [`Builder::build`] returns that as an error.
    #[must_use]
    pub fn new<F>(body: F) -> Self
    where
        F: FnOnce(&Yielder<Input, Yield>, Input) -> Return + 'static,
    {
        Builder::new().build(body).unwrap_or_else(|error| panic!("{error}"))
    }

    fn on_stack<F>(stack: Stack, body: F) -> Self
    where
        F: FnOnce(&Yielder<Input, Yield>, Input) -> Return + 'static,
    {
        // SAFETY: all is 'static.
        unsafe { Coroutine::on_stack_unchecked(stack, None, body) }
    }

    /// Starts over with another body, on the same stack and under the same label.
    ///
    /// A suspended body is unwound first, as in [dropping](Self#dropping).
    ///
    /// # Panics
    /// When the old stack had to be leaked and there is no other; and with what a body panics that
    /// has stopped its unwinding. The coroutine is done then.
    pub fn reset<F>(&mut self, body: F)
    where
        F: FnOnce(&Yielder<Input, Yield>, Input) -> Return + 'static,
    {
        let size = self.bare.get_mut().as_ref().map(|bare| bare.stack().size());
        let stack = self.end();
        let stack = stack.map_or_else(|| pools::take(size.unwrap_or_default()), Ok);
        let stack = stack.unwrap_or_else(|error| panic!("{error}"));
        // A new one: a leaked body refers to the old one.
        self.control = Control::new(self.control.tag(), &stack);
        // SAFETY: all is 'static.
        *self.bare.get_mut() = Some(unsafe { bare_coroutine(stack, &self.control, body) });
    }
}

impl<Input, Yield, Return> Coroutine<Input, Yield, Return> {
    /// Makes a coroutine with a body that may borrow, to be found under a tag.
    ///
    /// # Safety
    /// When a borrow ends, [`unwind_borrower`](Self::unwind_borrower) was called, or the body is
    /// done. Whoever suspends it by its tag knows `Input` and `Yield`.
    pub(crate) unsafe fn borrowing<F>(tag: Option<TypeId>, body: F) -> Self
    where
        F: FnOnce(&Yielder<Input, Yield>, Input) -> Return,
    {
        let stack = pools::take(StackSize::default());
        let stack = stack.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: the caller's promise.
        unsafe { Coroutine::on_stack_unchecked(stack, tag, body) }
    }

    /// # Safety
    /// As for [`borrowing`](Self::borrowing).
    unsafe fn on_stack_unchecked<F>(stack: Stack, tag: Option<TypeId>, body: F) -> Self
    where
        F: FnOnce(&Yielder<Input, Yield>, Input) -> Return,
    {
        let control = Control::new(tag, &stack);
        // SAFETY: the caller's promise.
        let bare = unsafe { bare_coroutine(stack, &control, body) };
        Coroutine { bare: UnsafeCell::new(Some(bare)), control, _stays: PhantomData }
    }

    /// Unwinds a suspended body that may borrow, or aborts: there is no going on without.
    ///
    /// # Panics
    /// With what a body panics that has stopped its unwinding.
    pub(crate) fn unwind_borrower(&self) {
        match self.control.state() {
            State::Done => return,
            State::Suspended if cfg!(panic = "unwind") && !self.control.is_bound_elsewhere() => (),
            State::Suspended | State::Running => abort_with(
                "a handled or delimited body that may borrow was left unfinished where it cannot \
                 be unwound (with panic=\"abort\", or suspended inside a scope of another fiber): \
                 resume it to its end, or give it a body of 'static",
            ),
        }
        let running = self.control.enter_to_unwind();
        // SAFETY: as in `resume`.
        let bare = unsafe { &mut *self.bare.get() };
        let unwound = catch_unwind(AssertUnwindSafe(|| bare.as_mut().map(BareCoroutine::unwind)));
        drop(running);
        if let Err(payload) = unwound {
            resume_unwind(payload);
        }
    }

    /// Whether it is suspended inside a scope on another strand than the current one.
    pub(crate) fn is_bound_elsewhere(&self) -> bool {
        self.control.is_bound_elsewhere()
    }

    /// Runs the coroutine until it suspends itself or is done.
    ///
    /// Until then its body sees the [context](crate::context) that it is resumed in, behind what
    /// it has set itself: a limit or a cancel scope around this call holds for what the body
    /// calls. A strand that the body starts has a parent of one kind at most, the innermost. So if
    /// the body has suspended inside a cancel scope of its own, strands of a scope that it opens
    /// when it is resumed inside another are members of its own scope alone: cancelling the one
    /// around this call does not reach them, only their opener. (A deadline does: they get the
    /// tightest.)
    ///
    /// # Panics
    /// When it is done or running, or is suspended inside a [`context::with`](crate::context::with)
    /// on another strand; and with whatever its body panics, after which it is done.
    #[inline]
    pub fn resume(&self, input: Input) -> Resumed<Yield, Return> {
        let running = self.control.enter();
        // SAFETY: the state was Suspended and is Running now, which `enter` lets happen once at a
        // time: there is no other borrow (`bare`).
        let bare = unsafe { &mut *self.bare.get() };
        let bare = bare.as_mut().expect("only a coroutine that is done has none");
        let resumed = bare.resume(input);
        if let Resumed::Yielded(_) = resumed {
            running.suspended();
        }
        resumed
    }

    /// Says what the coroutine is doing.
    #[must_use]
    #[inline]
    pub fn state(&self) -> State {
        self.control.state()
    }

    /// Tells whether its body has returned or panicked.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        self.state() == State::Done
    }

    /// Unwinds what is suspended, and returns the stack unless it had to be leaked.
    fn end(&mut self) -> Option<Stack> {
        let mut bare = self.bare.get_mut().take()?;
        let panic = match self.control.state() {
            State::Suspended if !bare.is_started() => {
                self.control.set_done();
                let (stack, dropped) = bare.into_fresh_stack();
                return finish(Some(stack), dropped.err());
            }
            State::Suspended if can_unwind(&self.control) => {
                let _running = self.control.enter_to_unwind();
                catch_unwind(AssertUnwindSafe(|| bare.unwind())).err()
            }
            State::Done => None,
            State::Suspended | State::Running => {
                self.control.set_done();
                bare.leak();
                return None;
            }
        };
        finish(bare.into_stack(), panic)
    }
}

/// Returns the stack, or goes on with the panic.
fn finish(stack: Option<Stack>, panic: Option<Box<dyn Any + Send>>) -> Option<Stack> {
    if let Some(payload) = panic {
        stack.into_iter().for_each(pools::put);
        resume_unwind(payload);
    }
    stack
}

/// Whether a suspended body may be unwound, see [`Coroutine`]'s documentation on dropping.
fn can_unwind(control: &Control) -> bool {
    cfg!(panic = "unwind") && !thread_end::has_begun() && !control.is_bound_elsewhere()
}

/// # Safety
/// As for [`Coroutine::borrowing`].
unsafe fn bare_coroutine<Input, Yield, Return, F>(
    stack: Stack,
    control: &Rc<Control>,
    body: F,
) -> BareCoroutine<Input, Yield, Return>
where
    F: FnOnce(&Yielder<Input, Yield>, Input) -> Return,
{
    let control = Rc::clone(control);
    if const { size_of::<F>() > MOST_BYTES_ON_STACK } {
        // Boxed before it is wrapped, because unoptimized code copies a closure in each wrapper.
        let body = with_yielder(control, Box::new(body));
        // SAFETY: the caller's promise.
        unsafe { BareCoroutine::with_stack_unchecked(stack, 0, body) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { BareCoroutine::with_stack_unchecked(stack, 0, with_yielder(control, body)) }
    }
}

/// The body for a bare coroutine.
#[inline]
fn with_yielder<Input, Yield, Return>(
    control: Rc<Control>,
    body: impl FnOnce(&Yielder<Input, Yield>, Input) -> Return,
) -> impl FnOnce(&BareYielder<Input, Yield>, Input) -> Return {
    move |yielder, input| {
        thread_end::note_start();
        let yielder = Yielder::new(yielder, control);
        body(&yielder, input)
    }
}

impl<Input, Yield, Return> Drop for Coroutine<Input, Yield, Return> {
    fn drop(&mut self) {
        if let Some(stack) = self.end() {
            pools::put(stack);
        }
    }
}

impl<Input, Yield, Return> fmt::Debug for Coroutine<Input, Yield, Return> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Coroutine").field("state", &self.state()).finish_non_exhaustive()
    }
}
