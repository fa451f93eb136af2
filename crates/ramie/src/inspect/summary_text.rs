//! The text of a summary: the workers, the places of waits, the slowest waits, the stalls.

use std::fmt;

use ramie_driver::visible;

use super::{
    StallSummary, Summary, WaitPlace, WorkerStatus, WorkerSummary,
    display::{Label, Quantified, Short, write_purpose},
};
use crate::fiber::FiberId;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = &self.states;
        writeln!(
            f,
            "process {}: {} ({} running, {} runnable, {} waiting, {} not started), {}",
            self.process,
            Quantified(states.total(), "strand"),
            states.running,
            states.runnable,
            states.waiting,
            states.not_started,
            Quantified(self.workers.len() as u64, "worker")
        )?;
        for worker in &self.workers {
            writeln!(f, "{worker}")?;
        }
        self.write_places(f)?;
        self.write_slowest(f)?;
        if !self.stalls.is_empty() {
            writeln!(f, "\nstalls, the newest first:")?;
        }
        self.stalls.iter().try_for_each(|stall| writeln!(f, "  {stall}"))
    }
}

impl Summary {
    fn write_places(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.places.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nwaits by place:")?;
        for place in &self.places {
            writeln!(f, "  {place}")?;
        }
        match self.waiting_elsewhere {
            0 => Ok(()),
            strands => writeln!(f, "  {} at further places", Quantified(strands, "strand")),
        }
    }

    fn write_slowest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.slowest.is_empty() {
            return Ok(());
        }
        let label = |id: &FiberId| {
            let slowest = self.slowest.iter().find(|strand| strand.id == *id).map(Label::of);
            let awaited = || self.awaited.iter().find(|s| s.id == *id).map(Label::named);
            let label = slowest.or_else(awaited);
            label.map_or_else(|| format!("strand {id}"), |label| label.to_string())
        };
        writeln!(f, "\nslowest waits:")?;
        for strand in &self.slowest {
            let Some(wait) = &strand.wait else { continue };
            write!(f, "  {} waits for ", Label::of(strand))?;
            write_purpose(f, wait, &label)?;
            write!(f, " since {}", Short(wait.since))?;
            writeln!(f, "\n      at {}", wait.location)?;
        }
        Ok(())
    }
}

impl fmt::Display for WorkerSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "worker {index}")?,
            None => write!(f, "thread")?,
        }
        let name = visible::line(self.thread_name.as_deref().unwrap_or("unnamed"));
        let fibers = Quantified(self.fibers as u64, "fiber");
        write!(f, " ({name}, thread id {}), {fibers}", self.thread_id)?;
        write!(f, ", {} runnable, {} waiting", self.runnable, self.waiting)?;
        if let Some(length) = self.run_queue {
            write!(f, ", {length} in the run queue")?;
        }
        if let Some(cpu) = self.cpu {
            write!(f, ", {} of CPU time", Short(cpu))?;
        }
        match self.status {
            WorkerStatus::Complete => Ok(()),
            WorkerStatus::OutsideLoop => f.write_str(": runs code outside of waits"),
            WorkerStatus::Silent => f.write_str(
                ": has not counted all its strands within a second; it may run a fiber that does \
                 not suspend",
            ),
        }
    }
}

impl fmt::Display for WaitPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strands = Quantified(self.strands, "strand");
        let (purpose, longest) = (self.purpose, Short(self.longest));
        write!(f, "{strands} for {purpose}, the longest since {longest}, at {}", self.location)
    }
}

impl fmt::Display for StallSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fiber, lasted) = (visible::line(&self.fiber), Short(self.lasted));
        let for_how_long = if self.has_ended { "for" } else { "for at least" };
        write!(
            f,
            "{} ago, {fiber} kept worker {} {for_how_long} {lasted}: {}",
            Short(self.ago),
            self.worker,
            visible::line(&self.cause)
        )
    }
}
