//! `ramie run`: runs one workload several times and prints one line per repetition. Lists of
//! numbers on the command line make a sweep, which runs one combination after another.

mod csv;
mod fresh;
mod sweep;

use std::collections::BTreeMap;

use ramie_workloads::Figure;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Serialize, Serializer};
use serde_json::Value;

use self::csv::Csv;
pub(crate) use self::sweep::expand;
use crate::{
    arguments::{Run, RunOptions},
    counters::{self, Counters},
    failure::Failure,
    output,
    workload::{self, Bench, Cost, Engine, TaskCall, Workload},
};

/// The fields that `--json` and `--csv` print for each repetition, in order.
struct Row(Vec<(&'static str, Value)>);

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

pub(crate) fn run(run: &Run) -> Result<(), Failure> {
    let (workload, options) = (&run.workload, &run.options);
    check(run)?;
    let mut csv = Csv::default();
    if workload.wants_fresh_process() && !options.fresh {
        return fresh::run_each_repetition(run, &mut csv);
    }
    if options.fresh || options.member.member {
        // If the parent is killed, this process should not go on. A failure does not matter.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
    if options.counters || options.member.count_runs {
        // Before any other thread starts.
        counters::enable();
        counters::count_runs_only(options.member.count_runs);
    }
    let bench = Bench::new(*workload, options)?;
    if options.member.member {
        return bench.run_as_member();
    }
    for _ in 0..options.repeat {
        let cost = bench.cost()?;
        let counters = match options.counters {
            true => Some(Counters::of_repetition(ops(workload, &cost), || bench.count_runs())?),
            false => None,
        };
        let row = |counters: Option<Value>| {
            let mut row = row(&bench, options.on, &cost);
            row.0.extend(counters.map(|counters| ("counters", counters)));
            row
        };
        match (options.json, options.csv) {
            (true, _) => output::line(&json_line(&row(counters.map(|all| all.json()))))?,
            (_, true) => csv.row(&row(counters.map(|all| all.cells())).0)?,
            _ => {
                output::line(&text_line(&bench, options, &cost))?;
                counters.map_or(Ok(()), |counters| output::line(&counters.to_string()))?;
            }
        }
    }
    Ok(())
}

/// Runs a sweep: each of these in a process of its own, after all of them have been checked.
pub(crate) fn run_sweep(runs: &[Run]) -> Result<(), Failure> {
    runs.iter().try_for_each(check)?;
    let mut csv = Csv::default();
    let runs = runs.iter().cloned().map(|mut run| {
        run.options.member.sweep = true;
        run
    });
    runs.into_iter().try_for_each(|run| match run.workload.wants_fresh_process() {
        true => fresh::run_each_repetition(&run, &mut csv),
        false => fresh::run_all_repetitions(&run, &mut csv),
    })
}

/// Fails if the workload cannot run with these parameters and options. Takes no time.
fn check(run: &Run) -> Result<(), Failure> {
    if let Some(workers) = run.options.workers {
        run.options.on.check_workers(workers)?;
    }
    workload::check(&run.workload, &run.options)
}

/// The parameters by the names of their flags, those with defaults included.
fn params(workload: &Workload, on: Engine) -> BTreeMap<&'static str, Value> {
    let numbers = workload.numbers().into_iter();
    let mut params: BTreeMap<_, _> = numbers.map(|(flag, value)| (flag, value.into())).collect();
    match workload {
        Workload::Feed(feed) => {
            let yields_every = feed.yields_every(on != Engine::Threads);
            params.insert("yield-every", yields_every.into());
            if on == Engine::Coroutines {
                params.insert("pass", feed.pass.unwrap_or_default().name().into());
            }
        }
        Workload::Basic(_) | Workload::Recurse(_) | Workload::Recurse2(_) => {
            let rounds = workload.task().map(|task| ("rounds", task.rounds.into()));
            params.extend(rounds);
        }
        Workload::Mix(mix) => {
            params.insert("seconds", mix.seconds.as_f64().into());
            params.insert("blocking", mix.blocking.into());
        }
        _ => {}
    }
    params
}

fn object(fields: BTreeMap<&'static str, Value>) -> Value {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A caveat about the figures.
fn note(workload: &Workload, on: Engine) -> Option<&'static str> {
    let is_slow = workload.call() == Some(TaskCall::Slow);
    let note = "the timers of tokio count milliseconds";
    (is_slow && on == Engine::Futures).then_some(note)
}

fn ops(workload: &Workload, cost: &Cost) -> u64 {
    cost.ops.unwrap_or_else(|| workload.ops())
}

fn per_op_ns(workload: &Workload, cost: &Cost) -> f64 {
    cost.time.as_secs_f64() * 1e9 / ops(workload, cost) as f64
}

/// Seconds without the digits behind the nanoseconds, which are errors of the floating point.
fn whole_nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

/// A figure as a JSON number or object.
fn value(figure: &Figure) -> Value {
    match figure {
        Figure::Count(count) => (*count).into(),
        Figure::Number(number) => (*number).into(),
        Figure::Group(parts) => {
            parts.iter().map(|(name, number)| ((*name).to_owned(), Value::from(*number))).collect()
        }
    }
}

/// The figures as ` name=value` and ` name.part=value`.
fn figures_text(figures: &[(&'static str, Figure)]) -> String {
    let texts = figures.iter().map(|(name, figure)| match figure {
        Figure::Count(count) => format!(" {name}={count}"),
        Figure::Number(number) => format!(" {name}={number:.2}"),
        Figure::Group(parts) => {
            parts.iter().map(|(part, number)| format!(" {name}.{part}={number:.2}")).collect()
        }
    });
    texts.collect()
}

fn json_line(row: &Row) -> String {
    serde_json::to_string(row).expect("numbers and names make JSON")
}

fn row(bench: &Bench, on: Engine, cost: &Cost) -> Row {
    let workload = bench.workload();
    let mut fields =
        vec![("workload", workload.name().into()), ("params", object(params(workload, on)))];
    fields.extend(workload.words().into_iter().map(|(name, word)| (name, word.into())));
    fields.extend([
        ("on", on.name().into()),
        ("workers", bench.workers().into()),
        ("seconds", cost.time.as_secs_f64().into()),
        ("ops", ops(workload, cost).into()),
        ("per_op_ns", per_op_ns(workload, cost).into()),
        ("cpu_s", whole_nanoseconds(cost.cpu_s).into()),
    ]);
    if let Some(memory) = cost.memory {
        fields.push(("rss_bytes_per_strand", memory.rss_bytes_per_strand.into()));
        fields.push(("pte_bytes_per_strand", memory.pte_bytes_per_strand.into()));
    }
    fields.extend(note(workload, on).map(|note| ("note", note.into())));
    fields.extend(cost.figures.iter().map(|(name, figure)| (*name, value(figure))));
    Row(fields)
}

/// ` on=hybrid workers=2`, for the lines of sweeps.
fn engine_text(bench: &Bench, on: Engine) -> String {
    let noun = if on == Engine::Processes { "processes" } else { "workers" };
    let workers = bench.workers().map(|count| format!(" {noun}={count}")).unwrap_or_default();
    format!(" on={}{workers}", on.name())
}

fn text_line(bench: &Bench, options: &RunOptions, cost: &Cost) -> String {
    let (workload, on) = (bench.workload(), options.on);
    let engine = if options.member.sweep { engine_text(bench, on) } else { String::new() };
    let numbers = workload.numbers().into_iter().map(|(_, value)| format!(" {value}"));
    let numbers: String = numbers.collect();
    let pass = match workload {
        Workload::Feed(feed) => feed.pass.map(|pass| ("pass", pass.name())),
        _ => None,
    };
    let words = workload.words().into_iter().chain(pass).map(|(_, word)| format!(" {word}"));
    let words: String = words.collect();
    let (name, per_op_ns) = (workload.name(), per_op_ns(workload, cost));
    let note = note(workload, on).map(|note| format!(" ({note})")).unwrap_or_default();
    let memory = cost.memory.map(|memory| format!(" rss_kb={}", memory.rss_kb));
    format!(
        "{name}{numbers}{words}{engine} seconds={:.6} per_op_ns={per_op_ns:.2}{}{}{note}",
        cost.time.as_secs_f64(),
        memory.unwrap_or_default(),
        figures_text(&cost.figures)
    )
}
