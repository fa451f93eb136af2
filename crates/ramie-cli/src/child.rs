//! Runs this program in a child process, so a crash or a hang of one measurement loses only that
//! measurement.

use std::{
    env, fs,
    io::{self, Read},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use crate::{
    counters::{self, UsedByProcess},
    interrupt::Interrupt,
};

/// Why a child process has no output.
#[derive(Debug)]
pub(crate) enum ChildError {
    /// The user ended the program.
    Interrupted,
    Failed(String),
}

/// How often the wait checks the flag that Ctrl-C sets.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs this program in a child process with these arguments, for `limit` at most, and returns the
/// child's output. The child process may use only `cpu`, or all CPUs if `cpu` is `None`.
pub(crate) fn output_on(
    cpu: Option<usize>,
    arguments: &[String],
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<String, ChildError> {
    let own = own_program().map_err(|error| failed("cannot be started", &error))?;
    output_of(&own, cpu, arguments, limit, interrupt)
}

/// Runs a program as [`output_on`] runs this one.
pub(crate) fn output_of(
    program: &Path,
    cpu: Option<usize>,
    arguments: &[String],
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<String, ChildError> {
    counted_output_of(program, cpu, arguments, limit, interrupt).map(|(output, _)| output)
}

/// Runs a program as [`output_of`] does, and returns the kernel's counts for it, too.
pub(crate) fn counted_output_of(
    program: &Path,
    cpu: Option<usize>,
    arguments: &[String],
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<(String, UsedByProcess), ChildError> {
    let started = start(program, cpu, arguments);
    let mut child = started.map_err(|error| failed("cannot be started", &error))?;
    let ended = wait(&child, limit, interrupt);
    if ended.is_err() {
        // The child may have ended meanwhile; then there is nothing to kill.
        let _ = child.kill();
    }
    let waited = counters::wait_for(&child);
    let (status, used) = waited.map_err(|error| failed("cannot be waited for", &error))?;
    ended?;
    let read = |pipe: Option<&mut dyn Read>| {
        let mut text = String::new();
        pipe.map(|pipe| pipe.read_to_string(&mut text));
        text
    };
    let output = read(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
    if status.success() {
        return Ok((output, used));
    }
    // A terminal sends the signal of Ctrl-C to the child, too.
    if is_ended_by_user(status.signal()) && interrupt.is_requested_within(POLL_INTERVAL) {
        return Err(ChildError::Interrupted);
    }
    let complaint = read(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
    let reason = complaint.lines().next().map(|line| line.trim_start_matches("ramie: "));
    Err(ChildError::Failed(match (reason, status.signal()) {
        (_, Some(signal)) => format!("it was killed by signal {signal}"),
        (Some(reason), None) => reason.to_owned(),
        (None, None) => format!("it ended with {status} and printed no reason"),
    }))
}

fn is_ended_by_user(signal: Option<i32>) -> bool {
    let by_user = [Signal::INT, Signal::TERM].map(Signal::as_raw);
    signal.is_some_and(|signal| by_user.contains(&signal))
}

fn failed(problem: &str, error: &dyn std::fmt::Display) -> ChildError {
    ChildError::Failed(format!("the process {problem}: {error}"))
}

fn start(program: &Path, cpu: Option<usize>, arguments: &[String]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Some(cpu) = cpu else { return command.spawn() };
    // The child inherits the affinity of this thread, so the thread's own is changed before the
    // start and restored after it.
    let allowed = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one)?;
    let child = command.spawn();
    sched_setaffinity(None, &allowed)?;
    child
}

/// The running program itself, even if a newer build has replaced its file meanwhile.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if fs::metadata(&own).is_ok() { Ok(own) } else { env::current_exe() }
}

/// Waits until the child ends, for `limit` at most, without keeping a CPU busy.
fn wait(child: &Child, limit: Duration, interrupt: &Interrupt) -> Result<(), ChildError> {
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
            return Err(ChildError::Interrupted);
        }
        if started.elapsed() >= limit {
            let seconds = limit.as_secs_f64();
            return Err(ChildError::Failed(format!(
                "it was stopped, because it had not ended after {seconds:.1} s"
            )));
        }
    }
}
