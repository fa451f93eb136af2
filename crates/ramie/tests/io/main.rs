//! Pipes, the standard streams, copies, lines, and waits for several descriptors.

#[path = "../common/mod.rs"]
mod common;

mod as_std_edges;
mod copies;
mod copy_errors;
mod iterators_end;
mod line_reader;
mod standard;
mod wait_any;
