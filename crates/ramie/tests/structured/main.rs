//! Scopes with policies, actors, and the errors that both merge.

#[path = "../common/mod.rs"]
mod common;

mod actor;
mod edges;
mod ends;
mod error_types;
mod promises;
mod scopes;
mod start;
