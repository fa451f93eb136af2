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
mod durations;
mod error;
mod feed;
pub mod futures;
mod gate;
pub mod http;
pub mod messages;
pub mod mix;
mod panics;
mod ring;
pub mod server;
mod spawn;
mod strands;
mod switch;
mod task;
mod thread_limit;
mod transfer;
mod usage;
mod word;
mod workload;

pub use self::{
    alive::Alive,
    count::count,
    durations::{Durations, Moments},
    error::{WorkloadError, payload_text},
    feed::{Fed, Feed, Pass, Person},
    http::Http,
    mix::Mix,
    panics::{catch_panic, install_panic_hook, run},
    ring::{Ring, RingPreset},
    server::Server,
    spawn::Spawn,
    strands::{OnFibers, OnThreads, StrandKind},
    switch::Switch,
    task::{Basic, Recurse, Recurse2, Round, Task, TaskCall, TaskWait},
    thread_limit::most_threads,
    transfer::{Load, Setup},
    usage::{
        Cost, Figure, IntervalHooks, Memory, Stopwatch, address_space_left, await_thread_ends,
        hook_intervals, kib_field, resident_bytes,
    },
    workload::Workload,
};
