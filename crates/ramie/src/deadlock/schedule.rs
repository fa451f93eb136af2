//! When the next survey is due. Times are those of a monotonic clock.

use std::time::Duration;

/// The time between two surveys of a busy process.
const REGULAR: Duration = Duration::from_secs(1);
/// The time from the moment at which all workers are idle to a survey, and between two surveys that
/// are to agree.
const MOMENT: Duration = Duration::from_millis(200);
/// The surveys that may follow a regular one at once, in order to agree with it.
const CONFIRMATIONS: u32 = 2;
/// A survey is paid for by this number of times its cost, in which no regular survey begins.
const COST_FACTOR: u32 = 1000;
/// How often an idle process is surveyed again because a thread might act.
const REPEATS: u32 = 10;

/// What a watchdog has seen of the workers of its runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Activity {
    /// No worker runs a fiber.
    pub(crate) is_idle: bool,
    /// Changes when a worker begins to run fibers.
    pub(crate) rounds: u64,
}

/// The result of a survey, as far as it matters for the next one.
#[derive(Clone, Copy, Default)]
pub(super) struct SurveyOutcome {
    pub(super) cost: Duration,
    /// It has found something that other surveys have to confirm.
    pub(super) has_suspects: bool,
    /// A thread that the survey does not describe may act.
    pub(super) may_change: bool,
}

pub(super) struct Schedule {
    activity: Activity,
    /// When the activity was first seen.
    since: Duration,
    /// The activity before and after the last survey, if it was the same and idle.
    surveyed: Option<Activity>,
    last: Duration,
    paid_until: Duration,
    last_outcome: SurveyOutcome,
    confirmations: u32,
    repeats: u32,
}

impl Schedule {
    pub(super) fn new(now: Duration) -> Self {
        Schedule {
            activity: Activity { is_idle: false, rounds: 0 },
            since: now,
            surveyed: None,
            last: now,
            paid_until: now,
            last_outcome: SurveyOutcome::default(),
            confirmations: 0,
            repeats: 0,
        }
    }

    pub(super) fn note(&mut self, now: Duration, activity: Activity) {
        if self.activity != activity {
            self.activity = activity;
            self.since = now;
        }
    }

    /// Whether no fiber has run since the activity was this one.
    pub(super) fn is_still(&self, activity: Activity) -> bool {
        self.activity == activity && activity.is_idle
    }

    pub(super) fn activity(&self) -> Activity {
        self.activity
    }

    /// When the next survey is due; none: not before a worker runs a fiber.
    pub(super) fn due(&self) -> Option<Duration> {
        if self.is_confirmation() {
            return Some(self.last + MOMENT);
        }
        let is_surveyed = self.surveyed.is_some_and(|surveyed| self.is_still(surveyed));
        if is_surveyed && !self.last_outcome.has_suspects {
            let is_repeated = self.last_outcome.may_change && self.repeats < REPEATS;
            let due = self.last + REGULAR * (1 << self.repeats);
            return is_repeated.then(|| due.max(self.paid_until));
        }
        let idle = self.activity.is_idle.then(|| self.last.max(self.since) + MOMENT);
        let regular = self.last + REGULAR;
        Some(idle.map_or(regular, |idle| idle.min(regular)).max(self.paid_until))
    }

    fn is_confirmation(&self) -> bool {
        self.last_outcome.has_suspects && self.confirmations > 0
    }

    /// A survey that was posted at that activity is over.
    pub(super) fn surveyed(&mut self, now: Duration, posted_at: Activity, outcome: SurveyOutcome) {
        self.confirmations = match self.is_confirmation() {
            true => self.confirmations - 1,
            false => CONFIRMATIONS,
        };
        let surveyed = self.is_still(posted_at).then_some(posted_at);
        let is_repeat = surveyed.is_some() && surveyed == self.surveyed;
        self.repeats = if is_repeat { (self.repeats + 1).min(REPEATS) } else { 0 };
        self.surveyed = surveyed;
        self.last = now;
        self.paid_until = self.paid_until.max(now) + outcome.cost * COST_FACTOR;
        self.last_outcome = outcome;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Activity = Activity { is_idle: true, rounds: 1 };
    const BUSY: Activity = Activity { is_idle: false, rounds: 2 };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn schedule(now: u64, activity: Activity) -> Schedule {
        let mut schedule = Schedule::new(ms(0));
        schedule.note(ms(now), activity);
        schedule
    }

    #[test]
    fn an_idle_process_is_surveyed_once() {
        let mut schedule = schedule(0, BUSY);
        schedule.surveyed(ms(4900), BUSY, SurveyOutcome::default());
        schedule.note(ms(5000), IDLE);
        assert_eq!(schedule.due(), Some(ms(5200)));
        schedule.surveyed(ms(5210), IDLE, SurveyOutcome::default());
        assert_eq!(schedule.due(), None);
        // A worker has run a fiber.
        schedule.note(ms(5300), Activity { rounds: 9, ..IDLE });
        assert_eq!(schedule.due(), Some(ms(5500)));
    }

    #[test]
    fn a_survey_during_which_a_worker_ran_is_repeated() {
        let mut schedule = schedule(5000, IDLE);
        schedule.note(ms(5205), Activity { rounds: 9, ..IDLE });
        schedule.surveyed(ms(5210), IDLE, SurveyOutcome::default());
        assert_eq!(schedule.due(), Some(ms(5410)));
    }

    #[test]
    fn a_busy_process_is_surveyed_each_second() {
        let mut schedule = schedule(5, BUSY);
        assert_eq!(schedule.due(), Some(ms(1000)));
        schedule.surveyed(ms(1010), BUSY, SurveyOutcome::default());
        assert_eq!(schedule.due(), Some(ms(2010)));
        // One that is idle for moments, too.
        schedule.note(ms(2000), IDLE);
        assert_eq!(schedule.due(), Some(ms(2010)));
    }

    #[test]
    fn surveys_take_a_thousandth_of_the_time() {
        let mut schedule = schedule(5, BUSY);
        let outcome = SurveyOutcome { cost: ms(3), has_suspects: true, may_change: false };
        schedule.surveyed(ms(1000), BUSY, outcome);
        // Two surveys follow at once, but all three are paid for.
        assert_eq!(schedule.due(), Some(ms(1200)));
        schedule.surveyed(ms(1200), BUSY, outcome);
        assert_eq!(schedule.due(), Some(ms(1400)));
        schedule.surveyed(ms(1400), BUSY, outcome);
        assert_eq!(schedule.due(), Some(ms(10_000)));
    }

    #[test]
    fn a_thread_that_may_act_is_watched_at_growing_intervals() {
        let mut schedule = schedule(0, IDLE);
        let outcome = SurveyOutcome { may_change: true, ..SurveyOutcome::default() };
        let mut now = ms(0);
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
            schedule.surveyed(now, IDLE, outcome);
            let due = schedule.due().unwrap();
            assert_eq!(due - now, Duration::from_secs(seconds));
            now = due;
        }
        schedule.surveyed(now, IDLE, outcome);
        assert_eq!(schedule.due(), None);
    }
}
