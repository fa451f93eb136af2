//! The channel's core, with its models: what they call is the channel's own.

mod core;
mod error;
pub(crate) mod models;
mod waiters;
