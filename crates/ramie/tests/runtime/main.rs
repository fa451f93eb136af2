//! `run`, its options, its workers and their figures, the logger, and the attributes.

#[path = "../common/mod.rs"]
mod common;

mod after_run;
mod as_std;
mod blocking;
mod config;
mod kernels;
mod lingering;
mod logger;
mod logger_panics;
mod main_macro;
mod metrics;
mod policy;
mod run;
mod schedule;
mod snapshot;
mod submitter;
mod test_macro;
