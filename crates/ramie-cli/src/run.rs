//! `ramie run`: one workload, repeated, a line for each repetition.

use std::{
    collections::BTreeMap,
    env,
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
};

use serde::Serialize;

use crate::{
    arguments::{Manner, Run},
    failure::Failure,
    output,
    workload::{Bench, Call, Cost, On, Workload},
};

/// What `--json` prints for each repetition.
#[derive(Serialize)]
struct Row {
    workload: &'static str,
    params: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Call>,
    on: On,
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
    let (workload, manner) = (&run.workload, &run.manner);
    if let Some(workers) = manner.workers {
        manner.on.check_workers(workers)?;
    }
    if workload.wants_fresh_process() && !manner.fresh {
        return run_in_fresh_processes(workload, manner);
    }
    let bench = Bench::new(workload.clone(), manner.on, manner.workers)?;
    for _ in 0..manner.repeat {
        let cost = bench.cost()?;
        let line = match manner.json {
            true => json_line(&bench, manner.on, &cost),
            false => text_line(workload, &cost),
        };
        output::line(&line)?;
    }
    Ok(())
}

fn per_op_ns(workload: &Workload, cost: &Cost) -> f64 {
    cost.seconds * 1e9 / workload.ops() as f64
}

fn json_line(bench: &Bench, on: On, cost: &Cost) -> String {
    let workload = bench.workload();
    let row = Row {
        workload: workload.name(),
        params: workload.numbers().into_iter().collect(),
        call: workload.call(),
        on,
        workers: bench.workers(),
        seconds: cost.seconds,
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
        cost.seconds,
        memory.unwrap_or_default()
    )
}

/// The first process pays for memory that a virtual machine does not have yet: it is not printed.
fn run_in_fresh_processes(workload: &Workload, manner: &Manner) -> Result<(), Failure> {
    run_in_fresh_process(workload, manner, Stdio::null())?;
    for _ in 0..manner.repeat {
        run_in_fresh_process(workload, manner, Stdio::inherit())?;
    }
    Ok(())
}

fn run_in_fresh_process(
    workload: &Workload,
    manner: &Manner,
    stdout: Stdio,
) -> Result<(), Failure> {
    let cannot =
        |error| Failure::other(format!("cannot start a fresh process: {error}; try again"));
    let mut command = Command::new(env::current_exe().map_err(cannot)?);
    command.arg("run").args(workload.arguments()).args(["--on", manner.on.name(), "--fresh"]);
    if let Some(workers) = manner.workers {
        command.args(["--workers", &workers.to_string()]);
    }
    if manner.json {
        command.arg("--json");
    }
    verdict(command.stdout(stdout).status().map_err(cannot)?)
}

fn verdict(status: ExitStatus) -> Result<(), Failure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        // It has said why, on the stderr that it shares with us.
        (Some(code), _) => Err(Failure::already_said(u8::try_from(code).unwrap_or(1))),
        (None, signal) => Err(Failure::other(format!(
            "the process that ran the workload was killed by signal {}, perhaps for want of \
             memory; ask for fewer strands",
            signal.unwrap_or_default()
        ))),
    }
}
