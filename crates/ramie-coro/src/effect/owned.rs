//! Handled bodies that own their data, so they can be kept.
#![allow(unsafe_code)]

use std::fmt;

use super::{Effect, HandledBody, Pending, Step, body_tag};

/// Runs `body` until it performs an effect of this type or returns.
///
/// The caller is the handler. An effect comes with a [`Continuation`], to be resumed now, later, or
/// never. Neither body nor result may borrow, because the continuation can be kept and forgotten:
/// ```compile_fail,E0597
/// # use ramie_coro::effect::{Effect, Step, start};
/// # struct Ask;
/// # impl Effect for Ask {
/// #     type Output = ();
/// # }
/// let word = String::new();
/// let borrowed: &str = &word;
/// let _: Step<Ask, _, ()> = start(|| drop(borrowed));
/// ```
/// ```compile_fail,E0310
/// # use ramie_coro::effect::{Effect, start};
/// # struct Ask;
/// # impl Effect for Ask {
/// #     type Output = ();
/// # }
/// fn returns<T>() {
///     start::<Ask, Option<T>>(|| None);
/// }
/// ```
/// ```compile_fail,E0310
/// struct Ask<T>(T);
/// impl<T> ramie_coro::effect::Effect for Ask<T> {
///     type Output = ();
/// }
/// ```
///
/// # Panics
/// Propagates a panic of the body. Panics if the system provides no memory for a stack.
///
/// # Examples
/// ```
/// use ramie_coro::effect::{Effect, Step, perform, start};
///
/// struct Next(u32);
/// impl Effect for Next {
///     type Output = ();
/// }
///
/// let mut step = start(|| (1..=3).for_each(|at| perform(Next(at))));
/// let mut seen = Vec::new();
/// while let Step::Performed(Next(at), continuation) = step {
///     seen.push(at);
///     step = continuation.resume(());
/// }
/// assert_eq!(seen, [1, 2, 3]);
/// ```
#[inline]
pub fn start<E: Effect, R: 'static>(
    body: impl FnOnce() -> R + 'static,
) -> Step<E, Continuation<E, R>, R> {
    // SAFETY: nothing is borrowed, and the tag is for bodies of this type.
    let body = unsafe { HandledBody::borrowing(Some(body_tag::<E>()), |_, ()| body()) };
    // SAFETY: the body is tagged with `E`, and fresh.
    unsafe { Continuation::of_resumed(body) }
}

// Same name as `delimited::Continuation`: the standard term for both.
/// The rest of a body that has performed an effect, which can be kept for any time.
///
/// Dropping a continuation unwinds the body, or leaks its stack, as with
/// [`Coroutine`](crate::Coroutine#dropping). Forgetting it leaks the stack and is otherwise
/// harmless. A continuation may be resumed on another fiber of its thread, under the handlers of
/// that fiber, unless the body is suspended inside a scope that binds it to one fiber. It stays on
/// its thread:
/// ```compile_fail,E0277
/// fn needs_send<T: Send>() {}
/// # struct Ask;
/// # impl ramie_coro::effect::Effect for Ask {
/// #     type Output = ();
/// # }
/// needs_send::<ramie_coro::effect::Continuation<Ask, ()>>();
/// ```
#[must_use = "dropping it unwinds the body"]
pub struct Continuation<E: Effect, R> {
    /// INVARIANT: suspended in `pending`.
    body: HandledBody<R>,
    pending: Pending<E>,
}

impl<E: Effect, R> Continuation<E, R> {
    /// Runs the body until it performs the next effect of this type or returns.
    ///
    /// # Panics
    /// Propagates a panic of the body. Panics on another fiber than the one to which a scope binds
    /// the body; the body's stack is leaked then.
    #[inline]
    pub fn resume(self, output: E::Output) -> Step<E, Continuation<E, R>, R> {
        let Continuation { body, pending } = self;
        pending.set_output(output);
        // SAFETY: the body is suspended in the call, whose output is set.
        unsafe { Continuation::of_resumed(body) }
    }

    /// # Safety
    /// As for [`Pending::of_resumed`].
    #[inline]
    unsafe fn of_resumed(body: HandledBody<R>) -> Step<E, Self, R> {
        // SAFETY: the caller's promise.
        match unsafe { Pending::of_resumed(&body) } {
            Step::Returned(value) => Step::Returned(value),
            Step::Performed(effect, pending) => {
                Step::Performed(effect, Continuation { body, pending })
            }
        }
    }
}

impl<E: Effect, R> fmt::Debug for Continuation<E, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Continuation").field("effect", &std::any::type_name::<E>()).finish()
    }
}
