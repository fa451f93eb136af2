//! `results.json`: the complete raw record. Everything in the report is computed from it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{
    CountedRun, Finished, Noise, NotMeasured, Outcome, Reading, Request, Results, Subject,
    machine::Machine,
};
use crate::{
    failure::Failure,
    lab::plan::{Experiment, post::Post},
};

/// The number of this form. A reader refuses a record with another number.
pub(crate) const SCHEMA: u32 = 2;

pub(crate) const FILE: &str = "results.json";

/// The form of the file: the points are one flat list, which is easy to filter.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    schema: u32,
    machine: Machine,
    request: Request,
    posts: Vec<Post>,
    partial: bool,
    seconds: f64,
    rounds: u32,
    noise: Vec<Noise>,
    /// The sentences of the report, for readers who do not compute them again.
    findings: Vec<String>,
    experiments: Vec<Experiment>,
    points: Vec<RecordedPoint>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordedPoint {
    #[serde(flatten)]
    subject: Subject,
    /// For readers who want to measure the point again.
    #[serde(default)]
    command: String,
    readings: Vec<Reading>,
    skipped: Option<String>,
    failed: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counters: Option<CountedRun>,
}

impl From<&Outcome> for RecordedPoint {
    fn from(outcome: &Outcome) -> Self {
        let (skipped, failed) = match outcome.not_measured.clone() {
            Some(NotMeasured::Skipped(why)) => (Some(why), None),
            Some(NotMeasured::Failed(why)) => (None, Some(why)),
            None => (None, None),
        };
        let (subject, readings) = (outcome.subject.clone(), outcome.readings.clone());
        let (command, counters) = (subject.command(), outcome.counters.clone());
        RecordedPoint { command, subject, readings, skipped, failed, counters }
    }
}

impl From<RecordedPoint> for Outcome {
    fn from(point: RecordedPoint) -> Self {
        let RecordedPoint { subject, readings, skipped, failed, counters, .. } = point;
        let failed = failed.map(NotMeasured::Failed);
        let not_measured = failed.or(skipped.map(NotMeasured::Skipped));
        Outcome { subject, readings, not_measured, counters }
    }
}

/// The text of `results.json`.
pub(crate) fn to_json(results: &Results, findings: Vec<String>) -> String {
    let record = Record {
        schema: SCHEMA,
        machine: results.machine.clone(),
        request: results.request.clone(),
        posts: results.posts.clone(),
        partial: results.is_partial,
        seconds: results.seconds,
        rounds: results.rounds,
        noise: results.noise.clone(),
        findings,
        experiments: results.finished.iter().map(|each| each.experiment.clone()).collect(),
        points: results.outcomes().map(RecordedPoint::from).collect(),
    };
    let text = serde_json::to_string_pretty(&record).expect("numbers and names make JSON");
    text + "\n"
}

/// The results that a text describes, or the reason why it describes none.
pub(crate) fn of_json(text: &str) -> Result<Results, String> {
    check_schema(text)?;
    let record: Record = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut finished: Vec<_> = record
        .experiments
        .into_iter()
        .map(|experiment| Finished { experiment, outcomes: Vec::new() })
        .collect();
    for point in record.points {
        let name = &point.subject.experiment;
        let of = finished.iter_mut().find(|finished| finished.experiment.name == *name);
        let Some(of) = of else { return Err(format!("a point of an unknown experiment `{name}`")) };
        of.outcomes.push(point.into());
    }
    Ok(Results {
        machine: record.machine,
        request: record.request,
        posts: record.posts,
        finished,
        is_partial: record.partial,
        seconds: record.seconds,
        rounds: record.rounds,
        noise: record.noise,
    })
}

/// Fails unless a JSON object names the form that this version reads.
pub(super) fn check_schema(text: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Version {
        schema: Option<u32>,
    }
    let version: Version = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match version.schema {
        Some(SCHEMA) => Ok(()),
        Some(other) => Err(format!(
            "it has form {other}, and this version of ramie reads form {SCHEMA}; use the version \
             that wrote it"
        )),
        None => Err("it does not name its form (`schema`), so it is no record of a lab, or one \
                     of an older version"
            .to_owned()),
    }
}

/// Reads a record: a file, or the folder of a report. The caller names it on the command line, so
/// a failure is one of the command line.
pub(crate) fn read(path: &Path) -> Result<Results, Failure> {
    let file = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Failure::usage(format!(
            "cannot read {} ({error}); name the folder of a report of `ramie lab`, or its {FILE}",
            file.display()
        ))
    })?;
    of_json(&text).map_err(|why| {
        Failure::usage(format!("cannot read {} as the record of a lab: {why}", file.display()))
    })
}
