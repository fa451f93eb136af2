//! Strands: shipped headers and references, in memory that is fresh in each run of a model.

mod attributes;
mod id;
mod job;
pub(crate) mod slab;
mod header;

pub(crate) use id::{FiberId, WakeRef};
pub(crate) use slab::header_at;
pub(crate) use header::{StrandHeader, Unpark, Wake};
