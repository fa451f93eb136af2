//! `results.csv`: one row for each reading, and one for each counted run.
//!
//! The row of a counted run has no round, because its time counts for no figure.

use std::{collections::BTreeSet, fmt::Display};

use super::{CountedRun, Covers, Outcome, Reading, Results};
use crate::counters;

const OF_EACH_READING: [&str; 8] =
    ["round", "at_s", "time", "pinned_to", "seconds", "ops", "per_op_ns", "cpu_s"];
/// The part of a run that its counters cover: `interval` or `process`.
const COVERS: &str = "counters_cover";

/// The columns that depend on the results.
struct Columns<'a> {
    params: BTreeSet<&'a str>,
    words: BTreeSet<&'a str>,
    figures: BTreeSet<String>,
    counters: &'a [&'a str],
}

impl<'a> Columns<'a> {
    fn of(results: &'a Results) -> Self {
        let subjects = || results.outcomes().map(|outcome| &outcome.subject);
        let readings = results.outcomes().flat_map(|outcome| &outcome.readings);
        let has_counters = results.outcomes().any(|outcome| outcome.counters.is_some());
        Columns {
            params: subjects().flat_map(|of| of.params.keys()).map(String::as_str).collect(),
            words: subjects().flat_map(|of| of.words.keys()).map(String::as_str).collect(),
            figures: readings.flat_map(Reading::numbers).map(|(name, _)| name).collect(),
            counters: if has_counters { &counters::NAMES } else { &[] },
        }
    }

    fn names(&self) -> Vec<&str> {
        let before = ["experiment", "workload"].into_iter();
        let before = before.chain(self.params.iter().copied()).chain(self.words.iter().copied());
        let behind = ["on", "workers"].into_iter().chain(OF_EACH_READING);
        let figures = self.figures.iter().map(String::as_str);
        let covers = (!self.counters.is_empty()).then_some(COVERS);
        let counters = covers.into_iter().chain(self.counters.iter().copied());
        before.chain(behind).chain(figures).chain(counters).collect()
    }

    /// The fields before those of the run.
    fn point(&self, outcome: &Outcome) -> CsvRow {
        let subject = &outcome.subject;
        let mut row = CsvRow::default();
        row.add(Some(&subject.experiment));
        row.add(Some(&subject.workload));
        self.params.iter().for_each(|name| row.add(subject.params.get(*name)));
        self.words.iter().for_each(|name| row.add(subject.words.get(*name)));
        row.add(Some(subject.arm.on.name()));
        row.add(subject.arm.workers);
        row
    }

    fn reading(&self, outcome: &Outcome, reading: &Reading) -> CsvRow {
        let Reading { round, at_s, time, pinned_to, seconds, ops, per_op_ns, cpu_s, .. } = reading;
        let mut row = self.point(outcome);
        row.add(Some(round));
        row.add(Some(at_s));
        row.add(Some(time));
        row.add(pinned_to.as_ref());
        row.add(Some(seconds));
        row.add(Some(ops));
        row.add(Some(per_op_ns));
        row.add(*cpu_s);
        self.figures.iter().for_each(|name| row.add(reading.figure(name)));
        if !self.counters.is_empty() {
            row.skip(1 + self.counters.len());
        }
        row
    }

    fn counted(&self, outcome: &Outcome, run: &CountedRun) -> CsvRow {
        let mut row = self.point(outcome);
        row.skip(1);
        row.add(Some(run.at_s));
        row.skip(3);
        row.add(run.ops);
        row.skip(2 + self.figures.len());
        row.add(Some(match run.covers {
            Covers::Interval => "interval",
            Covers::Process => "process",
        }));
        let values = self.counters.iter().map(|name| run.values.get(*name));
        values.for_each(|value| row.add(value.filter(|value| !value.is_null())));
        row
    }
}

/// The fields of a row.
#[derive(Default)]
struct CsvRow(Vec<String>);

impl CsvRow {
    /// Adds a field, which is empty if there is no value.
    fn add(&mut self, value: Option<impl Display>) {
        self.0.push(value.map_or_else(String::new, |value| value.to_string()));
    }

    fn skip(&mut self, fields: usize) {
        self.0.resize(self.0.len() + fields, String::new());
    }
}

/// The table. The columns of parameters, figures and counters are those that occur in the results.
pub(crate) fn table(results: &Results) -> String {
    let columns = Columns::of(results);
    let mut csv = columns.names().join(",") + "\n";
    let mut write = |row: CsvRow| csv += &(row.0.join(",") + "\n");
    for outcome in results.outcomes() {
        outcome.readings.iter().for_each(|reading| write(columns.reading(outcome, reading)));
        outcome.counters.iter().for_each(|run| write(columns.counted(outcome, run)));
    }
    csv
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::lab::{plan::Selection, results::sample::lab};

    fn rows(results: &Results) -> Vec<BTreeMap<String, String>> {
        let csv = table(results);
        let mut lines = csv.lines();
        let names: Vec<_> = lines.next().unwrap().split(',').collect();
        let row = |line: &str| {
            let fields: Vec<_> = line.split(',').collect();
            assert_eq!(fields.len(), names.len(), "{line}");
            names.iter().zip(fields).map(|(name, field)| ((*name).into(), field.into())).collect()
        };
        lines.map(row).collect()
    }

    #[test]
    fn a_counted_run_is_a_row_without_a_round() {
        let mut results = lab(Selection::Tiny, 2, |_, _| Some(0.5));
        assert!(rows(&results).iter().all(|row| !row.contains_key("cycles")));
        let mut values = serde_json::Map::new();
        values.insert("user_s".to_owned(), json!(0.25));
        values.insert("ring_enters".to_owned(), json!(17));
        values.insert("cycles".to_owned(), json!(null));
        let (ops, covers) = (Some(1000), Covers::Interval);
        let unavailable = BTreeMap::from([("cycles".to_owned(), "no counters".to_owned())]);
        let run = CountedRun { at_s: 7.5, covers, ops, values, unavailable };
        results.finished[0].outcomes[0].counters = Some(run);

        let rows = rows(&results);
        let (counted, readings): (Vec<_>, Vec<_>) =
            rows.iter().partition(|row| row["round"].is_empty());
        let [counted] = counted[..] else { panic!("{} counted runs", counted.len()) };
        for (name, value) in [
            ("workload", "feed"),
            ("at_s", "7.5"),
            ("ops", "1000"),
            ("seconds", ""),
            ("counters_cover", "interval"),
            ("user_s", "0.25"),
            ("ring_enters", "17"),
            ("cycles", ""),
            ("runs_max", ""),
        ] {
            assert_eq!(counted[name], value, "{name}");
        }
        assert!(readings.iter().all(|row| row["seconds"] == "0.5" && row["user_s"].is_empty()));
        assert_eq!(readings.len(), 2 * results.outcomes().count());
    }
}
