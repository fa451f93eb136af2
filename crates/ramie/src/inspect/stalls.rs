//! The stalls that the watchdogs of this process have reported last.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::StallSummary;

/// The number of stalls that are kept.
const MOST: usize = 32;

/// A stall that was reported.
pub(crate) struct StallRecord {
    pub(crate) fiber: String,
    pub(crate) worker: usize,
    pub(crate) lasted: Duration,
    pub(crate) cause: String,
    pub(crate) closure: &'static str,
}

struct Noted {
    at: Instant,
    record: StallRecord,
    has_ended: bool,
}

/// The newest last.
static STALLS: Mutex<VecDeque<Noted>> = Mutex::new(VecDeque::new());

fn stalls() -> MutexGuard<'static, VecDeque<Noted>> {
    STALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a stall; forgets the oldest if there are many.
pub(crate) fn note_stall(record: StallRecord) {
    let mut stalls = stalls();
    if stalls.len() == MOST {
        stalls.pop_front();
    }
    stalls.push_back(Noted { at: Instant::now(), record, has_ended: false });
}

/// Notes that the last stall of this fiber has ended, and how long it was.
pub(crate) fn note_end_of_stall(fiber: &str, worker: usize, lasted: Duration) {
    let is_meant = |noted: &&mut Noted| {
        noted.record.worker == worker && noted.record.fiber == fiber && !noted.has_ended
    };
    if let Some(noted) = stalls().iter_mut().rev().find(is_meant) {
        noted.record.lasted = lasted;
        noted.has_ended = true;
    }
}

/// The stalls that are kept, the newest first.
pub(super) fn recent_stalls() -> Vec<StallSummary> {
    let summary = |noted: &Noted| StallSummary {
        ago: noted.at.elapsed(),
        fiber: noted.record.fiber.clone(),
        worker: noted.record.worker,
        lasted: noted.record.lasted,
        has_ended: noted.has_ended,
        cause: noted.record.cause.clone(),
        closure: noted.record.closure,
    };
    stalls().iter().rev().map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because all tests of the process share the list.
    #[test]
    fn the_newest_stalls_are_kept_and_their_ends_noted() {
        let ms = Duration::from_millis;
        let note = |number: usize| {
            let (fiber, cause) = (format!("fiber 'stalled {number}'"), "it computes".to_owned());
            note_stall(StallRecord { fiber, worker: 7, lasted: ms(30), cause, closure: "" });
        };
        (0..MOST + 2).for_each(note);
        let last = format!("fiber 'stalled {}'", MOST + 1);
        note_end_of_stall(&last, 8, ms(70));
        assert!(recent_stalls().iter().all(|stall| !stall.has_ended));
        note_end_of_stall(&last, 7, ms(70));
        note_end_of_stall(&last, 7, ms(90));
        let stalls = recent_stalls();
        assert_eq!(stalls.len(), MOST);
        assert_eq!(
            (&stalls[0].fiber, stalls[0].lasted, stalls[0].has_ended),
            (&last, ms(70), true)
        );
        assert_eq!(stalls[MOST - 1].fiber, "fiber 'stalled 2'");
        assert!(!stalls[1].has_ended);
    }
}
