//! Strands: shipped slots and references, in memory that is fresh in each run of a model.

mod belongings;
mod id;
mod job;
pub(crate) mod slab;
mod slot;

pub(crate) use id::{FiberId, WakeRef};
pub(crate) use slab::slot_at;
pub(crate) use slot::{Slot, Unpark, Wake};
