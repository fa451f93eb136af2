//! How processes ended.

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
    /// Nothing: the process was done.
    Done,
    /// Nothing: it was asked to end.
    Asked,
    /// Nothing: it was asked to end, did not in time, and was killed.
    Killed,
    /// It is started again, so much later.
    Again(Duration),
    /// Its successor is there already.
    Succeeded,
    /// It was to succeed another, which stays.
    Stays,
    /// It ended once too often: all are asked to end.
    GaveUp,
}

impl End {
    /// Returns the process's index: 0 to the number of processes - 1.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the id that the process had.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns its exit code, or the signal that it died of.
    #[must_use]
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    /// Returns whether it was asked to end.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        matches!(self.after, After::Asked | After::Killed)
    }

    /// Returns whether it failed: if it was not asked to end, by anything but the exit code 0; if
    /// it was, by anything but that or the SIGTERM by which it was asked.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        let is_asked_way = self.after == After::Asked && self.status.signal() == Some(SIGTERM);
        !self.status.success() && !is_asked_way
    }

    /// Returns the pause before it is started again, if it is.
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
            After::Killed => f.write_str(": it was asked to end, and did not in time"),
            After::Again(pause) => write!(f, "; it is started again in {pause:?}"),
            After::Succeeded => f.write_str("; its successor goes on"),
            After::Stays => f.write_str(" before it was ready; the one before it goes on"),
            After::GaveUp => f.write_str("; that was once too often"),
        }
    }
}

/// How all processes ended; the value of [`prefork`](super::prefork). As the value of `main` it is
/// success if all of them ended well.
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
    /// started again when all were.
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
