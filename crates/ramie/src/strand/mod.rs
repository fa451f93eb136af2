//! What a strand is to the runtime: an identity, a slot of memory that never goes away, and the
//! closure or result that lies in it.
//!
//! A *strand* is a fiber or an OS thread. Both own a [`Slot`], so every primitive that parks and
//! wakes serves both.

mod belongings;
mod id;
mod job;
mod memory;
mod slab;
mod slot;

pub(crate) use belongings::{Extra, Wishes};
pub use id::FiberId;
pub(crate) use id::WakeRef;
pub(crate) use job::{install, take_outcome};
pub(crate) use slab::{FreeList, free_without_worker, slot_at};
pub(crate) use slot::{Slot, Unpark, Wake};
