//! Synthetic labs for tests.

use serde_json::json;

use super::{Event, Reading, Results, Subject, machine::Machine};
use crate::lab::{header, plan::Selection};

/// A lab of this plan. `cost` is the time of a point in a round, in seconds; `None` leaves it out.
pub(crate) fn lab(
    selection: Selection,
    rounds: u32,
    mut cost: impl FnMut(&Subject, u32) -> Option<f64>,
) -> Results {
    let plan = selection.experiments();
    let mut results = header(Machine::default(), selection, &plan).results();
    for round in 1..=rounds {
        results.apply(Event::Round { round }).unwrap();
        for experiment in 0..results.finished.len() {
            for index in 0..results.finished[experiment].outcomes.len() {
                let subject = &results.finished[experiment].outcomes[index].subject;
                let Some(seconds) = cost(subject, round) else { continue };
                let readings = vec![reading(subject, round, seconds)];
                let point = (experiment, index);
                results.apply(Event::Readings { point, readings }).unwrap();
            }
        }
    }
    results.is_partial = false;
    results
}

pub(crate) fn reading(subject: &Subject, round: u32, seconds: f64) -> Reading {
    let ops = 1000;
    let mut row = json!({
        "round": round, "at_s": f64::from(round), "time": "2026-01-01T00:00:00Z",
        "pinned_to": null, "seconds": seconds, "ops": ops,
        "per_op_ns": seconds * 1e9 / f64::from(ops), "cpu_s": seconds,
    });
    if subject.workload == "alive" {
        row["rss_bytes_per_strand"] = json!(seconds * 1e6);
        row["pte_bytes_per_strand"] = json!(0.0);
    }
    if subject.workload == "http" {
        row["requests_per_s"] = json!(f64::from(ops) / seconds);
        row["latency_us"] = json!({ "mean": seconds * 1e6 });
    }
    if subject.workload == "server" {
        row["accept_wait_us"] = json!({ "mean": seconds * 1e3, "max": seconds * 1e6 });
    }
    serde_json::from_value(row).unwrap()
}

/// A number from 0 to 1 that looks like chance and is the same in each run.
pub(crate) fn chance(seed: u64) -> f64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}
