//! The types of a runtime's options, and the checks of their values.

use std::{env, io, sync::Arc};

use crate::core::worker::{AbandonedFiber, invalid};

// Same name as `ramie_driver::Driver`: the option that selects it.
/// Selects the kernel interface that a runtime's I/O uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Driver {
    /// io_uring if a trial shows that it works here, otherwise readiness polling.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// Readiness polling (epoll).
    Poll,
}

/// The kind of a program's strands: `fiber::spawn`, `fiber::scope` and `run` run their closures on
/// strands of this kind. The same program has the same meaning on either kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strands {
    /// Fibers, on as many workers as the runtime has: one, or several (a hybrid).
    #[default]
    Fibers,
    /// OS threads: each spawn makes a thread. `spawn_local` still makes a fiber, which runs while
    /// its thread waits, because the closure cannot move to another thread.
    Threads,
}

/// Describes the fibers that had not ended when the grace period was over.
#[derive(Debug, Clone, Default)]
pub struct AbandonedFibers {
    pub(super) lines: Arc<[String]>,
}

impl AbandonedFibers {
    pub(super) fn of(fibers: &[AbandonedFiber]) -> AbandonedFibers {
        AbandonedFibers { lines: AbandonedFiber::lines(fibers).collect() }
    }

    /// Returns the number of these fibers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lines.len()
    }

    /// Describes each fiber: its name, its wait with the object and the place in the source, and
    /// the closure that it ran. A thread is described by its name only.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

pub(super) fn in_range(name: &str, value: usize, least: usize, most: usize) -> io::Result<usize> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(invalid(format!("{name} is {value}, but must be between {least} and {most}")))
}

pub(super) fn strands_from_env() -> io::Result<Option<Strands>> {
    const VARIABLE: &str = "RAMIE_STRANDS";
    let Some(value) = env::var_os(VARIABLE) else { return Ok(None) };
    match value.to_string_lossy().trim() {
        "" => Ok(None),
        "fibers" => Ok(Some(Strands::Fibers)),
        "threads" => Ok(Some(Strands::Threads)),
        _ => Err(invalid(ramie_driver::invalid_value(VARIABLE, &value, "fibers or threads"))),
    }
}
