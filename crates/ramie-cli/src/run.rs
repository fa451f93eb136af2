//! `ramie run`: runs one workload several times and prints one line per repetition.

use std::{
    collections::BTreeMap,
    env,
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
};

use serde::Serialize;

use crate::{
    arguments::{Run, RunOptions},
    failure::Failure,
    output,
    workload::{Bench, Cost, Engine, TaskCall, Workload},
};

/// The JSON object that `--json` prints for each repetition.
#[derive(Serialize)]
struct Row {
    workload: &'static str,
    params: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<&'static str>,
    on: Engine,
    workers: Option<usize>,
    seconds: f64,
    ops: u64,
    per_op_ns: f64,
    cpu_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rss_bytes_per_strand: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pte_bytes_per_strand: Option<f64>,
}

pub(crate) fn run(run: &Run) -> Result<(), Failure> {
    let (workload, options) = (&run.workload, &run.options);
    if let Some(workers) = options.workers {
        options.on.check_workers(workers)?;
    }
    if workload.wants_fresh_process() && !options.fresh {
        return run_in_fresh_processes(workload, options);
    }
    let bench = Bench::new(*workload, options.on, options.workers)?;
    for _ in 0..options.repeat {
        let cost = bench.cost()?;
        let line = match options.json {
            true => json_line(&bench, options.on, &cost),
            false => text_line(workload, &cost),
        };
        output::line(&line)?;
    }
    Ok(())
}

fn per_op_ns(workload: &Workload, cost: &Cost) -> f64 {
    cost.time.as_secs_f64() * 1e9 / workload.ops() as f64
}

fn json_line(bench: &Bench, on: Engine, cost: &Cost) -> String {
    let workload = bench.workload();
    let row = Row {
        workload: workload.name(),
        params: workload.numbers().into_iter().collect(),
        call: workload.call().map(TaskCall::name),
        on,
        workers: bench.workers(),
        seconds: cost.time.as_secs_f64(),
        ops: workload.ops(),
        per_op_ns: per_op_ns(workload, cost),
        cpu_s: cost.cpu_s,
        rss_bytes_per_strand: cost.memory.map(|memory| memory.rss_bytes_per_strand),
        pte_bytes_per_strand: cost.memory.map(|memory| memory.pte_bytes_per_strand),
    };
    serde_json::to_string(&row).expect("numbers and names make JSON")
}

fn text_line(workload: &Workload, cost: &Cost) -> String {
    let numbers = workload.numbers().into_iter().map(|(_, value)| format!(" {value}"));
    let numbers: String = numbers.collect();
    let call = workload.call().map(|call| format!(" {}", call.name())).unwrap_or_default();
    let (name, per_op_ns) = (workload.name(), per_op_ns(workload, cost));
    let memory = cost.memory.map(|memory| format!(" rss_kb={}", memory.rss_kb));
    format!(
        "{name}{numbers}{call} seconds={:.6} per_op_ns={per_op_ns:.2}{}",
        cost.time.as_secs_f64(),
        memory.unwrap_or_default()
    )
}

/// Runs each repetition in a new process, and one more before them whose line is not printed: that
/// one pays for memory that a virtual machine does not have yet.
fn run_in_fresh_processes(workload: &Workload, options: &RunOptions) -> Result<(), Failure> {
    run_in_fresh_process(workload, options, Stdio::null())?;
    for _ in 0..options.repeat {
        run_in_fresh_process(workload, options, Stdio::inherit())?;
    }
    Ok(())
}

fn run_in_fresh_process(
    workload: &Workload,
    options: &RunOptions,
    stdout: Stdio,
) -> Result<(), Failure> {
    let cannot =
        |error| Failure::other(format!("cannot start a fresh process: {error}; try again"));
    let mut command = Command::new(env::current_exe().map_err(cannot)?);
    command.arg("run").args(workload.arguments()).args(["--on", options.on.name(), "--fresh"]);
    if let Some(workers) = options.workers {
        command.args(["--workers", &workers.to_string()]);
    }
    if options.json {
        command.arg("--json");
    }
    verdict(command.stdout(stdout).status().map_err(cannot)?)
}

fn verdict(status: ExitStatus) -> Result<(), Failure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        // The child has printed the reason on the stderr that both processes share.
        (Some(code), _) => Err(Failure::already_reported(u8::try_from(code).unwrap_or(1))),
        (None, signal) => Err(Failure::other(format!(
            "the process that ran the workload was killed by signal {}, perhaps because memory \
             ran out; ask for fewer strands",
            signal.unwrap_or_default()
        ))),
    }
}
