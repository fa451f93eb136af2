//! Decides from looks at one worker whether a fiber stalls it.
//!
//! | state | meaning | changed by |
//! |---|---|---|
//! | none | the worker did not run fibers at the last look | a look that finds it in a turn |
//! | seen | it was in this turn at one look | the same turn at the next look |
//! | suspected | it was in this turn at two looks, and its times are known | the limit: reported, or ignored |
//! | known to compute | the stall has been reported or ignored, with computing as its cause | the limit, if the thread was blocked for all of it: reported, or ignored |
//! | known | the stall has been reported or ignored | the end of the turn |
//!
//! The end of the turn leads from each state to "none" or "seen". A fiber that is known to compute
//! is still looked at, because it may hang on a lock later in the same turn.
//!
//! Only the time that the thread used counts: on a CPU, or blocked. The time in which it waited for
//! a CPU is the machine's. The watchdog notices time in which nothing ran, because the process was
//! stopped or the machine suspended, and then forgets its suspicions ([`forget`]).
//!
//! [`forget`]: Suspicion::forget

use std::time::Duration;

use super::thread_state::Usage;
use crate::core::worker::Turn;

/// A monotonic time.
pub(super) type Now = Duration;

/// What the watchdog knows of the present turn of one worker.
#[derive(Default)]
pub(super) struct Suspicion {
    turn: Option<Turn>,
    first_seen: Now,
    since: Option<(Now, Usage)>,
    known: Known,
    /// Whether the end of the stall is to be reported.
    is_reported: bool,
}

/// What is known of a stall.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Known {
    #[default]
    Nothing,
    Computes,
    Blocks,
}

/// What a look has found.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Look {
    Nothing,
    /// A stall that was reported is over, after about this time.
    Ended(Duration),
    /// The fiber has used more than the limit.
    Stall(Times),
}

/// How long a stall has lasted, and on what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Times {
    /// Since the turn was first seen.
    pub(super) total: Duration,
    /// The part of the time that is known in which the thread was on a CPU.
    pub(super) cpu: Duration,
    /// The part in which the thread was blocked, if it did not wait for a CPU at the end.
    pub(super) blocked: Duration,
    /// How often the thread had got a CPU when these times were taken.
    pub(super) runs: u64,
}

impl Suspicion {
    /// Takes in a look at the worker. `usage` is called only if the worker is still in its turn.
    pub(super) fn look(
        &mut self,
        now: Now,
        turn: Turn,
        limit: Duration,
        usage: impl FnOnce() -> Option<Usage>,
    ) -> Look {
        if self.turn != Some(turn) {
            let ended = self.is_reported.then(|| now.saturating_sub(self.first_seen));
            *self = Suspicion::default();
            if turn.runs_fibers() {
                (self.turn, self.first_seen) = (Some(turn), now);
            }
            return ended.map_or(Look::Nothing, Look::Ended);
        }
        let is_too_early = self.since.is_some_and(|(since, _)| now.saturating_sub(since) < limit);
        if self.known == Known::Blocks || is_too_early {
            return Look::Nothing;
        }
        let Some(usage) = usage() else { return Look::Nothing };
        let Some((since, first)) = self.since else {
            self.since = Some((now, usage));
            return Look::Nothing;
        };
        let times = self.times(now, since, &first, &usage);
        let counted = match self.known {
            Known::Nothing => times.cpu + times.blocked,
            _ => {
                self.since = Some((now, usage));
                times.blocked
            }
        };
        if counted < limit { Look::Nothing } else { Look::Stall(times) }
    }

    fn times(&self, now: Now, since: Now, first: &Usage, usage: &Usage) -> Times {
        let cpu = usage.cpu.saturating_sub(first.cpu);
        let waited = usage.waited.saturating_sub(first.waited);
        let blocked = now.saturating_sub(since).saturating_sub(cpu + waited);
        Times { total: now.saturating_sub(self.first_seen), cpu, blocked, runs: usage.runs }
    }

    /// Whether the stall is known, and its cause was that the fiber computes.
    pub(super) fn is_known_to_compute(&self) -> bool {
        self.known == Known::Computes
    }

    /// The stall is known from now on. Later looks find it again only if the fiber computed, and
    /// then blocks its thread.
    pub(super) fn note_known(&mut self, computes: bool, is_reported: bool) {
        self.known = if computes { Known::Computes } else { Known::Blocks };
        self.note_found(is_reported);
    }

    /// A panic hook computes for long. What the fiber does behind it is another stall.
    pub(super) fn note_hook(&mut self, is_reported: bool) {
        self.known = Known::Nothing;
        self.note_found(is_reported);
    }

    fn note_found(&mut self, is_reported: bool) {
        self.is_reported |= is_reported;
        self.since = None;
    }

    /// Forgets all but a stall that is known, because time has passed in which nothing ran.
    pub(super) fn forget(&mut self) {
        match self.known {
            Known::Nothing => *self = Suspicion::default(),
            _ => self.since = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(25);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn turn(rounds: u32) -> Turn {
        Turn { rounds, countdown: 5 }
    }

    /// A worker whose thread used its time as the test says.
    #[derive(Default)]
    struct Worker {
        now: u64,
        cpu: u64,
        waited: u64,
        suspicion: Suspicion,
    }

    impl Worker {
        /// Lets time pass: on a CPU, waiting for one, and blocked.
        fn pass(&mut self, cpu: u64, waited: u64, blocked: u64) -> &mut Self {
            (self.cpu, self.waited) = (self.cpu + cpu, self.waited + waited);
            self.now += cpu + waited + blocked;
            self
        }

        fn look(&mut self, turn: Turn) -> Look {
            let usage = Usage { cpu: ms(self.cpu), waited: ms(self.waited), runs: 1 };
            self.suspicion.look(ms(self.now), turn, LIMIT, || Some(usage))
        }
    }

    #[test]
    fn a_fiber_that_computes_is_reported_once_and_at_its_end() {
        let mut worker = Worker::default();
        for _ in 0..5 {
            assert_eq!(worker.look(turn(2)), Look::Nothing);
            worker.pass(6, 0, 0);
        }
        // The times begin with the second look.
        let times = Times { total: ms(36), cpu: ms(30), blocked: ms(0), runs: 1 };
        assert_eq!(worker.pass(6, 0, 0).look(turn(2)), Look::Stall(times));
        worker.suspicion.note_known(true, true);
        assert_eq!(worker.pass(100, 0, 0).look(turn(2)), Look::Nothing);
        assert_eq!(worker.pass(1, 0, 0).look(turn(4)), Look::Ended(ms(137)));
        assert_eq!(worker.pass(1, 0, 0).look(turn(6)), Look::Nothing);
    }

    #[test]
    fn a_fiber_that_blocks_its_thread_is_reported() {
        let mut worker = Worker::default();
        worker.look(turn(2));
        worker.pass(1, 0, 5).look(turn(2));
        let times = Times { total: ms(32), cpu: ms(2), blocked: ms(24), runs: 1 };
        assert_eq!(worker.pass(2, 0, 24).look(turn(2)), Look::Stall(times));
    }

    /// Such a fiber would run at once if the machine let it.
    #[test]
    fn time_that_a_fiber_waits_for_a_cpu_does_not_count() {
        let mut worker = Worker::default();
        worker.look(turn(2));
        for _ in 0..24 {
            assert_eq!(worker.pass(1, 50, 0).look(turn(2)), Look::Nothing);
        }
        // The first ms passed before the times were known.
        assert_eq!(worker.pass(1, 50, 0).look(turn(2)), Look::Nothing);
        assert!(matches!(worker.pass(1, 50, 0).look(turn(2)), Look::Stall(_)));
    }

    #[test]
    fn turns_that_change_are_no_stall() {
        let mut worker = Worker::default();
        for round in 1..50 {
            assert_eq!(worker.look(turn(2 * round)), Look::Nothing);
            worker.pass(20, 0, 0);
        }
        for countdown in (1..50).rev() {
            assert_eq!(worker.look(Turn { rounds: 2, countdown }), Look::Nothing);
            worker.pass(20, 0, 0);
        }
    }

    #[test]
    fn a_worker_that_idles_or_polls_stalls_no_fiber() {
        let mut worker = Worker::default();
        for _ in 0..10 {
            assert_eq!(worker.look(turn(3)), Look::Nothing);
            worker.pass(0, 0, 1000);
        }
    }

    #[test]
    fn a_stop_of_the_process_is_forgotten() {
        let mut worker = Worker::default();
        worker.look(turn(2));
        worker.pass(6, 0, 0).look(turn(2));
        worker.suspicion.forget();
        assert_eq!(worker.pass(0, 0, 10_000).look(turn(2)), Look::Nothing);
        assert_eq!(worker.pass(6, 0, 0).look(turn(2)), Look::Nothing);
        assert_eq!(worker.pass(6, 0, 0).look(turn(2)), Look::Nothing);
    }

    #[test]
    fn a_known_stall_stays_known_over_a_stop_of_the_process() {
        let mut worker = Worker::default();
        worker.look(turn(2));
        worker.look(turn(2));
        assert!(matches!(worker.pass(30, 0, 0).look(turn(2)), Look::Stall(_)));
        worker.suspicion.note_known(false, false);
        worker.suspicion.forget();
        assert_eq!(worker.pass(30, 0, 0).look(turn(2)), Look::Nothing);
        assert_eq!(worker.look(turn(4)), Look::Nothing);
    }

    #[test]
    fn a_reported_stall_is_not_reported_again_after_a_stop_of_the_process_but_its_end_is() {
        let mut worker = Worker::default();
        worker.look(turn(2));
        worker.look(turn(2));
        assert!(matches!(worker.pass(0, 0, 30).look(turn(2)), Look::Stall(_)));
        worker.suspicion.note_known(false, true);
        worker.suspicion.forget();
        for _ in 0..3 {
            assert_eq!(worker.pass(0, 0, 30).look(turn(2)), Look::Nothing);
        }
        assert_eq!(worker.look(turn(4)), Look::Ended(ms(120)));
    }

    #[test]
    fn a_fiber_that_computed_and_then_blocks_is_found_again_once() {
        let mut worker = Worker::default();
        worker.look(turn(2));
        worker.look(turn(2));
        assert!(matches!(worker.pass(30, 0, 0).look(turn(2)), Look::Stall(_)));
        worker.suspicion.note_known(true, true);
        for _ in 0..20 {
            assert_eq!(worker.pass(6, 1, 2).look(turn(2)), Look::Nothing);
        }
        assert_eq!(worker.pass(0, 100, 0).look(turn(2)), Look::Nothing, "no CPU");
        let looks: Vec<_> = (0..20).map(|_| worker.pass(0, 0, 6).look(turn(2))).collect();
        let first = looks.iter().position(|look| matches!(look, Look::Stall(_))).unwrap();
        assert!((4..=9).contains(&first), "after {first} looks");
        worker.suspicion.note_known(false, true);
        for _ in 0..3 {
            assert_eq!(worker.pass(0, 0, 1000).look(turn(2)), Look::Nothing);
        }
        assert!(matches!(worker.look(turn(4)), Look::Ended(_)));
    }

    #[test]
    fn without_times_there_is_no_stall() {
        let mut suspicion = Suspicion::default();
        for now in 0..100 {
            assert_eq!(suspicion.look(ms(now * 10), turn(2), LIMIT, || None), Look::Nothing);
        }
    }
}
