//! Effects: exceptions that can be resumed.
//!
//! [`perform`] suspends the computation up to the innermost [`handle`] for the effect's type, and
//! gives it the effect and a [`Resume`], the rest of the computation. The handler resumes it with a
//! value, which `perform` returns; or drops it, which unwinds the body, as an exception does.
//!
//! ```
//! use ramie_coro::effect::{Effect, handle, perform};
//!
//! /// What stands in a line that is no number?
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
//! - Handlers are *deep*: the body that goes on is under the same handler again. A handler itself
//!   is not under itself: what it performs goes to the handlers outside, so performing the same
//!   effect there is how it is raised again. What nobody handles is a panic that names the effect's
//!   type.
//! - [`start`] is the *shallow* form for bodies of `'static`: each effect comes back as a value
//!   with a [`Continuation`], which may be kept and resumed at any time.
//! - A strand (a fiber or a thread) has handlers of its own: a spawned one starts without.
//! - Handlers are not seen from the stack of a [bare](crate::bare) coroutine or another library's.
//! - A fiber that parks inside a body parks as a whole, as from any coroutine.
//! - Performing while the thread unwinds aborts, unless the whole `handle` is in the destructor.
//!
//! # What is to be feared
//! A borrow that ends before the code that uses it. A handle that one can keep therefore borrows
//! nothing ([`Continuation`]). The body of [`handle`] may borrow, since its stack belongs to
//! `handle`'s frame: `handle` returns only when the body has returned or unwound, and a [`Resume`]
//! cannot leave the handler, by its lifetime. Forgetting one changes nothing of that. The effect
//! and its output are `'static`: what performs may be unwound while the handler still has the
//! effect.
//!
//! # Why a resumption is used at most once
//! Multi-shot resumptions would copy the stack, and with it each `Box`, guard and file on it, whose
//! owners would then be two. Rust's types cannot say of a stack that it holds `Copy` values alone.

// # Protocol
// A body runs on a stack of its own. Its context segment has the effect's type as its tag; by it
// `perform` finds the handler, from however deep a call and through the stacks of coroutines and
// other handlers' bodies in between. The effect and, later, the output lie in `perform`'s frame.
//
// | state of a body | left by |
// |---|---|
// | running | `perform` of its effect; its end; a panic, which comes out of `handle` |
// | suspended in `perform` | [`Resume::with`], [`Resume::step`]; or it is unwound |
// | done | nothing |
#![allow(unsafe_code)]

mod handle;
mod kept;

use std::{
    any::{TypeId, type_name},
    marker::PhantomData,
    ptr::NonNull,
};

pub(crate) use self::handle::Unwind;
pub use self::{
    handle::{Next, Resume, handle},
    kept::{Continuation, start},
};
use crate::{Coroutine, Resumed, coroutine::Running};

/// Says with what a performed effect is answered.
pub trait Effect: 'static {
    /// What [`perform`] returns.
    type Output: 'static;
}

/// Says how far a handled body has come.
#[derive(Debug)]
pub enum Step<E, K, R> {
    /// It performed an effect, and waits in `K` for the output.
    Performed(E, K),
    /// It returned.
    Returned(R),
}

/// Suspends the body of the innermost handler for this type of effect, and returns what that
/// resumes it with.
///
/// It does not return if the handler drops the resumption: then the stack is unwound from here.
///
/// # Panics
/// When there is no handler on this strand.
///
/// It aborts the process when the body is already unwinding: nobody can be told any more.
#[inline(always)]
#[track_caller]
pub fn perform<E: Effect>(effect: E) -> E::Output {
    // SAFETY: bodies with this tag are made by `body_tag`'s callers, of type `Body`.
    let handled = unsafe { Running::<(), NonNull<()>>::find(body_tag::<E>()) };
    let Some(handled) = handled else { unhandled::<E>() };
    let mut call = Call::<E> { effect: Some(effect), output: None };
    let mut place = NonNull::from(&mut call);
    handled.suspend(place.cast());
    // SAFETY: the frame's own; the handler wrote there before it resumed this, and is done with it.
    let output = unsafe { place.as_mut() }.output.take();
    output.expect("a body is resumed with an output")
}

#[cold]
#[track_caller]
fn unhandled<E>() -> ! {
    panic!(
        "performed the effect `{}` where no handler for it is: call perform inside the body of \
         handle or start, on the same fiber (a spawned fiber begins without handlers)",
        type_name::<E>()
    )
}

/// What lies in the frame of [`perform`] while its body is suspended.
struct Call<E: Effect> {
    effect: Option<E>,
    output: Option<E::Output>,
}

/// A handled body: each suspension gives the address of a [`Call`].
type Body<R> = Coroutine<(), NonNull<()>, R>;

fn body_tag<E: Effect>() -> TypeId {
    struct Handled<E>(PhantomData<E>);
    TypeId::of::<Handled<E>>()
}

/// A suspended body's call.
struct Pending<E: Effect> {
    /// INVARIANT: lies in the frame of a [`perform`] that is suspended.
    call: NonNull<Call<E>>,
}

impl<E: Effect> Pending<E> {
    /// Resumes the body until it performs the next effect or returns.
    ///
    /// # Safety
    /// The body is tagged with `E`; it is fresh, or suspended in the call, whose output was set.
    #[inline]
    unsafe fn of_resumed<R>(body: &Body<R>) -> Step<E, Pending<E>, R> {
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
        // SAFETY: `call`: the frame is suspended, so nobody else looks at it.
        let call = unsafe { self.call.as_mut() };
        call.effect.take().expect("an effect is taken once")
    }

    #[inline]
    fn set_output(mut self, output: E::Output) {
        // SAFETY: as in `take_effect`.
        unsafe { self.call.as_mut() }.output = Some(output);
    }
}
