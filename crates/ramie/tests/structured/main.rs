//! The calls of `structured`, the errors that they merge, and actors.

#[path = "../common/mod.rs"]
mod common;

mod actor;
mod edges;
mod ends;
mod error_types;
mod promises;
mod scopes;
mod start;
