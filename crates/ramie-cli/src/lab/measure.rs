//! Measures one point in a child process, so a crash or a hang loses only that point.

use std::{
    env, fs,
    io::Read,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde::{Deserialize, Serialize};

use super::{interrupt::Interrupt, plan::Point};

/// The fields of one repetition's JSON that the report uses.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Reading {
    pub(super) seconds: f64,
    pub(super) ops: u64,
    pub(super) per_op_ns: f64,
    pub(super) cpu_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rss_bytes_per_strand: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pte_bytes_per_strand: Option<f64>,
}

/// Why there is no reading.
#[derive(Debug)]
pub(super) enum MeasureError {
    /// The user ended the lab.
    Interrupted,
    Failed(String),
}

/// How often the wait looks at the flag that Ctrl-C sets.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Measures a point, `repeat` times in one process; each process may run for `limit`.
pub(super) fn measure(
    point: &Point,
    repeat: u32,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<Vec<Reading>, MeasureError> {
    if point.workload.wants_fresh_process() {
        // The first process pays for memory that a virtual machine does not have yet.
        run(point, 1, limit, interrupt)?;
    }
    let output = run(point, repeat, limit, interrupt)?;
    let readings: Result<Vec<_>, _> = output.lines().map(serde_json::from_str).collect();
    readings.map_err(|error| MeasureError::Failed(format!("it printed no readings: {error}")))
}

fn run(
    point: &Point,
    repeat: u32,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<String, MeasureError> {
    let mut child = start(point, repeat).map_err(|error| failed("cannot be started", &error))?;
    let ended = wait(&child, limit, interrupt);
    if ended.is_err() {
        // The child may have ended meanwhile; then there is nothing to kill.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| failed("cannot be waited for", &error))?;
    ended?;
    let read = |pipe: Option<&mut dyn Read>| {
        let mut text = String::new();
        pipe.map(|pipe| pipe.read_to_string(&mut text));
        text
    };
    let output = read(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
    if status.success() {
        return Ok(output);
    }
    let complaint = read(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
    let reason = complaint.lines().next().map(|line| line.trim_start_matches("ramie: "));
    Err(MeasureError::Failed(match (reason, status.signal()) {
        (_, Some(signal)) => format!("it was killed by signal {signal}"),
        (Some(reason), None) => reason.to_owned(),
        (None, None) => format!("it ended with {status} and printed no reason"),
    }))
}

fn failed(problem: &str, error: &dyn std::fmt::Display) -> MeasureError {
    MeasureError::Failed(format!("the process {problem}: {error}"))
}

fn start(point: &Point, repeat: u32) -> std::io::Result<Child> {
    Command::new(own_program()?)
        .arg("run")
        .args(point.workload.arguments())
        .args(["--on", point.on.name(), "--repeat", &repeat.to_string(), "--json", "--fresh"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// The running program itself, even if a newer build has replaced its file meanwhile.
fn own_program() -> std::io::Result<std::path::PathBuf> {
    let own = std::path::PathBuf::from("/proc/self/exe");
    if fs::metadata(&own).is_ok() { Ok(own) } else { env::current_exe() }
}

/// Waits until the child ends, for `limit` at most, without keeping a CPU busy.
fn wait(child: &Child, limit: Duration, interrupt: &Interrupt) -> Result<(), MeasureError> {
    let pid = Pid::from_child(child);
    let ended = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| failed("cannot be watched", &error))?;
    let started = Instant::now();
    let interval = Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL.subsec_nanos().into() };
    loop {
        let mut watched = [PollFd::new(&ended, PollFlags::IN)];
        // If a signal interrupts the poll, the flag may be set already.
        let ready = poll(&mut watched, Some(&interval)).unwrap_or(0);
        if ready > 0 {
            return Ok(());
        }
        if interrupt.is_requested() {
            return Err(MeasureError::Interrupted);
        }
        if started.elapsed() >= limit {
            let seconds = limit.as_secs_f64();
            return Err(MeasureError::Failed(format!("it had not ended after {seconds:.1} s")));
        }
    }
}
