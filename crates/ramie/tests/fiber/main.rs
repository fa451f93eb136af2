//! Strands from spawn to end: fibers, threads, scopes, panics, futures; and code that misuses them.

#[path = "../common/mod.rs"]
mod common;

mod contexts;
mod effects;
mod fibers;
mod forgetting;
mod future;
mod future_of;
mod hazards;
mod lent_ends;
mod lent_late;
mod lent_locals;
mod outside;
mod panics;
mod panics_told;
mod scope;
mod soundness;
mod strand_ends;
mod strands;
mod thread;
mod thread_exit;
