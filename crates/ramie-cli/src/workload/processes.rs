//! The engine `processes`: several processes, each of which runs its share of the strands on one
//! worker of fibers.
//!
//! | the parent | a member |
//! |---|---|
//! | starts the members | prepares its share, then prints `ready`, and perhaps a note |
//! | once all are ready, writes a byte to the standard input of each | begins |
//! | of `http`: closes the standard inputs | stops its clocks, then prints `stopped` |
//! | reads the reports and merges them | prints its report as one line of JSON and ends |
//!
//! A member that ends early is named in the error, and the others are killed. The kernel kills a
//! member whose parent ends, so nothing is left after a Ctrl-C.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};

use ramie_workloads::{WorkloadError, http::STOPPED};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    child,
    counters::{self, OfMember},
    failure::Failure,
    output,
};

/// The word that a member prints when its strands wait for the start.
const READY: &str = "ready";
/// The byte by which the parent starts a member.
const START: u8 = b'!';

/// Member processes that wait for the start.
pub(super) struct Members(Vec<Member>);

/// A member process, or another one that prints `ready` and waits; killed when dropped.
pub(super) struct Member {
    name: String,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The text that it printed after `ready`.
    note: String,
}

impl Members {
    /// Starts a member with each of these command lines, and waits until all are ready.
    pub(super) fn start(command_lines: &[Vec<String>]) -> Result<Self, Failure> {
        let of = command_lines.len();
        let start = |(number, arguments): (usize, &Vec<String>)| {
            let name = format!("process {} of {of}", number + 1);
            Member::start(&name, arguments, "ask for fewer --processes")
        };
        let members: Result<Vec<_>, _> = command_lines.iter().enumerate().map(start).collect();
        let mut members = members?;
        for member in &mut members {
            member.await_ready()?;
        }
        Ok(Members(members))
    }

    /// Starts the work of all members and returns their shares, in the order in which they came.
    /// Their counters are added to those of this process.
    pub(super) fn run<T: DeserializeOwned>(mut self) -> Result<Vec<T>, Failure> {
        self.begin();
        self.finish()
    }

    /// Starts the work of all members.
    pub(super) fn begin(&mut self) {
        self.0.iter_mut().for_each(Member::begin);
    }

    /// Closes the standard input of all members, which run `http`, and waits until their clocks
    /// have stopped.
    pub(super) fn stop_clocks(&mut self) -> Result<(), Failure> {
        self.0.iter_mut().for_each(Member::close_input);
        for member in &mut self.0 {
            if member.line()?.trim_end() != STOPPED {
                return Err(member.failure());
            }
        }
        Ok(())
    }

    /// Closes the standard input of all members and returns their reports, in the order in which
    /// they came.
    pub(super) fn finish<T: DeserializeOwned>(mut self) -> Result<Vec<T>, Failure> {
        self.0.iter_mut().for_each(Member::close_input);
        let mut shares = Vec::with_capacity(self.0.len());
        while !self.0.is_empty() {
            for index in self.readable(None)? {
                let Report { share, counters } = self.0[index].report()?;
                counters.into_iter().for_each(counters::add_member);
                shares.push(share);
                self.0.remove(index);
            }
        }
        Ok(shares)
    }

    /// Returns the texts that the members printed after `ready`.
    pub(super) fn notes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|member| member.note.as_str())
    }

    /// The reason why a member has ended, if one ends within `time`.
    pub(super) fn failure_within(&mut self, time: Duration) -> Option<Failure> {
        let ended = self.readable(Some(time)).ok()?;
        ended.into_iter().find_map(|index| match self.0[index].line() {
            // A report, so this member has not failed.
            Ok(line) if !line.is_empty() => None,
            _ => Some(self.0[index].failure()),
        })
    }

    /// Waits until members have printed something or ended, for `limit` at most. The last one is
    /// the first in the list.
    fn readable(&self, limit: Option<Duration>) -> Result<Vec<usize>, Failure> {
        let outputs = self.0.iter().map(|member| member.output.get_ref());
        let mut watched: Vec<_> =
            outputs.map(|output| PollFd::new(output, PollFlags::IN)).collect();
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        match poll(&mut watched, limit.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => {
                return Err(Failure::other(format!("cannot wait for the processes ({error})")));
            }
        }
        let ready = watched.iter().map(|watched| !watched.revents().is_empty()).enumerate();
        Ok(ready.rev().filter_map(|(index, is_ready)| is_ready.then_some(index)).collect())
    }
}

impl Member {
    /// Starts this program with these arguments. `cure` is the advice if that fails.
    pub(super) fn start(name: &str, arguments: &[String], cure: &str) -> Result<Self, Failure> {
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::other(format!("cannot start {name} ({error}); {cure}"))
        };
        let process = child::own_program().and_then(|program| {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
            command.stderr(Stdio::piped()).spawn()
        });
        let mut process = process.map_err(|error| cannot(&error))?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or_else(|| cannot(&"it has no pipe"))?;
        Ok(Member {
            name: name.to_owned(),
            process,
            input,
            output: BufReader::new(output),
            note: String::new(),
        })
    }

    /// Waits until it is ready.
    pub(super) fn await_ready(&mut self) -> Result<(), Failure> {
        let line = self.line()?;
        let Some(note) = line.trim_end().strip_prefix(READY) else { return Err(self.failure()) };
        self.note = note.trim_start().to_owned();
        Ok(())
    }

    /// Copies of the pipes from it and to it.
    pub(super) fn pipes(&self) -> io::Result<[OwnedFd; 2]> {
        let input = self.input.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok([
            self.output.get_ref().as_fd().try_clone_to_owned()?,
            input.as_fd().try_clone_to_owned()?,
        ])
    }

    /// Starts its work.
    pub(super) fn begin(&mut self) {
        // If it has ended, `report` finds the reason.
        let _ = self.input.as_mut().map(|input| input.write_all(&[START]));
    }

    /// Closes its standard input.
    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    /// The next line of its output; empty if it has ended.
    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.map_err(|error| self.named(&format!("cannot be read from ({error})")))?;
        Ok(line)
    }

    pub(super) fn report<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|_| self.failure())
    }

    /// The reason why it ended without a report.
    pub(super) fn failure(&mut self) -> Failure {
        let mut complaint = String::new();
        if let Some(stderr) = &mut self.process.stderr {
            let _ = stderr.read_to_string(&mut complaint);
        }
        let complaint = complaint.lines().next().map(|line| line.trim_start_matches("ramie: "));
        let signal = self.process.wait().ok().as_ref().and_then(ExitStatus::signal);
        match (complaint, signal) {
            (_, Some(signal)) => self.named(&format!(
                "was killed by signal {signal}; if memory ran out, ask for fewer strands"
            )),
            (Some(complaint), None) => self.named(&format!("failed: {complaint}")),
            (None, None) => self.named("ended without a report; please report this"),
        }
    }

    fn named(&self, problem: &str) -> Failure {
        Failure::other(format!("{} (id {}) {problem}", self.name, self.process.id()))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reports that this member is ready and waits for the start.
pub(crate) fn await_start() -> Result<(), WorkloadError> {
    let ended = |error: &dyn std::fmt::Display| {
        WorkloadError::new(format!("the process that started this one has ended ({error})"))
    };
    output::line(READY).map_err(|error| ended(&error))?;
    let mut start = [0];
    io::stdin().read_exact(&mut start).map_err(|error| ended(&error))
}

/// Waits until the process that started this one writes a byte or closes its pipe.
pub(super) fn await_byte() {
    // The end of the pipe is an error here.
    let _ = io::stdin().read_exact(&mut [0]);
}

/// Reports that this member is ready, with a note for the parent.
pub(super) fn report_ready(note: &str) -> Result<(), Failure> {
    output::line(&format!("{READY} {note}"))
}

/// The line that a member prints at its end.
#[derive(Serialize, Deserialize)]
struct Report<T> {
    share: T,
    counters: Option<OfMember>,
}

/// Prints the report of this member, with its counters if it counts.
pub(crate) fn report(share: &impl Serialize) -> Result<(), Failure> {
    print(&Report { share, counters: counters::of_this_member() })
}

/// Prints a report as one line.
pub(super) fn print(report: &impl Serialize) -> Result<(), Failure> {
    output::line(&serde_json::to_string(report).expect("numbers make JSON"))
}

/// The number of processes if the command line has none: one per CPU, at least 2.
pub(super) fn default_count() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    u32::try_from(cpus).unwrap_or(u32::MAX).max(2)
}
