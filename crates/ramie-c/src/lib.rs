//! Ramie for C: the functions that `include/ramie.h` declares and documents.
//!
//! - `runtime`: options, runtimes in the background, handles;
//! - `guest`: workers that the program's own loop drives;
//! - `fiber`: spawning, joining, waiting;
//! - `io`: reads, writes, connections, readiness;
//! - `channel`: queues of pointers;
//! - `outcome`: errors as negative errnos.
//!
//! # Rules
//! No panic crosses into C: each function that may panic runs in `outcome::guard`. An object of
//! C's is a box, whose address C has until it gives that back to the function that frees it. What C
//! passes is trusted as the header says: a wrong pointer is undefined behaviour, as everywhere in
//! C.
#![deny(unsafe_code)]

mod channel;
mod fiber;
mod guest;
#[cfg(test)]
mod header;
mod io;
#[cfg(test)]
mod mistakes;
mod outcome;
mod runtime;
