//! The run of the lane: the tests without a mutant, then those of each mutant, then the totals.

use std::{
    collections::BTreeMap,
    fs,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use crate::{
    LOGS, VERDICTS,
    list::Mutant,
    report::Report,
    tests::{self, Binaries, Outcome, Run, split},
    verdicts::{Verdict, Verdicts},
};

/// How much longer than without a mutant tests may take: a test that hangs counts as red.
const GRACE: Duration = Duration::from_secs(8);
const FACTOR: u32 = 3;
/// The limit of the run without a mutant, which has no earlier figure.
const FIRST_LIMIT: Duration = Duration::from_secs(240);
/// Mutants that run side by side: more than there are CPUs, because one that hangs only waits.
const LANES: usize = 4;

type Limits = BTreeMap<String, Duration>;

fn run_test(
    binaries: &Binaries,
    test: &str,
    more: &[&str],
    mutant: usize,
    limit: Duration,
) -> Result<Run, String> {
    let (binary, filter) = split(test);
    let arguments: Vec<&str> = filter.into_iter().chain(more.iter().copied()).collect();
    let name = test.replace([':', '/'], "_");
    let log = format!("{LOGS}/{mutant}.{name}.txt");
    tests::run(binaries, binary, &arguments, mutant, limit, &log)
}

/// The limit of each test, from a run without a mutant, in which all must pass; those that do not
/// are left out if the lane is to keep going.
fn limits(mutants: &[&Mutant], binaries: &Binaries, keeps_going: bool) -> Result<Limits, String> {
    let (mut limits, mut red) = (Limits::new(), BTreeMap::new());
    for test in mutants.iter().flat_map(|mutant| &mutant.tests) {
        if limits.contains_key(test) || red.contains_key(test) {
            continue;
        }
        let mut run = run_test(binaries, test, &[], 0, FIRST_LIMIT)?;
        if !matches!(run.outcome, Outcome::Passed) {
            // A busy machine may be at fault, once.
            run = run_test(binaries, test, &[], 0, FIRST_LIMIT)?;
        }
        if run.said.contains("running 0 tests") {
            return Err(format!("{test} names no test"));
        }
        if matches!(run.outcome, Outcome::Passed) {
            limits.insert(test.clone(), GRACE + run.took * FACTOR);
        } else {
            println!("without a mutant {test} must pass, but:\n{}", run.said);
            red.insert(test.clone(), ());
        }
    }
    match red.is_empty() || keeps_going {
        true => Ok(limits),
        false => Err(format!("red without a mutant: {:?}", red.keys())),
    }
}

/// The test that catches the mutant, and how; `None`: it survives.
fn hunt(mutant: &Mutant, binaries: &Binaries, limits: &Limits) -> Result<Verdict, String> {
    // The quickest first.
    let mut tests: Vec<_> =
        mutant.tests.iter().filter_map(|test| Some((*limits.get(test)?, test))).collect();
    tests.sort();
    for (limit, test) in tests {
        for _ in 0..3 {
            let run = run_test(binaries, test, &[], mutant.number, limit)?;
            let (by, control): (String, Option<&String>) = match &run.outcome {
                Outcome::Passed => break,
                Outcome::TimedOut(names) => {
                    (format!("{test}: time-out of {}", names.join(", ")), None)
                }
                Outcome::Failed(names) => match names.first() {
                    None => (format!("{test}: the process ended"), None),
                    Some(name) => (format!("{}: {name}", split(test).0), Some(name)),
                },
            };
            // Only a test that passes without the mutant, in the same time, has caught it.
            let control = match control {
                Some(name) => run_test(binaries, split(test).0, &["--exact", name], 0, limit)?,
                None => run_test(binaries, test, &[], 0, limit)?,
            };
            if matches!(control.outcome, Outcome::Passed) {
                return Ok(Some(by));
            }
        }
    }
    Ok(None)
}

/// Runs the mutants that the command line selects, and reports.
pub fn run(mutants: &[&Mutant], has: &dyn Fn(&str) -> bool) -> Result<ExitCode, String> {
    fs::create_dir_all(LOGS).map_err(|error| format!("{LOGS}: {error}"))?;
    let verdicts = Verdicts::open(VERDICTS, has("--resume"))?;
    for mutant in mutants.iter().filter(|mutant| has("--trusting") && mutant.lives.is_some()) {
        if verdicts.of(mutant).is_none() {
            verdicts.note(mutant, None)?;
        }
    }
    let left: Vec<&Mutant> =
        mutants.iter().copied().filter(|mutant| !verdicts.is_settled(mutant)).collect();
    println!("{} of {} mutants are to run", left.len(), mutants.len());
    if !left.is_empty() {
        let binaries = tests::build(&left)?;
        let limits = limits(&left, &binaries, has("--keep-going"))?;
        println!("without a mutant {} sets of tests pass", limits.len());
        hunt_all(&left, &binaries, &limits, &verdicts)?;
    }
    let report = Report::new(mutants, &verdicts);
    println!(
        "\n{report}\nto repeat one: RAMIE_MUTANT=<number> target/mutants/build/debug/deps/<binary>"
    );
    Ok(if report.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn hunt_all(
    mutants: &[&Mutant],
    binaries: &Binaries,
    limits: &Limits,
    verdicts: &Verdicts,
) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let lane = || -> Result<(), String> {
        while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let verdict = hunt(mutant, binaries, limits)
                .map_err(|complaint| format!("{}: {complaint}", mutant.full_name()))?;
            match &verdict {
                Some(by) => {
                    println!("{:>4} caught    {} by {by}", mutant.number, mutant.full_name())
                }
                None => println!("{:>4} SURVIVED  {}", mutant.number, mutant.full_name()),
            }
            verdicts.note(mutant, verdict)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("no lane panics"))
    })
}
