//! The process that is inspected: asks it for summaries and for single strands.

use std::time::Duration;

use super::{answer::SummaryAnswer, view::ProcessView};
use crate::{dump, failure::Failure};

/// The most bytes of a summary, and of one strand. Both are far smaller; a process that answers
/// more is not one of Ramie.
const MOST: usize = 16 * 1024 * 1024;
const REQUEST: &str = "summary json";

/// A process, and its last answer, from which loads and rates are computed.
pub(crate) struct Source {
    pid: u32,
    limit: Duration,
    last: Option<SummaryAnswer>,
}

impl Source {
    pub(crate) fn new(pid: u32, limit: Duration) -> Source {
        Source { pid, limit, last: None }
    }

    /// Asks for the next view.
    pub(crate) fn view(&mut self) -> Result<ProcessView, Failure> {
        let text = match &self.last {
            // A process that has never answered was never there.
            None => dump::fetch(self.pid, REQUEST, self.limit, MOST),
            Some(_) => fetch(self.pid, REQUEST, self.limit),
        }?;
        let answer: SummaryAnswer = serde_json::from_str(&text).map_err(|error| {
            Failure::other(format!(
                "process {} gave a summary that cannot be read ({error}); use the program `ramie` \
                 of the version with which the process was built",
                self.pid
            ))
        })?;
        let view = ProcessView::of(&answer, self.last.as_ref());
        self.last = Some(answer);
        Ok(view)
    }
}

fn fetch(pid: u32, request: &str, limit: Duration) -> Result<String, Failure> {
    dump::fetch(pid, request, limit, MOST).map_err(|failure| {
        // An answer that was cut off has the same reason.
        if dump::command_of(pid).is_none() { ended(pid) } else { failure }
    })
}

/// The failure for a process that has ended.
pub(crate) fn ended(pid: u32) -> Failure {
    Failure::other(format!("process {pid} has ended"))
}

/// Asks a process for the text of one strand, with its calls.
pub(crate) fn strand(pid: u32, id: &str, limit: Duration) -> Result<String, Failure> {
    let text = fetch(pid, &format!("strand text {id}"), limit)?;
    // The strand follows the workers, behind an empty line.
    let strand = text.split_once("\n\n").map_or(&text[..], |(_, strand)| strand);
    Ok(strand.trim_end().to_owned())
}
