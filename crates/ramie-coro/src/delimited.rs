//! Delimited continuations: `reset` and `shift`.
//!
//! [`reset`] runs a body. In the body, [`Prompt::shift`] captures the rest of the body, up to the
//! `reset`, as a function from the value of `shift` to the value of the body. It then calls another
//! function with this rest, in place of the body, and `reset` returns the value of that function.
//!
//! ```
//! use ramie_coro::delimited::reset;
//!
//! // "1 + _" is the rest of the body; it is applied to 10, and the result is doubled.
//! let result = reset(|prompt| 1 + prompt.shift(|rest| 2 * rest.resume(10)));
//! assert_eq!(result, 22);
//! ```
//!
//! # Where a resumption runs
//! A resumed body runs inside its `reset` again. The function does not, nor does it run under the
//! [handlers](crate::effect) inside the `reset`. Each resumption waits for the rest of the body, so
//! a million nested resumptions overflow the stack; effects that continue with
//! [`Resume::with`](crate::effect::Resume::with) do not.
//!
//! # Why it is sound
//! The function outlives the frame that it came from: it may drop the rest, which unwinds the body,
//! and continue. So it borrows only from outside the `reset`. The body's borrows, forgotten and
//! kept resumptions, and the reason for one shot are the same as for [effects](crate::effect).

// # Protocol
// A body runs on a stack of its own. `shift` leaves its function in its frame and suspends the
// body. The code that resumed the body then calls the function: `reset`, or the resumption before.
//
// | state of a body | changed by |
// |---|---|
// | running | a `shift` to its prompt; its end; a panic, which propagates to its resumer |
// | suspended in a `shift` | [`Captured::resume`], [`Continuation::resume`]; or it is unwound |
// | done | nothing |
#![allow(unsafe_code)]

use std::{
    fmt,
    marker::PhantomData,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::NonNull,
    thread::panicking,
};

use crate::{Coroutine, Resumed, Yielder, effect::Unwind};

/// A delimited body: each suspension passes out the address of a [`Shift`], whose first field has
/// the type `Run`.
type DelimitedBody<R> = Coroutine<(), NonNull<()>, R>;

/// The data in the frame of a `shift` while its body is suspended.
#[repr(C)]
struct Shift<Run, F, T> {
    /// Calls `function` with the rest of the body.
    run: Run,
    function: Option<F>,
    value: Option<T>,
}

/// Suspends the body in a `shift` until it is resumed with a value.
fn suspend_in<Run, F, T>(yielder: &Yielder<(), NonNull<()>>, run: Run, function: F) -> T {
    let mut shift = Shift { run, function: Some(function), value: None };
    let mut place = NonNull::from(&mut shift);
    yielder.suspend(place.cast());
    // SAFETY: it lies in this frame, and the resumer, which wrote to it, no longer uses it.
    let value = unsafe { place.as_mut() }.value.take();
    value.expect("a body is resumed with a value")
}

type RunBorrowed<R> = unsafe fn(NonNull<()>, &DelimitedBody<R>) -> R;
type RunKept<R> = unsafe fn(NonNull<()>, DelimitedBody<R>) -> R;

/// Runs `body`, and returns its value or, if the body calls [`Prompt::shift`], the value of the
/// function passed to that.
///
/// Body and functions may borrow. A body that was not resumed to its end is unwound before `reset`
/// returns. See [`reset_kept`] for continuations that can be kept.
///
/// # Panics
/// Propagates a panic of the body or of a function. Panics if the system provides no memory for a
/// stack.
///
/// It aborts the process if an unfinished body cannot be unwound, as with `panic = "abort"`.
///
/// # Examples
/// ```
/// use ramie_coro::delimited::reset;
///
/// let words = ["one", "two", "", "four"];
/// // A function that does not resume returns early, at any call depth.
/// let lengths = reset(|prompt| {
///     let length = |word: &&str| match word.len() {
///         0 => prompt.shift(|_rest| Err("an empty word")),
///         length => length,
///     };
///     Ok(words.iter().map(length).collect::<Vec<_>>())
/// });
/// assert_eq!(lengths, Err("an empty word"));
/// ```
/// A function cannot borrow from the body, which may be gone when the function runs:
/// ```compile_fail
/// # use ramie_coro::delimited::reset;
/// reset(|prompt| {
///     let word = String::new();
///     prompt.shift(|rest| {
///         drop(rest);
///         println!("{word}");
///     })
/// });
/// ```
/// The rest cannot leave the function, nor can the prompt leave the body:
/// ```compile_fail
/// # use ramie_coro::delimited::reset;
/// let mut kept = None;
/// reset(|prompt| prompt.shift::<()>(|rest| kept = Some(rest)));
/// ```
/// ```compile_fail
/// # use ramie_coro::delimited::reset;
/// let mut kept = None;
/// reset(|prompt| kept = Some(prompt));
/// ```
pub fn reset<'env, R>(body: impl FnOnce(&Prompt<'env, R>) -> R) -> R {
    // SAFETY: the borrows outlive this call, and `Unwind` ends the body before it returns. There is
    // no tag.
    let body = unsafe {
        DelimitedBody::borrowing(None, |yielder, ()| {
            body(&Prompt {
                yielder: NonNull::from(yielder),
                _env: PhantomData,
                _result: PhantomData,
            })
        })
    };
    let body = Unwind(body);
    // A panic of a function is caught, so that the body is unwound outside the function's
    // unwinding, where its destructors may wait for other fibers.
    let value = catch_unwind(AssertUnwindSafe(|| run_borrowed(&body.0)));
    drop(body);
    value.unwrap_or_else(|payload| resume_unwind(payload))
}

fn run_borrowed<R>(body: &DelimitedBody<R>) -> R {
    match body.resume(()) {
        Resumed::Returned(value) => value,
        Resumed::Yielded(shift) => {
            // SAFETY: this prompt's `shift` suspends with the address of a `Shift`, of which this
            // is the first field.
            let run = unsafe { *shift.cast::<RunBorrowed<R>>().as_ref() };
            // SAFETY: the `Shift` in which this body has just suspended.
            unsafe { run(shift, body) }
        }
    }
}

/// Marks the end of a continuation that is [captured](Prompt::shift).
pub struct Prompt<'env, R> {
    /// INVARIANT: the yielder of the body that received `self`, in a frame that outlives `self`.
    yielder: NonNull<Yielder<(), NonNull<()>>>,
    /// Makes `'env`, from which functions may borrow, invariant.
    _env: PhantomData<fn(&'env ()) -> &'env ()>,
    _result: PhantomData<fn(R) -> R>,
}

impl<'env, R> Prompt<'env, R> {
    /// Suspends the body, calls `function` with the rest of it, and returns the value with which
    /// the rest is resumed.
    ///
    /// The function runs on the stack of the `reset`. Its value becomes the value of the `reset`,
    /// or of the resumption that runs this `shift`. If the function drops the rest, `shift` does
    /// not return: the body is unwound from here.
    ///
    /// It aborts the process if the body is already unwinding, because no caller could receive an
    /// error any more.
    ///
    /// # Panics
    /// If called on another strand than the one that runs the body.
    pub fn shift<T>(&self, function: impl FnOnce(Captured<'_, T, R>) -> R + 'env) -> T {
        // SAFETY: it outlives `self` (`yielder`).
        let yielder = unsafe { self.yielder.as_ref() };
        let run = caller_of_borrowed::<T, R, _>(&function);
        suspend_in(yielder, run, function)
    }
}

/// The instance of [`call_borrowed`] for a function whose type has no name.
fn caller_of_borrowed<T, R, F>(_: &F) -> RunBorrowed<R>
where
    F: FnOnce(Captured<'_, T, R>) -> R,
{
    call_borrowed::<T, R, F>
}

/// # Safety
/// `shift` is a `Shift<RunBorrowed<R>, F, T>` in which `body` is suspended. Called once per
/// `shift`.
unsafe fn call_borrowed<T, R, F>(shift: NonNull<()>, body: &DelimitedBody<R>) -> R
where
    F: FnOnce(Captured<'_, T, R>) -> R,
{
    let mut shift = shift.cast::<Shift<RunBorrowed<R>, F, T>>();
    // SAFETY: the caller's promise: no other code accesses the suspended frame.
    let function = unsafe { shift.as_mut() }.function.take().expect("it is called once");
    // SAFETY: as above; only the field's address is taken.
    let value = &raw mut unsafe { shift.as_mut() }.value;
    function(Captured { body, value, _brand: PhantomData })
}

/// The rest of a body, up to its [`reset`].
///
/// Dropping it unwinds the body at once; forgetting it, or dropping it by a panic, leaves that to
/// the end of `reset`.
///
/// It takes exactly the type that `shift` returns, not one with a shorter lifetime:
/// ```compile_fail
/// use ramie_coro::delimited::{Captured, reset};
///
/// let kept: &'static str = reset(|prompt| {
///     prompt.shift(|rest: Captured<'_, &'static str, &'static str>| {
///         let word = String::from("gone");
///         let shorter: Captured<'_, &str, &'static str> = rest;
///         shorter.resume(&word)
///     })
/// });
/// ```
#[must_use = "dropping it unwinds the body"]
pub struct Captured<'k, T, R> {
    /// INVARIANT: suspended in the `shift` that owns `value`, while `self` exists.
    body: &'k DelimitedBody<R>,
    /// Invariant in the type it points to, because that is written.
    value: *mut Option<T>,
    _brand: PhantomData<fn(&'k ()) -> &'k ()>,
}

impl<T, R> Captured<'_, T, R> {
    /// Resumes the body: `shift` returns `value`. Returns the value of the body, or of the function
    /// of its next `shift`.
    ///
    /// # Panics
    /// Propagates a panic of either.
    pub fn resume(self, value: T) -> R {
        let this = ManuallyDrop::new(self);
        let place = this.value;
        // SAFETY: it lies in a suspended frame that only `this` refers to.
        unsafe { *place = Some(value) };
        run_borrowed(this.body)
    }
}

impl<T, R> Drop for Captured<'_, T, R> {
    fn drop(&mut self) {
        // Otherwise the frame that owns the body unwinds it, because it is on the right strand, or
        // because the body's destructors may wait only after the panic was caught.
        if !panicking() && !self.body.is_bound_elsewhere() {
            self.body.unwind_borrower();
        }
    }
}

/// Runs `body` as [`reset`] does, but lets [`KeptPrompt::shift`] keep the rest of it.
///
/// Neither body, function, value nor result may borrow, because they can be kept and forgotten:
/// ```compile_fail
/// let word = String::new();
/// ramie_coro::delimited::reset_kept(|_prompt| println!("{word}"));
/// ```
/// ```compile_fail
/// fn returns<T>() {
///     ramie_coro::delimited::reset_kept::<Option<T>>(|_prompt| None);
/// }
/// ```
///
/// # Panics
/// Propagates a panic of the body or of a function. Panics if the system provides no memory for a
/// stack.
///
/// # Examples
/// ```
/// use std::{cell::RefCell, rc::Rc};
///
/// use ramie_coro::delimited::reset_kept;
///
/// let kept = Rc::new(RefCell::new(None));
/// let place = Rc::clone(&kept);
/// let first = reset_kept(move |prompt| {
///     let name: String = prompt.shift(move |rest| {
///         *place.borrow_mut() = Some(rest);
///         "who are you?".to_string()
///     });
///     format!("hello, {name}")
/// });
/// assert_eq!(first, "who are you?");
/// let rest = kept.take().expect("it was kept");
/// assert_eq!(rest.resume("Alice".to_string()), "hello, Alice");
/// ```
pub fn reset_kept<R: 'static>(body: impl FnOnce(&KeptPrompt<R>) -> R + 'static) -> R {
    // SAFETY: nothing is borrowed. There is no tag.
    run_kept(unsafe {
        DelimitedBody::borrowing(None, |yielder, ()| {
            body(&KeptPrompt { yielder: NonNull::from(yielder), _result: PhantomData })
        })
    })
}

fn run_kept<R>(body: DelimitedBody<R>) -> R {
    match body.resume(()) {
        Resumed::Returned(value) => value,
        Resumed::Yielded(shift) => {
            // SAFETY: this prompt's `shift` suspends with the address of a `Shift`, of which this
            // is the first field.
            let run = unsafe { *shift.cast::<RunKept<R>>().as_ref() };
            // SAFETY: the `Shift` in which this body has just suspended.
            unsafe { run(shift, body) }
        }
    }
}

/// Marks the end of a continuation that is [kept](KeptPrompt::shift).
pub struct KeptPrompt<R> {
    /// INVARIANT: the yielder of the body that received `self`, in a frame that outlives `self`.
    yielder: NonNull<Yielder<(), NonNull<()>>>,
    _result: PhantomData<fn(R) -> R>,
}

impl<R: 'static> KeptPrompt<R> {
    /// Suspends the body, calls `function` with the rest of it, and returns the value with which
    /// the rest is resumed, as [`Prompt::shift`] does. The rest may be kept.
    ///
    /// It aborts the process if the body is already unwinding, because no caller could receive an
    /// error any more.
    ///
    /// # Panics
    /// If called on another strand than the one that runs the body.
    pub fn shift<T: 'static>(&self, function: impl FnOnce(Continuation<T, R>) -> R + 'static) -> T {
        // SAFETY: it outlives `self` (`yielder`).
        let yielder = unsafe { self.yielder.as_ref() };
        let run = caller_of_kept::<T, R, _>(&function);
        suspend_in(yielder, run, function)
    }
}

/// The instance of [`call_kept`] for a function whose type has no name.
fn caller_of_kept<T, R, F>(_: &F) -> RunKept<R>
where
    F: FnOnce(Continuation<T, R>) -> R,
{
    call_kept::<T, R, F>
}

/// # Safety
/// `shift` is a `Shift<RunKept<R>, F, T>` in which `body` is suspended. Called once per `shift`.
unsafe fn call_kept<T, R, F>(shift: NonNull<()>, body: DelimitedBody<R>) -> R
where
    F: FnOnce(Continuation<T, R>) -> R,
{
    let mut shift = shift.cast::<Shift<RunKept<R>, F, T>>();
    // SAFETY: the caller's promise: no other code accesses the suspended frame.
    let function = unsafe { shift.as_mut() }.function.take().expect("it is called once");
    // SAFETY: as above; only the field's address is taken.
    let value = &raw mut unsafe { shift.as_mut() }.value;
    function(Continuation { body, value })
}

/// The rest of a body, up to its [`reset_kept`], which can be kept for any time.
///
/// It has the same name as [`effect::Continuation`](crate::effect::Continuation), because both are
/// the rest of a body; this one continues a `shift` rather than an effect.
///
/// Dropping it unwinds the body, or leaks its stack, as with
/// [`Coroutine`](crate::Coroutine#dropping); forgetting it leaks the stack. It may be resumed on
/// another fiber of its thread, unless a scope binds its body to one fiber. It stays on its thread:
/// ```compile_fail,E0277
/// fn needs_send<T: Send>() {}
/// needs_send::<ramie_coro::delimited::Continuation<(), ()>>();
/// ```
/// It takes exactly the type that `shift` returns, not one with a shorter lifetime:
/// ```compile_fail
/// use ramie_coro::delimited::Continuation;
///
/// fn shorten<'a>(rest: Continuation<&'static str, ()>) -> Continuation<&'a str, ()> {
///     rest
/// }
/// ```
#[must_use = "dropping it unwinds the body"]
pub struct Continuation<T, R> {
    /// INVARIANT: suspended in the `shift` that owns `value`.
    body: DelimitedBody<R>,
    /// Invariant in the type it points to, because that is written.
    value: *mut Option<T>,
}

impl<T, R> Continuation<T, R> {
    /// Resumes the body: `shift` returns `value`. Returns the value of the body, or of the function
    /// of its next `shift`.
    ///
    /// # Panics
    /// Propagates a panic of either. Panics on another fiber than the one to which a scope binds
    /// the body; the body's stack is leaked then.
    pub fn resume(self, value: T) -> R {
        let Continuation { body, value: place } = self;
        // SAFETY: it lies in a suspended frame that no other code refers to.
        unsafe { *place = Some(value) };
        run_kept(body)
    }
}

impl<R> fmt::Debug for Prompt<'_, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Prompt")
    }
}

impl<R> fmt::Debug for KeptPrompt<R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeptPrompt")
    }
}

impl<T, R> fmt::Debug for Captured<'_, T, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Captured")
    }
}

impl<T, R> fmt::Debug for Continuation<T, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Continuation")
    }
}
