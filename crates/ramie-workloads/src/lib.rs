//! The workloads that the program `ramie` and the benches run: their parameters and parsing, their
//! implementation on fibers and on OS threads, and the checks of their results.
//!
//! A [`Workload`] is a subcommand of the program with its flags (`feed --people 2048 --nutrients
//! 1000`), and one word of the benches (`feed:2048:1000`). [`Workload::cost_on`] runs it on
//! [`OnFibers`] or [`OnThreads`], checks its result and returns its [`Cost`]. A benchmark of
//! another runtime has a loop of its own, and takes the parameters and the checks from here.

#![forbid(unsafe_code)]

mod alive;
mod count;
mod error;
mod feed;
pub mod futures;
mod gate;
pub mod messages;
mod panics;
mod ring;
mod spawn;
mod strands;
mod switch;
mod task;
mod transfer;
mod usage;
mod word;
mod workload;

pub use self::{
    alive::Alive,
    count::count,
    error::{WorkloadError, payload_text},
    feed::{Feed, Person},
    panics::{catch_panic, install_panic_hook, run},
    ring::Ring,
    spawn::Spawn,
    strands::{OnFibers, OnThreads, StrandKind, most_threads},
    switch::Switch,
    task::{Basic, Recurse, Recurse2, Task, TaskCall},
    transfer::{Load, Setup},
    usage::{Cost, Memory, Stopwatch, kib_field, resident_bytes},
    workload::Workload,
};
