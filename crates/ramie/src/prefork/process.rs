//! The supervisor's record of one process, and the reasons why one cannot be started.

use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use ramie_driver::sys::{
    self,
    supervise::{self, Pid},
};

/// How far off an instant is that stands for "never": in a hundred years. Added to the present, it
/// is an instant on any clock, and a time that poll(2) takes.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

pub(super) struct Process {
    pub(super) id: Pid,
    pub(super) post: usize,
    pub(super) since: Instant,
    pub(super) role: Role,
    /// Readable once the process has reported that it is ready.
    pub(super) ready: OwnedFd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Serving,
    Successor,
    Leaving { until: Instant, is_killed: bool },
}

impl Process {
    pub(super) fn has_said_ready(&self) -> bool {
        sys::poll_now(&self.ready, sys::POLL_IN).is_ok_and(|events| events & sys::POLL_IN != 0)
    }

    pub(super) fn ask_to_leave(&mut self, grace: Duration) {
        if !matches!(self.role, Role::Leaving { .. }) {
            supervise::ask_to_end(self.id);
            self.role = Role::Leaving { until: later(grace), is_killed: false };
        }
    }

    pub(super) fn kill(&mut self) {
        supervise::kill(self.id);
        self.role = Role::Leaving { until: Instant::now(), is_killed: true };
    }
}

/// Returns the present plus a duration that the program chose, which may be `Duration::MAX`.
pub(super) fn later(by: Duration) -> Instant {
    Instant::now() + by.min(NEVER)
}

/// Adds the reason and the remedy to the kernel's refusal of a process or of a descriptor for it.
pub(super) fn with_remedy(error: io::Error) -> io::Error {
    let (why, remedy) = match error.raw_os_error() {
        Some(libc::EMFILE) => {
            ("this one is out of descriptors", "raise `ulimit -n`, or close some of them first")
        }
        Some(libc::ENFILE) => ("the system is out of descriptors", "raise the sysctl fs.file-max"),
        Some(libc::EAGAIN) => (
            "the user, the cgroup or the system has as many processes and threads as it may have",
            "raise `ulimit -u`, pids.max of the cgroup, or the sysctl kernel.threads-max",
        ),
        Some(libc::ENOMEM) => ("memory is short", "free memory, or raise the memory limit"),
        // An error that has its sentence already, or one that no known kernel gives.
        _ => return error,
    };
    let sentence = format!("no process could be forked, since {why} ({error}); {remedy}");
    io::Error::new(error.kind(), sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_kernel_has_the_remedy_of_its_cause() {
        for (errno, remedy) in [
            (libc::EMFILE, "ulimit -n"),
            (libc::ENFILE, "fs.file-max"),
            (libc::EAGAIN, "ulimit -u"),
            (libc::ENOMEM, "memory limit"),
        ] {
            let error = with_remedy(io::Error::from_raw_os_error(errno));
            assert_eq!(error.kind(), io::Error::from_raw_os_error(errno).kind());
            assert!(error.to_string().contains(remedy), "{error}");
        }
        let own = io::Error::new(io::ErrorKind::InvalidInput, "it has 2 threads");
        assert_eq!(with_remedy(own).to_string(), "it has 2 threads");
    }
}
