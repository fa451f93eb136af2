//! What tries the sections, and makes the page of what it has found.
//!
//! - [`section`]: a crate, how it works on fibers, and the function that tries it;
//! - [`child`]: tries one section, in a process of its own, on a runtime with one worker;
//! - [`ticker`]: the fiber that notices when the worker is blocked;
//! - [`stack`]: the deepest use of a stack;
//! - [`parent`]: starts the processes, repeats failures, prints the outcomes;
//! - [`page`]: writes and compares `docs/crates.md`.

mod child;
mod page;
mod parent;
mod section;
pub(crate) mod stack;
mod ticker;

pub(crate) use child::{CHILD, try_here};
pub(crate) use parent::{Plan, try_all};
pub(crate) use section::{Kind, Section, Tried, Way, server};
