//! Strands that can never go on are reported, and others are not.

#[path = "../common/mod.rs"]
mod common;

mod cycles;
mod quiet;

use common::program::{Program, wait_for_end};

/// The lines of a report that name strands, sorted.
fn strands_of(report: &str) -> Vec<&str> {
    let lines = report.lines().map(str::trim);
    let mut strands: Vec<_> = lines.filter(|line| line.starts_with("fiber ")).collect();
    strands.sort_unstable();
    strands
}
