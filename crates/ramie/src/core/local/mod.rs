//! Fiber-locals: one value for each strand, as `std::thread_local!` has one for each thread.
//!
//! On a fiber a value belongs to the fiber; on an OS thread, also on one that is a strand, to the
//! thread. A coroutine sees those of the strand that resumes it. Modules: [`key`] (the interface
//! for programs), [`table`] (the values of a strand, and their end), [`scoped_value`] (values bound
//! for a call), [`attached`] (thread-locals of libraries, which leave the thread with a strand),
//! and [`inherited`] (what a scope's strands inherit from its opener).
//!
//! # Hazard
//! A reference must not outlive its value. A value is destroyed at its strand's end. A call of
//! `with` has returned by then, unless it runs on the stack of a coroutine, of this crate or of any
//! library, that suspended inside it and that another strand may resume later. So each value counts
//! the calls of `with` that have not returned, and a value that is still in use at its strand's end
//! is leaked.

pub(crate) mod attached;
mod inherited;
mod key;
pub mod scoped_value;
mod table;

pub use self::{
    attached::{
        AttachedContext, InheritedContext, StrandContext, attach_context, with_attached_context,
    },
    key::{AccessError, LocalKey},
};
pub(crate) use self::{inherited::Inherited, table::Locals};
