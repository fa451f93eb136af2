//! One point, measured in a child process: a crash or a hang of it costs that point only.

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

/// What one repetition printed: the part of it that the report uses.
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
pub(super) enum Mishap {
    /// The user ended the lab.
    Interrupted,
    Failed(String),
}

/// How often the flag that Ctrl-C sets is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// Measures a point, `repeat` times in one process; each process has until `limit`.
pub(super) fn measure(
    point: &Point,
    repeat: u32,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<Vec<Reading>, Mishap> {
    if point.workload.wants_fresh_process() {
        // The first of two processes pays for memory that a virtual machine does not have yet.
        run(point, 1, limit, interrupt)?;
    }
    let output = run(point, repeat, limit, interrupt)?;
    let readings: Result<Vec<_>, _> = output.lines().map(serde_json::from_str).collect();
    readings.map_err(|error| Mishap::Failed(format!("it printed no readings: {error}")))
}

fn run(
    point: &Point,
    repeat: u32,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<String, Mishap> {
    let mut child = start(point, repeat).map_err(|error| failed("cannot be started", &error))?;
    let ended = wait(&child, limit, interrupt);
    if ended.is_err() {
        // It may have ended meanwhile, which is as well.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| failed("cannot be waited for", &error))?;
    ended?;
    let said = |pipe: Option<&mut dyn Read>| {
        let mut text = String::new();
        pipe.map(|pipe| pipe.read_to_string(&mut text));
        text
    };
    let output = said(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
    if status.success() {
        return Ok(output);
    }
    let complaint = said(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
    let reason = complaint.lines().next().map(|line| line.trim_start_matches("ramie: "));
    Err(Mishap::Failed(match (reason, status.signal()) {
        (_, Some(signal)) => format!("it was killed by signal {signal}"),
        (Some(reason), None) => reason.to_owned(),
        (None, None) => format!("it ended with {status} and said nothing"),
    }))
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Mishap {
    Mishap::Failed(format!("the process {what}: {error}"))
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

/// The running program itself, even if its file has been replaced by a newer build meanwhile.
fn own_program() -> std::io::Result<std::path::PathBuf> {
    let own = std::path::PathBuf::from("/proc/self/exe");
    if fs::metadata(&own).is_ok() { Ok(own) } else { env::current_exe() }
}

/// Waits for the end of the child, for `limit` at most, without keeping a CPU busy.
fn wait(child: &Child, limit: Duration, interrupt: &Interrupt) -> Result<(), Mishap> {
    let pid = Pid::from_child(child);
    let ended = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| failed("cannot be watched", &error))?;
    let started = Instant::now();
    let glance = Timespec { tv_sec: 0, tv_nsec: GLANCE.subsec_nanos().into() };
    loop {
        let mut watched = [PollFd::new(&ended, PollFlags::IN)];
        // An interrupted poll is a glance, too.
        let ready = poll(&mut watched, Some(&glance)).unwrap_or(0);
        if ready > 0 {
            return Ok(());
        }
        if interrupt.is_requested() {
            return Err(Mishap::Interrupted);
        }
        if started.elapsed() >= limit {
            let seconds = limit.as_secs_f64();
            return Err(Mishap::Failed(format!("it had not ended after {seconds:.1} s")));
        }
    }
}
