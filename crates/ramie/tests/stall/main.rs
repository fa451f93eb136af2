//! Fibers that keep their worker for too long are reported, and others are not.

#[path = "../common/mod.rs"]
mod common;

mod locks;
mod memory;
mod panic_hook;
mod quiet;
mod reports;
mod rings;

use std::time::{Duration, Instant};

use common::program::{Program, wait_for_end};

/// Other tests' processes do not report stalls; those of these tests do, after the default limit.
const REPORTED: (&str, &str) = ("RAMIE_STALL_MS", "");

/// Computes for so long.
fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
