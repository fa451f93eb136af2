//! The counters of a lab: after the first round, each arm of each experiment runs once more at one
//! x, with `ramie run --counters`. No figure uses the time of these runs.

use std::{collections::BTreeMap, time::Duration};

use super::{Session, process};
use crate::{
    child::ChildError,
    lab::{
        plan::{Planned, Point},
        results::{CountedRun, Event, Place},
    },
    progress::Progress,
};

/// A point whose process takes longer is not counted, unless all take longer.
const SHORT: Duration = Duration::from_millis(150);
/// A counted run takes this multiple of the time of a process at most: the run, another one that
/// counts the runs of strands, and the counters themselves.
const FACTOR: u32 = 3;

impl Session<'_> {
    /// Counts the points that have no counters yet.
    pub(super) fn count(&mut self, progress: &mut Progress) {
        for (experiment, Planned { experiment: about, points }) in self.plan.iter().enumerate() {
            let Some(x) = self.counted_x(experiment) else { continue };
            for (index, point) in points.iter().enumerate().filter(|(_, point)| point.x == x) {
                let outcome = &self.results.finished[experiment].outcomes[index];
                if outcome.counters.is_some() || outcome.counted().next().is_none() {
                    continue;
                }
                if self.interrupt.is_requested() {
                    return;
                }
                let stage = format!("counters: {}", about.title);
                progress.show(self.budget.share_spent(), &stage, &point.arm.name());
                self.count_once((experiment, index), point);
            }
        }
    }

    /// The x at which an experiment is counted: the largest at which the most arms have readings
    /// and are short.
    fn counted_x(&self, experiment: usize) -> Option<u64> {
        let outcomes = &self.results.finished[experiment].outcomes;
        // An earlier session has begun to count it.
        if let Some(counted) = outcomes.iter().find(|outcome| outcome.counters.is_some()) {
            return Some(counted.subject.x);
        }
        let mut all: BTreeMap<u64, (usize, Duration)> = BTreeMap::new();
        let points = &self.plan[experiment].points;
        for (index, (outcome, point)) in outcomes.iter().zip(points).enumerate() {
            if outcome.counted().next().is_some() {
                let (arms, slowest) = all.entry(outcome.subject.x).or_default();
                *arms += 1;
                *slowest = (*slowest).max(self.time((experiment, index), point));
            }
        }
        let most = all.values().map(|(arms, _)| *arms).max()?;
        all.retain(|_, (arms, _)| *arms == most);
        let short = all.iter().rev().find(|(_, (_, slowest))| *slowest <= SHORT);
        short.or(all.iter().min_by_key(|(_, (_, slowest))| *slowest)).map(|(x, _)| *x)
    }

    fn count_once(&mut self, place: Place, point: &Point) {
        let time = self.time(place, point) * FACTOR;
        if !self.budget.has_room_for(time) {
            return;
        }
        let limit = self.budget.limit(time);
        let subject = &self.results.finished[place.0].outcomes[place.1].subject;
        let peer = subject.peer_command(&self.results.request);
        let at_s = || self.budget.spent().as_secs_f64();
        let run = match &peer {
            Some(command) => process::count_peer(command, point, limit, self.interrupt)
                .map(|used| CountedRun::of_peer(&used, point.workload.ops(), at_s())),
            None => process::count(point, limit, self.interrupt).and_then(|line| {
                CountedRun::parse(&line, at_s())
                    .map_err(|error| ChildError::Failed(format!("it printed no counters: {error}")))
            }),
        };
        let run = match run {
            Ok(run) => run,
            Err(ChildError::Failed(why)) => CountedRun::failed(&why, at_s()),
            Err(ChildError::Interrupted) => return,
        };
        self.record(Event::Counters { point: place, run });
    }
}
