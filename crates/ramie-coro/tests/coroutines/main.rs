//! Coroutines, continuations, effects and generators; and what a switch keeps.

#[path = "../common/mod.rs"]
mod common;

mod bare;
mod context;
mod continuations;
mod coroutine;
mod drop;
mod effects;
mod float_modes;
mod generator;
mod large_closures;
mod shift;
mod thread_end;
