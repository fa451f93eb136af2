//! Fiber-locals: one value for each strand, as `std::thread_local!` has one for each thread.
//!
//! On a fiber a value belongs to the fiber; on an OS thread, also on one that is a strand, to the
//! thread. A coroutine sees those of the strand that resumes it. Rooms: [`key`] (what a program
//! sees), [`table`] (where a strand keeps its values, and how they end); and two that know values
//! bound for a call ([`scoped_value`]) and what a scope's strands have from its opener
//! ([`inherited`]).
//!
//! # What must not happen
//! A reference must not outlive its value. A value dies at its strand's end, and a call of `with`
//! has returned by then, unless it stands on the stack of a coroutine that suspended inside it: of
//! ours or of any library's, which another strand may resume later. So each value counts the calls
//! of `with` that have not returned, and one that is still in use at its strand's end is leaked.

mod inherited;
mod key;
pub mod scoped_value;
mod table;

pub use self::key::{AccessError, LocalKey};
pub(crate) use self::{inherited::Inherited, table::Locals};
