//! The ends of processes, and their consequences.

use std::{
    fmt,
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus, Termination},
    time::Duration,
};

const SIGTERM: i32 = 15;

/// The end of one process.
#[derive(Debug, Clone)]
pub struct End {
    pub(super) index: usize,
    pub(super) id: u32,
    pub(super) status: ExitStatus,
    pub(super) after: After,
}

/// The consequence of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// None: the process was done.
    Done,
    /// None: the process was asked to end.
    Asked,
    /// None: the process was asked to end, did not end in time, and was killed.
    Killed,
    /// The process is started again after this pause.
    Again(Duration),
    /// None: the successor of the process is in service already.
    Succeeded,
    /// None: the process failed before it could replace another, which stays in service.
    Stays,
    /// All processes are asked to end, because this end exceeded the limit.
    GaveUp,
}

impl End {
    /// Returns the process's index: 0 to the number of processes - 1.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the process's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the process's exit code, or the signal that killed it.
    #[must_use]
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    /// Returns whether the process was asked to end.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        matches!(self.after, After::Asked | After::Killed)
    }

    /// Returns whether the process failed. An end with exit code 0 is no failure; nor is an end by
    /// SIGTERM, if the supervisor asked the process to end by SIGTERM.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        let is_asked_way = self.after == After::Asked && self.status.signal() == Some(SIGTERM);
        !self.status.success() && !is_asked_way
    }

    /// Returns the pause before the process is started again, if it is.
    #[must_use]
    pub fn restarts_in(&self) -> Option<Duration> {
        match self.after {
            After::Again(pause) => Some(pause),
            _ => None,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} (id {}) has ended ({})", self.index, self.id, self.status)?;
        match self.after {
            After::Done => f.write_str("; it is done"),
            After::Asked => f.write_str(", as it was asked to"),
            After::Killed => f.write_str(": it was asked to end, and did not end in time"),
            After::Again(pause) => write!(f, "; it is started again in {pause:?}"),
            After::Succeeded => f.write_str("; its successor continues"),
            After::Stays => f.write_str(" before it was ready; the process before it continues"),
            After::GaveUp => f.write_str("; that exceeds the limit of ends"),
        }
    }
}

/// Describes how all processes ended; returned by [`prefork`](super::prefork). If `main` returns
/// it, the program succeeds if all processes ended well.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub(super) ends: Vec<End>,
}

impl Report {
    /// Returns the last end of each process, by index.
    #[must_use]
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    /// Returns whether each process was done, ended when it was asked to, or was about to be
    /// started again when all processes were asked to end.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.ends.iter().all(|end| !end.is_failure() || end.restarts_in().is_some())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, end) in self.ends.iter().enumerate() {
            let before = if n == 0 { "" } else { "\n" };
            write!(f, "{before}{end}")?;
        }
        Ok(())
    }
}

impl Termination for Report {
    fn report(self) -> ExitCode {
        if self.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
