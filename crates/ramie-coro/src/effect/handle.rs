//! Handlers of bodies that may borrow.
#![allow(unsafe_code)]

use std::{
    fmt,
    marker::PhantomData,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread::{self, panicking},
};

use super::{Effect, HandledBody, Pending, Step, body_tag};

/// Runs `body` under a handler for the effects of one type, and returns its value.
///
/// Whenever the body performs an `E`, `handler` is called on the caller's stack and decides how to
/// continue: either the body resumes with an output ([`Resume::with`]), or the body is unwound and
/// `handle` returns a value of the handler ([`Next::Return`]). Handling a million effects takes no
/// more stack than handling one.
///
/// For effects of several types, nest `handle`s, or make the effects variants of an enum. Body and
/// handler may borrow; see [`start`](super::start) for a resumption that can be kept.
///
/// # Panics
/// Propagates a panic of the body or of the handler; if the handler panics, the body is unwound
/// first.
/// Panics if the system provides no memory for a stack.
///
/// `handle` aborts the process if an unfinished body cannot be unwound, as with
/// `panic = "abort"`.
///
/// # Examples
/// ```
/// use ramie_coro::effect::{Effect, Next, handle, perform};
///
/// struct Ask(u32);
/// impl Effect for Ask {
///     type Output = bool;
/// }
///
/// let count = |up_to: u32| (0..).take_while(|at| perform(Ask(*at))).count() as u32 + up_to;
/// let counted = handle(|| count(0), |Ask(at): Ask, resume| resume.with(at < 3));
/// assert_eq!(counted, 3);
/// let given_up = handle(|| count(0), |_: Ask, _resume| Next::Return(7));
/// assert_eq!(given_up, 7);
/// ```
/// A resumption cannot leave the handler:
/// ```compile_fail,E0521
/// # use ramie_coro::effect::{Effect, Next, handle, perform};
/// struct Ask;
/// impl Effect for Ask {
///     type Output = ();
/// }
/// let mut kept = None;
/// handle(|| perform(Ask), |_: Ask, resume| {
///     kept = Some(resume);
///     Next::Return(())
/// });
/// ```
/// Nor can the resumption of one body answer another:
/// ```compile_fail
/// # use ramie_coro::effect::{Effect, Next, handle, perform};
/// struct Ask;
/// impl Effect for Ask {
///     type Output = ();
/// }
/// handle(|| perform(Ask), |_: Ask, outer| {
///     handle(|| perform(Ask), |_: Ask, _inner| outer.with(()));
///     Next::Return(())
/// });
/// ```
#[inline]
pub fn handle<E: Effect, R>(
    body: impl FnOnce() -> R,
    mut handler: impl FnMut(E, Resume<'_, E, R>) -> Next<'_, E, R>,
) -> R {
    // SAFETY: the borrows outlive this call, and `Unwind` ends the body before it returns. The tag
    // is for bodies of this type.
    let body = unsafe { HandledBody::borrowing(Some(body_tag::<E>()), |_, ()| body()) };
    let body = Unwind(body);
    let outcome = answer_effects(&body.0, &mut handler);
    // Ended here and not at the end of the block: if the body panics while it is unwound, the
    // compiler forgets a value that is being returned, and drops a variable.
    drop(body);
    match outcome {
        Ok(value) => value,
        Err(payload) => resume_unwind(payload),
    }
}

/// Runs the body under the handler. A panic of the handler is caught, so that the body is unwound
/// outside the handler's unwinding, where its destructors may wait for other fibers.
#[inline]
fn answer_effects<'h, E: Effect, R>(
    body: &'h HandledBody<R>,
    handler: &mut impl FnMut(E, Resume<'_, E, R>) -> Next<'_, E, R>,
) -> thread::Result<R> {
    // SAFETY: `handle` has tagged the body with `E`, and it is fresh.
    let mut step: Step<E, Resume<'h, E, R>, R> = unsafe { Resume::of_resumed(body) };
    loop {
        let (effect, resume) = match step {
            Step::Returned(value) => return Ok(value),
            Step::Performed(effect, resume) => (effect, resume),
        };
        match catch_unwind(AssertUnwindSafe(|| handler(effect, resume)))? {
            Next::Return(value) => return Ok(value),
            Next::Resume(resume, output) => step = resume.step(output),
        }
    }
}

/// Ends a body that may borrow, on every way out of the frame that owns it.
pub(crate) struct Unwind<R>(pub(crate) HandledBody<R>);

impl<R> Drop for Unwind<R> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_done() {
            self.0.unwind_borrower();
        }
    }
}

/// The handler's decision after an effect.
#[derive(Debug)]
pub enum Next<'h, E: Effect, R> {
    /// The body resumes with this output; see [`Resume::with`].
    Resume(Resume<'h, E, R>, E::Output),
    /// The body is unwound, and [`handle`] returns this.
    Return(R),
}

/// The rest of a body that has performed an effect.
///
/// Dropping a `Resume` unwinds the body at once. If it is forgotten, or dropped by a panic,
/// [`handle`] unwinds the body when it ends. A `Resume` stays on its thread:
/// ```compile_fail,E0277
/// fn needs_send<T: Send>() {}
/// # struct Ask;
/// # impl ramie_coro::effect::Effect for Ask {
/// #     type Output = ();
/// # }
/// needs_send::<ramie_coro::effect::Resume<'static, Ask, ()>>();
/// ```
#[must_use = "dropping it unwinds the body"]
pub struct Resume<'h, E: Effect, R> {
    /// INVARIANT: suspended in `pending`, or done, while `self` exists.
    body: &'h HandledBody<R>,
    pending: Pending<E>,
    /// Invariant in the lifetime, so that each call of a handler has its own.
    _brand: PhantomData<fn(&'h ()) -> &'h ()>,
}

impl<'h, E: Effect, R> Resume<'h, E, R> {
    /// Resumes the body with this output, as the handler's answer.
    #[inline]
    pub fn with(self, output: E::Output) -> Next<'h, E, R> {
        Next::Resume(self, output)
    }

    /// Runs the body from inside the handler, until it performs the next effect of this type or
    /// returns. `step` returns that effect or value to its caller, so a handler can run code after
    /// the body has continued, such as undoing its own changes.
    ///
    /// # Panics
    /// Propagates a panic of the body.
    #[inline]
    pub fn step(self, output: E::Output) -> Step<E, Resume<'h, E, R>, R> {
        let this = ManuallyDrop::new(self);
        Pending { call: this.pending.call }.set_output(output);
        // SAFETY: the body is suspended in the call, whose output is set.
        unsafe { Resume::of_resumed(this.body) }
    }

    /// # Safety
    /// As for [`Pending::of_resumed`].
    #[inline]
    unsafe fn of_resumed(body: &'h HandledBody<R>) -> Step<E, Self, R> {
        // SAFETY: the caller's promise.
        match unsafe { Pending::of_resumed(body) } {
            Step::Returned(value) => Step::Returned(value),
            Step::Performed(effect, pending) => {
                Step::Performed(effect, Resume { body, pending, _brand: PhantomData })
            }
        }
    }
}

impl<E: Effect, R> Drop for Resume<'_, E, R> {
    fn drop(&mut self) {
        // The frame that owns the body unwinds it, if a scope binds the body to another strand,
        // because that frame is on the right one, and if a panic drops `self`, because the body's
        // destructors may wait only after that panic was caught.
        if !panicking() && !self.body.is_bound_elsewhere() {
            self.body.unwind_borrower();
        }
    }
}

impl<E: Effect, R> fmt::Debug for Resume<'_, E, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Resume").field("effect", &std::any::type_name::<E>()).finish()
    }
}
