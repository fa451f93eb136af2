//! Effects: exceptions that can be resumed.
//!
//! [`perform`] suspends the computation up to the innermost [`handle`] for the effect's type. The
//! handler receives the effect and a [`Resume`], the rest of the computation. It resumes the
//! computation with a value, which `perform` returns, or drops the `Resume`, which unwinds the body
//! as an exception does.
//!
//! ```
//! use ramie_coro::effect::{Effect, handle, perform};
//!
//! /// A line that is not a number; the output is the number to use in its place.
//! struct Malformed(String);
//! impl Effect for Malformed {
//!     type Output = i64;
//! }
//!
//! fn sum(text: &str) -> i64 {
//!     let number = |line: &str| line.parse().unwrap_or_else(|_| perform(Malformed(line.into())));
//!     text.lines().map(number).sum()
//! }
//!
//! let mut seen = Vec::new();
//! let total = handle(
//!     || sum("1\ntwo\n3"),
//!     |Malformed(line): Malformed, resume| {
//!         seen.push(line);
//!         resume.with(0)
//!     },
//! );
//! assert_eq!((total, seen), (4, vec!["two".to_string()]));
//! ```
//!
//! # Which handler
//! - Handlers are *deep*: a resumed body runs under the same handler again. A handler does not run
//!   under itself: effects that it performs go to the outer handlers, so it re-raises an effect by
//!   performing it again. An effect without a handler is a panic that names the effect's type.
//! - [`start`] is the *shallow* form for bodies that are `'static`: each effect is returned as a
//!   value with a [`Continuation`], which may be kept and resumed at any time.
//! - A strand (a fiber or a thread) has handlers of its own: a spawned strand starts without any.
//! - Code that a runtime calls in the middle of its own work, such as a waker or the destructor of
//!   an unwanted outcome, finds no handler
//!   ([`without_coroutines`](crate::context::without_coroutines)).
//! - Code on the stack of a [bare](crate::bare) coroutine, or of another library's, sees no
//!   handlers outside it.
//! - If a fiber parks inside a body, the whole fiber parks, as inside any coroutine.
//! - Performing while the thread unwinds aborts, unless the whole `handle` is in the destructor.
//!
//! # Why it is sound
//! The danger is a borrow that ends before the code that uses it. So a body whose resumption can be
//! kept ([`Continuation`]) borrows nothing. The body of [`handle`] may borrow, because its stack
//! belongs to `handle`'s frame: `handle` returns only after the body has returned or unwound, and a
//! [`Resume`] cannot leave the handler, by its lifetime. Forgetting a `Resume` does not change
//! that. The effect and its output are `'static`, because the code that performs may be unwound
//! while the handler still has the effect.
//!
//! # Why a resumption is used at most once
//! Multi-shot resumptions would copy the stack, and with it each `Box`, guard and file on it, which
//! would then have two owners. Rust's types cannot express that a stack holds only `Copy` values.

// # Protocol
// A body runs on a stack of its own. Its context segment has the effect's type as its tag, by which
// `perform` finds the handler at any call depth, and through the stacks of coroutines and of other
// handlers' bodies in between. The effect and, later, the output lie in `perform`'s frame.
//
// | state of a body | changed by |
// |---|---|
// | running | `perform` of its effect; its end; a panic, which propagates out of `handle` |
// | suspended in `perform` | [`Resume::with`], [`Resume::step`]; or it is unwound |
// | done | nothing |
#![allow(unsafe_code)]

mod handle;
mod owned;

use std::{
    any::{TypeId, type_name},
    marker::PhantomData,
    ptr::NonNull,
};

pub(crate) use self::handle::Unwind;
pub use self::{
    handle::{Next, Resume, handle},
    owned::{Continuation, start},
};
use crate::{Coroutine, Resumed, coroutine::TaggedCoroutine};

/// An effect, with the type of its answer.
pub trait Effect: 'static {
    /// The type that [`perform`] returns.
    type Output: 'static;
}

/// The state of a handled body after it ran.
#[derive(Debug)]
pub enum Step<E, K, R> {
    /// The body performed an effect, and waits in `K` for the output.
    Performed(E, K),
    /// The body returned.
    Returned(R),
}

/// Suspends the body of the innermost handler for this type of effect, and returns the output with
/// which the handler resumes it.
///
/// If the handler drops the resumption, `perform` does not return but unwinds the body's stack. A
/// lock whose guard lies there is poisoned then, as by a panic.
///
/// # Panics
/// If there is no handler on this strand.
///
/// `perform` aborts the process if the body is already unwinding, because no caller could receive
/// an error any more.
#[inline(always)]
#[track_caller]
pub fn perform<E: Effect>(effect: E) -> E::Output {
    // SAFETY: only coroutines of type `HandledBody` have this tag, because only the callers of
    // `body_tag` make coroutines with it.
    let handled = unsafe { TaggedCoroutine::<(), NonNull<()>>::find(body_tag::<E>()) };
    let Some(handled) = handled else { unhandled::<E>() };
    let mut call = Call::<E> { effect: Some(effect), output: None };
    let mut place = NonNull::from(&mut call);
    handled.suspend(place.cast());
    // SAFETY: `call` lies in this frame, and the handler, which wrote to it, no longer uses it.
    let output = unsafe { place.as_mut() }.output.take();
    output.expect("a body is resumed with an output")
}

#[cold]
#[track_caller]
fn unhandled<E>() -> ! {
    panic!(
        "no handler for effect `{}` on this fiber: call perform inside the body of handle or \
         start, and on the same fiber (a spawned fiber begins without handlers)",
        type_name::<E>()
    )
}

/// The data in the frame of [`perform`] while its body is suspended.
struct Call<E: Effect> {
    effect: Option<E>,
    output: Option<E::Output>,
}

/// A handled body: each suspension passes out the address of a [`Call`].
type HandledBody<R> = Coroutine<(), NonNull<()>, R>;

fn body_tag<E: Effect>() -> TypeId {
    struct Handled<E>(PhantomData<E>);
    TypeId::of::<Handled<E>>()
}

/// The call in which a body is suspended.
struct Pending<E: Effect> {
    /// INVARIANT: points into the frame of a [`perform`] that is suspended.
    call: NonNull<Call<E>>,
}

impl<E: Effect> Pending<E> {
    /// Resumes the body until it performs the next effect or returns.
    ///
    /// # Safety
    /// The body is tagged with `E`; it is fresh, or suspended in the call, whose output is set.
    #[inline]
    unsafe fn of_resumed<R>(body: &HandledBody<R>) -> Step<E, Pending<E>, R> {
        match body.resume(()) {
            Resumed::Returned(value) => Step::Returned(value),
            Resumed::Yielded(call) => {
                let mut pending = Pending { call: call.cast() };
                Step::Performed(pending.take_effect(), pending)
            }
        }
    }

    #[inline]
    fn take_effect(&mut self) -> E {
        // SAFETY: the invariant of `call`: the frame is suspended, so no other code accesses it.
        let call = unsafe { self.call.as_mut() };
        call.effect.take().expect("an effect is taken once")
    }

    #[inline]
    fn set_output(mut self, output: E::Output) {
        // SAFETY: as in `take_effect`.
        unsafe { self.call.as_mut() }.output = Some(output);
    }
}
