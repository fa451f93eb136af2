//! Strands: identities, headers in memory that is never unmapped, the closures and results that lie
//! in headers, the ends of strands, and the part of a scope that the scope's strands share.
//!
//! A *strand* is a fiber or an OS thread. Both own a [`StrandHeader`], so every primitive that
//! parks and wakes serves both.

mod attributes;
mod debugger;
mod header;
mod id;
mod id_map;
mod job;
mod life;
mod memory;
mod raised;
mod scope_data;
mod slab;
mod unstarted;

pub(crate) use attributes::{SpawnAttributes, SpawnOptions};
pub(crate) use debugger::be_open_to_debuggers;
pub(crate) use header::{StrandHeader, Unpark, Wake};
pub use id::FiberId;
pub(crate) use id::WakeRef;
pub(crate) use id_map::{IdMap, IdSet};
pub(crate) use job::{install, take_outcome};
pub(crate) use life::{
    ABANDONED, describe_overflows, destroy_own_locals, end_abandoned, end_unstarted, fail_to_start,
    free_root, is_placed, label, label_with, name_after_thread, requested_stack_size,
    run_thread_to_end, run_to_end,
};
pub(crate) use raised::{NoValue, Raised, catch_raised};
pub(crate) use scope_data::ScopeData;
pub(crate) use slab::{FreeList, find_header, free_without_worker, header_at};
pub(crate) use unstarted::{find_by_id, find_by_text, visit_unstarted};
