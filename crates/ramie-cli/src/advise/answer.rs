//! The answer, as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    arm::{Measured, MixArm},
    choice::{Choice, Confidence, is_above},
    description::Description,
    skeleton,
    tipping::Tipping,
};
use crate::{lab::figure::thousands, summary::Summary, workload::Engine};

/// The result of the measurement.
pub(super) struct Answer {
    pub(super) description: Description,
    pub(super) arms: Vec<Measured>,
    pub(super) choice: Choice,
    pub(super) tipping: Tipping,
    /// The share of the CPU time that other processes took meanwhile.
    pub(super) others: Option<f64>,
    pub(super) is_partial: bool,
    /// How many rounds were planned.
    pub(super) rounds: u32,
    pub(super) seconds: f64,
    pub(super) iterations_per_ms: u64,
}

/// If other processes take a larger share than this, the figures are unreliable.
const MUCH: f64 = 0.1;

impl Answer {
    fn best(&self) -> &Measured {
        &self.arms[self.choice.best]
    }

    fn second(&self) -> Option<&Measured> {
        self.choice.second.map(|second| &self.arms[second])
    }

    /// The comparison of the recommended arm with another.
    fn comparison(&self, other: &Measured) -> String {
        let part = |what: fn(&Measured) -> Option<Summary>, noun: &str| {
            let (own, other) = (what(self.best())?.median, what(other)?.median);
            let change = (own / other - 1.0) * 100.0;
            Some(format!("{change:+.0} % {noun}"))
        };
        let parts = [
            part(Measured::steps_per_s, "steps/s"),
            part(Measured::cpu_us_per_step, "CPU per step"),
            part(Measured::memory, "memory"),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Whether other processes took so much of the CPUs that the figures are unreliable.
    fn is_disturbed(&self) -> bool {
        self.others.is_some_and(|share| share > MUCH)
    }

    /// Returns the confidence in the recommendation, and the reason for it.
    fn confidence(&self) -> (Confidence, &'static str) {
        let confidence = self.choice.confidence;
        match self.is_disturbed() {
            true => (Confidence::Low, "other processes disturbed the measurement"),
            false => (confidence, confidence.reason()),
        }
    }

    /// Describes the part of the measurement that an interrupt has prevented.
    fn interruption(&self) -> String {
        let arms = self.arms.iter().filter(|measured| measured.failed.is_none());
        let counts: Vec<_> = arms.map(|measured| measured.readings.len()).collect();
        let least = counts.iter().min().copied().unwrap_or(0);
        let most = counts.iter().max().copied().unwrap_or(0);
        let has = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let tipping = match self.tipping.is_measured() {
            true => "",
            false => ", and the tipping point was not measured",
        };
        format!(
            "interrupted: an arm has {has} of {} readings{tipping}; run it again without an \
             interrupt for a better answer",
            self.rounds
        )
    }

    /// Why an arm has no readings.
    fn reason_without_readings<'a>(&self, measured: &'a Measured) -> &'a str {
        let ended = if self.is_partial { "interrupted" } else { "the time was too short" };
        measured.failed.as_deref().unwrap_or(ended)
    }

    /// Reasons to doubt the figures, in sentences.
    fn notes(&self) -> Vec<String> {
        let partial = self.is_partial.then(|| self.interruption());
        let busy = self.others.filter(|_| self.is_disturbed()).map(|share| {
            format!(
                "other processes, or the machine's host, took {:.0} % of the CPU time meanwhile; \
                 leave the machine alone and run it again",
                share * 100.0
            )
        });
        let is_fibers = self.best().arm.on != Engine::Threads;
        let blocking = (self.description.mix.blocking && is_fibers).then(|| {
            "each blocking wait stops a worker with all its fibers; `ramie::blocking`, which moves \
             such calls to other threads, was not measured"
                .to_owned()
        });
        partial.into_iter().chain(busy).chain(blocking).collect()
    }

    /// The answer for people.
    pub(super) fn text(&self) -> String {
        let decider = self.choice.decider;
        let (confidence, why) = self.confidence();
        let mut text = format!("{}\n\n", self.description.text());
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<16}{value}");
        };
        line("recommendation", &self.best().arm.phrase());
        match self.second() {
            Some(second) => {
                line("runner-up", &second.arm.phrase());
                line("vs. runner-up", &self.comparison(second));
                line("decided by", decider.name());
            }
            None => line("runner-up", "none: no other engine could be measured"),
        }
        line("confidence", &format!("{}: {why}", confidence.name()));
        line("tipping point", &self.tipping.sentence());
        for note in self.notes() {
            line("note", &note);
        }
        text.push('\n');
        text.push_str(&self.table());
        let _ = write!(text, "\nA program to start from:\n\n{}", self.skeleton());
        text
    }

    fn skeleton(&self) -> String {
        skeleton::of(self.best().arm, &self.description.mix)
    }

    /// The medians and ranges of all arms.
    fn table(&self) -> String {
        let mut rows =
            vec![["", "steps/s", "", "CPU µs/step", "", "late p99 µs", "MiB"].map(String::from)];
        let mut missing = String::new();
        for measured in &self.arms {
            match self.row(measured) {
                Some(row) => rows.push(row),
                None => {
                    let why = self.reason_without_readings(measured);
                    let _ = writeln!(missing, "not measured: {}: {why}", measured.arm.name());
                }
            }
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> =
            (0..rows[0].len()).map(|column| width(column).unwrap_or(0)).collect();
        let mut table = String::new();
        for row in &rows {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // The names are flush left, the numbers flush right.
                let _ = match column {
                    0 => write!(table, "{cell:<width$}"),
                    _ => write!(table, "  {cell:>width$}"),
                };
            }
            table.push('\n');
        }
        table + &missing
    }

    fn row(&self, measured: &Measured) -> Option<[String; 7]> {
        let (speed, cpu) = (measured.steps_per_s()?, measured.cpu_us_per_step()?);
        let (late, memory) = (measured.lateness(|late| late.p99)?, measured.memory()?);
        let count = |value: f64| thousands(value.round() as u64);
        let is_out = is_above(measured, self.description.memory_limit);
        let limit = if is_out { " (above the limit)" } else { "" };
        Some([
            measured.arm.name(),
            count(speed.median),
            format!("({} to {})", count(speed.least), count(speed.most)),
            format!("{:.1}", cpu.median),
            format!("({:.1} to {:.1})", cpu.least, cpu.most),
            count(late.median),
            format!("{:.1}{limit}", memory.median / f64::from(1 << 20)),
        ])
    }

    /// The answer for programs.
    pub(super) fn json(&self) -> Value {
        let decider = self.choice.decider;
        let (confidence, why) = self.confidence();
        let mix = &self.description.mix;
        let name = |measured: &Measured| {
            let MixArm { on, workers } = measured.arm;
            json!({ "name": on, "workers": workers })
        };
        json!({
            "description": {
                "concurrency": mix.concurrency,
                "cpu_us": mix.cpu_us,
                "wait_us": mix.wait_us,
                "wait": mix.wait.name(),
                "jitter": mix.jitter,
                "blocking": mix.blocking,
                "memory_limit": self.description.memory_limit,
                "seconds": self.description.seconds.as_f64(),
            },
            "recommended": self.best().arm.on,
            "workers": self.best().arm.workers,
            "runner_up": self.second().map(name),
            "confidence": confidence.name(),
            "confidence_reason": why,
            "decided_by": decider.name(),
            "tipping": self.tipping.json(),
            "arms": self.arms.iter().filter_map(|arm| self.arm_json(arm)).collect::<Vec<_>>(),
            "not_measured": self.arms.iter().filter(|arm| arm.readings.is_empty()).map(|arm| json!({
                "name": arm.arm.on,
                "workers": arm.arm.workers,
                "why": self.reason_without_readings(arm),
            })).collect::<Vec<_>>(),
            "notes": self.notes(),
            "partial": self.is_partial,
            "seconds": self.seconds,
            "iterations_per_ms": self.iterations_per_ms,
            "skeleton": self.skeleton(),
        })
    }

    fn arm_json(&self, measured: &Measured) -> Option<Value> {
        let (speed, cpu) = (measured.steps_per_s()?, measured.cpu_us_per_step()?);
        let memory = measured.memory()?;
        let range = |summary: Summary| [summary.least, summary.most];
        Some(json!({
            "name": measured.arm.on,
            "workers": measured.arm.workers,
            "readings": measured.readings.len(),
            "steps_per_s": speed.median,
            "steps_per_s_range": range(speed),
            "cpu_us_per_step": cpu.median,
            "cpu_us_per_step_range": range(cpu),
            "p50": measured.lateness(|late| late.p50)?.median,
            "p99": measured.lateness(|late| late.p99)?.median,
            "p999": measured.lateness(|late| late.p999)?.median,
            "memory": memory.median.round() as u64,
            "above_memory_limit": is_above(measured, self.description.memory_limit),
        }))
    }
}
