//! Structured concurrency: strands that live no longer than the call that starts them, and a rule
//! for the case that one of them fails.
//!
//! All calls are built on [`fiber::scope`](crate::fiber::scope()): children borrow from their
//! parent, and the call returns when all have ended. Like `fiber::scope`, each call panics inside
//! [`no_switch`](crate::no_switch()), before it starts its first child. If one outcome decides the
//! result, the other strands are cancelled (see [`cancel`](crate::cancel)) and waited for.
//!
//! | call | ends early if | returns |
//! |---|---|---|
//! | [`fiber::scope`](crate::fiber::scope()) | never | the value of its closure |
//! | [`try_scope`] | one fails | the value of its closure, or all failures |
//! | [`race`] | one ends | its value |
//! | [`any`] | one succeeds | its value, or all failures |
//! | [`join!`](crate::join) | never | all values, of different types |
//! | [`try_join!`](crate::try_join) | one fails | all values, or all failures |
//! | [`set`] | its closure cancels it | outcomes one by one, in the order in which strands end |
//! | [`par_map`], [`par_map_unordered`] | never | the results of a function applied to the items of an iterator, a limited number at a time |
//! | [`try_par_map`] | one fails | the results as [`par_map`], or all failures |
//! | [`Supervisor`] | a child fails too often | - |
//!
//! # How failures merge
//! 1. A panic takes precedence over errors: when all strands have ended, the first panic is resumed
//!    in the parent.
//! 2. Otherwise all errors are kept, in the order in which they happened: the first is the *cause*.
//! 3. If a cancelled strand returns an error that reports a cancellation
//!    ([`Failure::is_cancelled`]), the error is dropped, because it follows from another failure.
//!    If there is no other failure, because the scope was cancelled from outside, the first such
//!    error is kept. A limit that the strand had set itself, by
//!    [`with_timeout`](crate::cancel::with_timeout), does not cancel the strand: its error is a
//!    failure like any other.
//!
//! # Types of errors
//! The errors of strands are [`Failure`]s (Ramie's own and std's errors, texts, `Box<dyn Error +
//! Send + Sync>`, and your types that implement the trait), or `anyhow::Error` and similar types
//! ([`AsFailure`]). Values and errors may borrow from outside of the call, as closures may. `?`
//! converts [`Failures`] into a boxed error or into an `anyhow::Error`.
//!
//! # Errors at compile time
//! An error type must implement [`Failure`]:
//! ```compile_fail,E0277
//! struct Unknown;
//! ramie::structured::try_scope(|_| Err::<(), _>(Unknown));
//! ```
//! Values that a strand borrows must live outside of the call:
//! ```compile_fail,E0373
//! ramie::structured::set(|set| {
//!     let inside = String::new();
//!     set.spawn(|| inside.len());
//! });
//! ```
//! ```compile_fail,E0373
//! ramie::structured::race(|racers| {
//!     let inside = String::new();
//!     racers.spawn(|| inside.len());
//! });
//! ```
//! A handle cannot leave the call:
//! ```compile_fail
//! let mut kept = None;
//! ramie::structured::try_scope(|scope| {
//!     kept = Some(scope.spawn(|| Ok::<_, String>(1)));
//!     Ok(())
//! });
//! ```
//! A value that is not `Send` cannot move to another worker, neither in a closure nor as its
//! result:
//! ```compile_fail,E0277
//! let local = std::rc::Rc::new(1);
//! ramie::structured::try_scope(|scope| {
//!     scope.spawn(|| Ok::<_, String>(*local));
//!     Ok(())
//! });
//! ```
//! ```compile_fail,E0277
//! ramie::structured::race(|racers| racers.spawn(|| std::rc::Rc::new(1)));
//! ```
//! ```compile_fail,E0277
//! ramie::structured::set(|set| set.spawn(|| std::rc::Rc::new(1)));
//! ```
//! ```compile_fail,E0277
//! let local = std::rc::Rc::new(1);
//! ramie::structured::par_map([1, 2], 2, |n| n + *local);
//! ```
//! ```compile_fail,E0277
//! ramie::structured::par_map_unordered([1, 2], 2, std::rc::Rc::new, |_| ());
//! ```

mod failure;
mod failures;
mod join;
mod map;
mod merged;
mod race;
mod set;
mod supervisor;
mod try_scope;

#[doc(hidden)]
pub use self::{failure::via, join::finish, try_scope::try_calls};
pub use self::{
    failure::{AsFailure, Failure},
    failures::Failures,
    map::{par_map, par_map_unordered, try_par_map},
    race::{Racers, any, race},
    set::{Set, set},
    supervisor::{BackOff, GaveUp, Restart, Strategy, Supervised, Supervisor},
    try_scope::{Ready, TryJoinHandle, TryScope, try_scope},
};
