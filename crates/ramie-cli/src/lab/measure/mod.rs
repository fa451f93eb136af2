//! The measuring: rounds over all points, until all are done, the time is over, or the user
//! interrupts.
//!
//! A round measures each point once. So a drift of the machine affects all arms alike, and whenever
//! the lab ends, the readings cover the grid evenly.

mod count;
mod noise;
mod process;

use std::time::{Duration, Instant};

use self::noise::NoiseCheck;
use super::{
    plan::{
        On, Planned, Point, Selection,
        budget::{self, Budget},
    },
    results::{
        Event, NotMeasured, Outcome, Place, Reading, Results, Taken, WARM_UP, journal::Journal,
    },
};
use crate::{child::ChildError, interrupt::Interrupt, progress::Progress};

/// A point with a longer estimate is not run to warm up.
const WARM_UP_MAX: Duration = Duration::from_millis(500);

/// A lab that is measuring.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    plan: &'a [Planned],
    interrupt: &'a Interrupt,
    budget: Budget,
    results: Results,
    journal: Journal,
    /// How long the last process of each point took, or its readings if it was of an earlier
    /// session.
    times: Vec<Vec<Option<Duration>>>,
    /// A point that took longer in the first round waits until the others have enough rounds.
    long: Duration,
}

impl<'a> Session<'a> {
    /// `results` has the readings of earlier sessions of the same plan.
    pub(crate) fn new(
        selection: Selection,
        plan: &'a [Planned],
        interrupt: &'a Interrupt,
        results: Results,
        journal: Journal,
    ) -> Self {
        let before = Duration::try_from_secs_f64(results.seconds).unwrap_or_default();
        let budget = Budget::start(selection, results.request.peers.is_some(), before);
        let times = results.finished.iter();
        let times = times.map(|of| of.outcomes.iter().map(Outcome::time).collect()).collect();
        Session { plan, interrupt, budget, results, journal, times, long: Duration::MAX }
    }

    /// Measures, and returns the results and the journal that has them all.
    pub(crate) fn run(mut self) -> (Results, Journal) {
        let mut noise = NoiseCheck::start();
        let mut progress = Progress::start();
        let rounds = self.results.request.rounds;
        self.warm_up();
        self.check_noise(&mut noise, WARM_UP);
        self.measure_round((1, Pass::All), &mut progress);
        self.count(&mut progress);
        self.check_noise(&mut noise, 1);
        let times = self.times.iter().flatten().copied().flatten();
        self.long = self.budget.long(times);
        for (round, pass) in passes(rounds) {
            if self.measure_round((round, pass), &mut progress) {
                self.check_noise(&mut noise, round);
            }
        }
        progress.end();
        let is_partial = self.interrupt.is_requested();
        let seconds = self.budget.spent().as_secs_f64();
        self.record(Event::End { is_partial, seconds });
        (self.results, self.journal)
    }

    /// Measures the points of a pass once. Returns whether there was a point and time for it.
    fn measure_round(&mut self, (round, pass): (u32, Pass), progress: &mut Progress) -> bool {
        let rounds = self.results.request.rounds;
        let is_in = |(experiment, index): Place| match self.times[experiment][index] {
            Some(time) => pass.has(time > self.long),
            None => pass.has(false),
        };
        let order = cheapest_first(self.plan, &self.budget).into_iter();
        let places = order.flat_map(|experiment| {
            (0..self.plan[experiment].points.len()).map(move |index| (experiment, index))
        });
        let places: Vec<_> = places.filter(|place| is_in(*place)).collect();
        let is_over = !self.budget.has_room_for(Duration::ZERO) || self.interrupt.is_requested();
        if places.is_empty() || is_over {
            return false;
        }
        self.record(Event::Round { round });
        for (experiment, index) in places {
            let Planned { experiment: about, points } = &self.plan[experiment];
            let rounds_begun = f64::from(round - 1) / f64::from(rounds);
            let share = self.budget.share_spent().max(rounds_begun);
            let stage = format!("round {round} of {rounds}: {}", about.title);
            progress.show(share, &stage, &points[index].arm.name());
            self.measure_once((experiment, index), &points[index], round);
        }
        true
    }

    /// Runs the cheapest point of each arm of each experiment once: the first process of all reads
    /// the program from the disk, and finds the CPU at a low frequency.
    fn warm_up(&mut self) {
        for (experiment, planned) in self.plan.iter().enumerate() {
            let mut seen = Vec::new();
            for (index, point) in planned.points.iter().enumerate() {
                let is_cheap = budget::estimate(point) <= WARM_UP_MAX;
                if is_cheap && !seen.contains(&point.arm) {
                    seen.push(point.arm);
                    self.measure_once((experiment, index), point, WARM_UP);
                }
            }
        }
    }

    fn check_noise(&mut self, noise: &mut NoiseCheck, round: u32) {
        let at_s = self.budget.spent().as_secs_f64();
        self.record(Event::Noise(noise.check(round, at_s)));
    }

    fn record(&mut self, event: Event) {
        self.journal.append(&event);
        self.results.apply(event).expect("the event names a point of the plan");
    }

    /// Adds the readings of one round to a point, unless it does not fit or failed before.
    fn measure_once(&mut self, place: Place, point: &Point, round: u32) {
        let outcome = &self.results.finished[place.0].outcomes[place.1];
        let is_done = outcome.not_measured.is_some() || outcome.has_round(round);
        if is_done || self.interrupt.is_requested() {
            return;
        }
        if outcome.counted().next().is_none()
            && let Some(why) = self.reason_to_skip(place, point)
        {
            let reason = NotMeasured::Skipped(why);
            return self.record(Event::NotMeasured { point: place, reason });
        }
        let time = self.time(place, point);
        if !self.budget.has_room_for(time) {
            return;
        }
        let repeat = if round == WARM_UP { 1 } else { budget::repeats(point) };
        let started = Instant::now();
        let limit = self.budget.limit(time);
        let output = match &outcome.subject.peer_command(&self.results.request) {
            Some(command) => process::measure_peer(command, point, limit, self.interrupt),
            None => process::measure(point, repeat, limit, self.interrupt),
        };
        self.times[place.0][place.1] = Some(started.elapsed());
        match output.and_then(|output| self.readings(&output, round, point)) {
            Ok(readings) => self.record(Event::Readings { point: place, readings }),
            Err(ChildError::Failed(why)) => {
                let reason = NotMeasured::Failed(why);
                self.record(Event::NotMeasured { point: place, reason });
            }
            Err(ChildError::Interrupted) => {}
        }
    }

    /// How long a process of the point takes: as the last one did, or as estimated.
    fn time(&self, (experiment, index): Place, point: &Point) -> Duration {
        self.times[experiment][index].unwrap_or_else(|| budget::estimate(point))
    }

    fn readings(
        &self,
        output: &str,
        round: u32,
        point: &Point,
    ) -> Result<Vec<Reading>, ChildError> {
        let pinned_to = process::pinned_to(point);
        let taken = Taken { round, at_s: self.budget.spent().as_secs_f64(), pinned_to };
        let parse = |line| match point.arm.on {
            On::Engine(_) => Reading::parse(line, taken).map_err(|error| error.to_string()),
            On::Peer(_) => Reading::parse_peer(line, &point.workload, taken),
        };
        let readings: Result<Vec<_>, _> = output.lines().map(parse).collect();
        match readings {
            Ok(readings) if readings.is_empty() => {
                Err(ChildError::Failed("it printed no readings".to_owned()))
            }
            Ok(readings) => Ok(readings),
            Err(error) => Err(ChildError::Failed(format!("it printed no readings: {error}"))),
        }
    }

    fn reason_to_skip(&self, place: Place, point: &Point) -> Option<String> {
        let finished = &self.results.finished[place.0];
        let failed = |outcome: &&Outcome| {
            outcome.subject.arm == point.arm
                && matches!(outcome.not_measured, Some(NotMeasured::Failed(_)))
        };
        // A third would only cost time.
        if finished.outcomes.iter().filter(failed).count() >= 2 {
            return Some("two points of the same engine failed".to_owned());
        }
        self.budget.reason_to_skip(point)
    }
}

/// Which points of a round are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    All,
    Short,
    Long,
}

impl Pass {
    fn has(self, is_long: bool) -> bool {
        match self {
            Pass::All => true,
            Pass::Short => !is_long,
            Pass::Long => is_long,
        }
    }
}

/// The rounds after the first, each with its points: `ROUNDS_MIN` rounds for all points that are
/// not long, as many for those that are, and then the rest.
fn passes(rounds: u32) -> impl Iterator<Item = (u32, Pass)> {
    let enough = budget::ROUNDS_MIN.min(rounds);
    let all =
        [(2..=enough, Pass::Short), (2..=enough, Pass::Long), (enough + 1..=rounds, Pass::All)];
    all.into_iter().flat_map(|(rounds, pass)| rounds.map(move |round| (round, pass)))
}

/// The indices of the experiments, cheapest first. If time is short, the most expensive points are
/// left out rather than all of the last experiments.
fn cheapest_first(plan: &[Planned], budget: &Budget) -> Vec<usize> {
    let time = |index: &usize| -> Duration {
        let points = plan[*index].points.iter();
        points.filter(|point| budget.reason_to_skip(point).is_none()).map(budget::estimate).sum()
    };
    let mut numbers: Vec<_> = (0..plan.len()).collect();
    numbers.sort_by_cached_key(time);
    numbers
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Budget, Pass, Selection, cheapest_first, passes};
    use crate::lab::figure::thousands;

    #[test]
    fn all_points_get_three_rounds_before_one_gets_a_fourth() {
        use Pass::{All, Long, Short};
        let all: Vec<_> = passes(5).collect();
        assert_eq!(all, [(2, Short), (3, Short), (2, Long), (3, Long), (4, All), (5, All)]);
        assert_eq!(passes(1).count(), 0);
    }

    #[test]
    fn the_most_expensive_experiment_is_measured_last() {
        let plan = Selection::Quick.experiments();
        let order = cheapest_first(&plan, &Budget::start(Selection::Quick, false, Duration::ZERO));
        assert_eq!(order.len(), plan.len());
        let place = |title: &str| {
            let is_it = |index: &usize| plan[*index].experiment.title == title;
            order.iter().position(is_it).expect("it is in the plan")
        };
        let [long, short] = [10_000, 100]
            .map(|n| place(&format!("Feeding people {} nutrients each", thousands(n))));
        assert!(place("Yielding at the bottom of a recursion") < long && short < long);
    }
}
