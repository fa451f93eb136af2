//! `ramie lab`: measures a grid of points within about two minutes and writes a report.
//!
//! Modules in the order of their use: [`plan`] (the experiments, as data), [`budget`] (the points
//! that fit), [`measure`] (one point, in a child process), [`results`] (the figures), [`finding`]
//! (sentences about the figures), [`chart`] and [`page`] (the report).
//!
//! Points are measured in rounds, each point once per round. So a drift of the machine affects all
//! engines alike, and whenever the lab ends, the readings cover the grid evenly.

mod budget;
mod chart;
mod figure;
mod finding;
mod interrupt;
mod machine;
mod measure;
mod other_load;
mod output_dir;
mod page;
mod plan;
mod results;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use jiff::Zoned;

use self::{
    budget::Budget,
    interrupt::Interrupt,
    machine::Machine,
    measure::MeasureError,
    other_load::OtherLoad,
    plan::Extent,
    results::{Finished, NotMeasured, Outcome, Results},
};
use crate::{arguments::Lab, failure::Failure, output, runtime, workload::Engine};

const ROUNDS_MAX: u32 = 5;

pub(crate) fn lab(lab: &Lab) -> Result<(), Failure> {
    runtime::check_environment()?;
    let now = Zoned::now();
    let by_date = || Path::new("ramie-lab").join(now.strftime("%Y-%m-%d").to_string());
    let folder = output_dir::claim(&lab.out.clone().unwrap_or_else(by_date))?;
    let machine = Machine::found(&now);
    let interrupt = Interrupt::watch()?;
    let extent = if lab.tiny { Extent::Tiny } else { Extent::Quick };
    let results = experiment(machine, extent, &interrupt);
    if results.outcomes().all(|outcome| outcome.readings.is_empty()) {
        // There is nothing to report, so the directory is removed again.
        let _ = std::fs::remove_dir(&folder);
        return Err(Failure::other(nothing_measured(&results)));
    }
    let written = write(&folder, &results);
    // Printed before the error of a failed write, because the figures would otherwise be lost.
    print_summary(&results)?;
    let partial = if results.is_partial { " (partial: it was interrupted)" } else { "" };
    output::line(&format!("report: {}{partial}", written?.display()))
}

fn nothing_measured(results: &Results) -> String {
    let failed = results.outcomes().find_map(|outcome| match &outcome.not_measured {
        Some(NotMeasured::Failed(why)) => Some(why.clone()),
        _ => None,
    });
    match failed {
        Some(why) => format!("could not measure anything: {why}"),
        None => {
            "ended before anything was measured, so there is no report; run it again".to_owned()
        }
    }
}

fn write(folder: &Path, results: &Results) -> Result<PathBuf, Failure> {
    let findings = finding::all(results);
    output_dir::write(folder, "results.csv", &results.to_csv())?;
    output_dir::write(folder, "results.json", &results.to_json(&findings))?;
    output_dir::write(folder, "report.html", &page::page(results)?)
}

fn print_summary(results: &Results) -> Result<(), Failure> {
    for finding in finding::headlines(results) {
        output::line(&finding)?;
    }
    for outcome in results.outcomes() {
        if let Some(NotMeasured::Failed(why)) = &outcome.not_measured {
            output::warn(&format!("{} failed: {why}", outcome.label()));
        }
    }
    for warning in results.warnings() {
        output::warn(&warning);
    }
    Ok(())
}

/// Measures until all rounds are done, the time is over, or the user interrupts.
fn experiment(machine: Machine, extent: Extent, interrupt: &Interrupt) -> Results {
    let mut finished: Vec<Finished> = plan::experiments(extent)
        .into_iter()
        .map(|experiment| {
            let outcomes = experiment.points.iter().cloned().map(Outcome::new).collect();
            Finished { experiment, outcomes }
        })
        .collect();
    let (budget, others) = (Budget::start(), OtherLoad::watch());
    let mut progress = Progress::start();
    let rounds = if extent == Extent::Tiny { 1 } else { ROUNDS_MAX };
    let mut rounds_begun = 0;
    for round in 1..=rounds {
        if !budget.has_room_for(Duration::ZERO) || interrupt.is_requested() {
            break;
        }
        rounds_begun = round;
        for index in cheapest_first(&finished, &budget) {
            let Finished { experiment, outcomes } = &mut finished[index];
            for index in 0..outcomes.len() {
                let on = outcomes[index].point.on;
                progress.show(&budget, round, rounds, &experiment.title, on);
                if outcomes[index].readings.is_empty() && fails_repeatedly(outcomes, on) {
                    let why = "two points of the same engine failed".to_owned();
                    outcomes[index].not_measured.get_or_insert(NotMeasured::Skipped(why));
                }
                measure_once(&mut outcomes[index], round, &budget, interrupt);
            }
        }
    }
    progress.end();
    Results {
        machine,
        finished,
        is_partial: interrupt.is_requested(),
        seconds: budget.spent().as_secs_f64(),
        rounds: rounds_begun,
        rounds_wanted: rounds,
        others: others.share(),
    }
}

/// The indices of the experiments, cheapest first. If time is short, the most expensive points are
/// left out rather than all of the last experiments.
fn cheapest_first(finished: &[Finished], budget: &Budget) -> Vec<usize> {
    let time = |index: &usize| -> Duration {
        let points = finished[*index].outcomes.iter().map(|outcome| &outcome.point);
        points.filter(|point| budget.reason_to_skip(point).is_none()).map(budget::estimate).sum()
    };
    let mut numbers: Vec<_> = (0..finished.len()).collect();
    numbers.sort_by_cached_key(time);
    numbers
}

/// Whether two points of the engine failed in this experiment; a third would only cost time.
fn fails_repeatedly(outcomes: &[Outcome], on: Engine) -> bool {
    let failed = |outcome: &&Outcome| {
        outcome.point.on == on && matches!(outcome.not_measured, Some(NotMeasured::Failed(_)))
    };
    outcomes.iter().filter(failed).count() >= 2
}

/// Adds the readings of one round to a point, unless it does not fit or failed before.
fn measure_once(outcome: &mut Outcome, round: u32, budget: &Budget, interrupt: &Interrupt) {
    if outcome.not_measured.is_some() || interrupt.is_requested() {
        return;
    }
    if round == 1 {
        outcome.not_measured = budget.reason_to_skip(&outcome.point).map(NotMeasured::Skipped);
    }
    let time = outcome.time.unwrap_or_else(|| budget::estimate(&outcome.point));
    if outcome.not_measured.is_some() || !budget.has_room_for(time) {
        return;
    }
    let repeat = budget::repeats(&outcome.point);
    let started = Instant::now();
    match measure::measure(&outcome.point, repeat, budget.limit(time), interrupt) {
        Ok(readings) => outcome.readings.extend(readings),
        Err(MeasureError::Failed(why)) => outcome.not_measured = Some(NotMeasured::Failed(why)),
        Err(MeasureError::Interrupted) => {}
    }
    outcome.time = Some(started.elapsed());
}

/// A bar on a terminal; elsewhere a line per experiment and round.
struct Progress {
    bar: ProgressBar,
    last_line: String,
}

const BAR_LENGTH: u64 = 1000;

impl Progress {
    fn start() -> Self {
        let bar = ProgressBar::new(BAR_LENGTH);
        let style = ProgressStyle::with_template("{bar:30.cyan/blue} {elapsed} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, last_line: String::new() }
    }

    fn show(&mut self, budget: &Budget, round: u32, rounds: u32, title: &str, on: Engine) {
        let line = format!("round {round} of {rounds}: {title}");
        if self.bar.is_hidden() && line != self.last_line {
            output::warn(&line);
        }
        let share = budget.share_spent().max(f64::from(round - 1) / f64::from(rounds));
        self.bar.set_position((share * BAR_LENGTH as f64) as u64);
        self.bar.set_message(format!("{line}, {}", on.name()));
        self.last_line = line;
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Extent, Finished, Outcome, cheapest_first, plan};

    #[test]
    fn the_most_expensive_experiment_is_measured_last() {
        let finished: Vec<_> = plan::experiments(Extent::Quick)
            .into_iter()
            .map(|experiment| {
                let outcomes = experiment.points.iter().cloned().map(Outcome::new).collect();
                Finished { experiment, outcomes }
            })
            .collect();
        let order = cheapest_first(&finished, &Budget::start());
        assert_eq!(order.len(), finished.len());
        let place = |title: &str| {
            let is_it = |index: &usize| finished[*index].experiment.title == title;
            order.iter().position(is_it).expect("it is in the plan")
        };
        let [long, short] = [10_000, 100].map(|n| {
            place(&format!("Feeding people {} nutrients each", super::figure::thousands(n)))
        });
        assert!(place("Yielding at the bottom of a recursion") < long && short < long);
    }
}
