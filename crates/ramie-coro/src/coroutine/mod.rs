//! The general-purpose coroutine.
//!
//! | state | changed by |
//! |---|---|
//! | [`State::Suspended`], fresh or not | [`Coroutine::resume`]; dropped or reset: it is unwound |
//! | [`State::Running`] | [`Yielder::suspend`], the end of the body, a panic of the body |
//! | [`State::Done`] | [`Coroutine::reset`] |
//!
//! The dangers are code that runs in the middle of a transition: destructors that suspend again
//! while the body is unwound (abort, see `control`), a resumer that its own coroutine resumes (a
//! panic, see `control`), and a forgotten handle. The stack of a forgotten coroutine stays as it
//! is, which is harmless because nothing on it may borrow.
#![allow(unsafe_code)]

mod builder;
mod by_tag;
mod control;
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

pub(crate) use self::by_tag::TaggedCoroutine;
use self::control::Control;
pub use self::{
    builder::Builder,
    by_tag::{ContinuationScope, suspend_to},
    yielder::Yielder,
};
use crate::{
    Resumed, Stack, StackSize,
    abort::abort_with,
    bare::{BareCoroutine, BareYielder, MAX_INLINE_BYTES},
    thread_end,
};

/// The state of a coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The coroutine waits to be resumed, for the first time or again.
    Suspended,
    /// The coroutine runs, or has resumed another coroutine that runs.
    Running,
    /// The body has returned or panicked.
    Done,
}

/// Runs a closure on its own stack, from one suspension to the next.
///
/// The body receives a [`Yielder`], with which it can suspend at any call depth, and the first
/// input.
///
/// # Dropping
/// Dropping a suspended coroutine unwinds its stack, so that the values on it are dropped: the
/// pending [`Yielder::suspend`] does not return but unwinds, as with a panic, without a message.
/// - A body that catches this unwinding with `catch_unwind` may return. If it suspends again, the
///   process aborts. It also aborts if a destructor panics, as in any unwinding.
/// - This works even while the thread is unwinding from a panic of its own.
/// - [`std::thread::panicking`] is true meanwhile, as in any unwinding, so a lock whose guard lies
///   on the stack is poisoned, although nothing panicked.
/// - With `panic = "abort"` there is no unwinding, so the stack is leaked with the values on it,
///   and counted in [`stats`](crate::stats). The same happens if the body is suspended inside
///   [`context::with`](crate::context::with) on another strand than the one that drops it.
/// - In the destructors of thread-locals at the end of a thread the stack is leaked, too, because
///   the body may refer to a thread-local that is destroyed already (it suspended inside
///   `LocalKey::with`). This crate detects those destructors by thread-locals of its own. It first
///   uses one when a coroutine starts: for each of a thread's first 16 coroutines, and then
///   whenever their number has doubled. It does not detect destructors that run before the first of
///   those; see below.
///
/// Forgetting a coroutine leaks its stack and is otherwise harmless.
///
/// # Restrictions on a body
/// A body must not suspend inside the initialiser of a `thread_local!`, or inside any closure-style
/// access that relies on being left in the reverse order of being entered, as `scoped-tls` does,
/// because other code runs on the same thread in the meantime. The compiler cannot check this.
///
/// Nor may a coroutine that is suspended inside `LocalKey::with` be kept in a thread-local: when
/// the thread ends, the value may be destroyed before the coroutine is resumed or dropped. This
/// crate leaks such a coroutine if it detects that the thread's destructors run (see above). If the
/// thread-local was first used after the last of this crate's own, it cannot detect that, because
/// std does not report when those destructors begin; and a program cannot see when that was.
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
    /// `None` only if `reset` found no stack. INVARIANT: borrowed only by `resume`, while the state
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
    /// Creates a coroutine with a stack of the default size from this thread's pool.
    ///
    /// The body's closure is moved to the base of that stack. A closure of more than 1 KiB is
    /// boxed, and in a build without optimization copied to the stack when it is called.
    ///
    /// # Panics
    /// If the system provides no memory for a stack; [`Builder::build`] returns that as an error.
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
        // SAFETY: the body is 'static.
        unsafe { Coroutine::on_stack_unchecked(stack, None, body) }
    }

    /// Starts over with another body, on the same stack and with the same label.
    ///
    /// A suspended body is unwound first, as in [dropping](Self#dropping).
    ///
    /// # Panics
    /// If the old stack had to be leaked and the system provides no other. If the old body caught
    /// the forced unwind and then panicked, that panic propagates. In both cases the coroutine is
    /// done.
    pub fn reset<F>(&mut self, body: F)
    where
        F: FnOnce(&Yielder<Input, Yield>, Input) -> Return + 'static,
    {
        let size = self.bare.get_mut().as_ref().map(|bare| bare.stack().size());
        let stack = self.end();
        let stack = stack.map_or_else(|| pools::take(size.unwrap_or_default()), Ok);
        let stack = stack.unwrap_or_else(|error| panic!("{error}"));
        // A new control, because a leaked body refers to the old one.
        self.control = Control::new(self.control.tag(), &stack);
        // SAFETY: the body is 'static.
        *self.bare.get_mut() = Some(unsafe { bare_coroutine(stack, &self.control, body) });
    }
}

impl<Input, Yield, Return> Coroutine<Input, Yield, Return> {
    /// Creates a coroutine with a body that may borrow, and with a tag by which it is found.
    ///
    /// # Safety
    /// Before a borrow ends, [`unwind_borrower`](Self::unwind_borrower) was called, or the body is
    /// done. Code that suspends the coroutine by its tag uses the same `Input` and `Yield`.
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

    /// Unwinds a suspended body that may borrow. Aborts if it cannot be unwound, because its
    /// borrows would dangle.
    ///
    /// # Panics
    /// Propagates the panic of a body that caught the forced unwind and then panicked.
    pub(crate) fn unwind_borrower(&self) {
        match self.control.state() {
            State::Done => return,
            State::Suspended if cfg!(panic = "unwind") && !self.control.is_bound_elsewhere() => (),
            State::Suspended | State::Running => abort_with(
                "a handled or delimited body that may borrow was left unfinished where it cannot \
                 be unwound (with panic=\"abort\", or suspended inside a scope of another fiber): \
                 resume it to its end, or use a body that is 'static",
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
    /// Until then its body sees the [context](crate::context) of this call, behind the values that
    /// the body has set itself: a deadline or a cancel scope around this call applies to the calls
    /// of the body. A strand that the body spawns has one parent of each kind, the innermost.
    /// Suppose the body has suspended inside a cancel scope of its own and is resumed inside
    /// another cancel scope. If the body then opens a scope, its strands belong to the body's
    /// cancel scope alone: cancelling the one around this call does not reach them, only the strand
    /// that opened the scope. (A deadline does reach them, because they get the tightest one.)
    ///
    /// # Panics
    /// If the coroutine is done or running, or is suspended inside a
    /// [`context::with`](crate::context::with) on another strand. A panic of the body propagates;
    /// the coroutine is done then.
    #[inline]
    #[track_caller]
    pub fn resume(&self, input: Input) -> Resumed<Yield, Return> {
        let running = self.control.enter();
        // SAFETY: the state was Suspended and is Running now, which `enter` allows once at a time,
        // so there is no other borrow (`bare`).
        let bare = unsafe { &mut *self.bare.get() };
        let bare = bare.as_mut().expect("only a coroutine that is done has none");
        let resumed = bare.resume(input);
        if let Resumed::Yielded(_) = resumed {
            running.suspended();
        }
        resumed
    }

    /// Returns the state of the coroutine.
    #[must_use]
    #[inline]
    pub fn state(&self) -> State {
        self.control.state()
    }

    /// Returns whether its body has returned or panicked.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        self.state() == State::Done
    }

    /// Unwinds a suspended body, and returns the stack unless it had to be leaked.
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

/// Returns the stack, or continues the panic.
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
    if const { size_of::<F>() > MAX_INLINE_BYTES } {
        // Boxed before it is wrapped, because unoptimized code copies a closure in each wrapper.
        let body = with_yielder(control, Box::new(body));
        // SAFETY: the caller's promise.
        unsafe { BareCoroutine::with_stack_unchecked(stack, 0, body) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { BareCoroutine::with_stack_unchecked(stack, 0, with_yielder(control, body)) }
    }
}

/// Wraps the body, so that it can run as a bare coroutine.
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
