//! The behaviour of pools, with a protocol in memory.

mod bound;
mod ends;
mod keeper;
mod limits;
mod protocol;
mod random;
mod reuse;
mod waiting;
