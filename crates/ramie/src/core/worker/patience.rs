//! Lingering: a worker stays awake for some microseconds before it sleeps in the kernel.
//!
//! If two workers have fibers that answer one another, each would fall asleep while the other
//! works, and each value would cost a wake-up through the kernel: 5 to 10 us. So a worker that was
//! woken by another's mail lingers the next time. At first it spins; then it gives its turns on the
//! CPU away, because the other worker may wait for this very CPU. If nothing comes [`PATIENCE`]
//! times in a row, the worker lingers no more until mail has ended a sleep again. So a worker that
//! is alone, or that waits for I/O, never lingers.
//!
//! # Crowded CPUs
//! If threads that compute share the CPU, each turn that the worker gives away lasts a time slice
//! of the kernel's scheduler, 4 ms and more, in which the worker's timers become due unseen and
//! its mail lies unread. A thread that sleeps gets the CPU back at once when it is woken; a
//! thread that has given its turn away does not. So after a turn that took longer than
//! [`LONG_TURN_NS`] the worker gives no turn away for the time [`CROWDED`]: on a CPU that stays
//! crowded, it loses one time slice in that time. The same holds for a strand that waits for a
//! mutex. All turns of one wait together take no longer, but for the last one.

use std::{cell::Cell, time::Duration};

use ramie_driver::sys::monotonic_ns;

use super::current;
use crate::core::primitive::pause;

/// How many times in a row a worker lingers in vain.
const PATIENCE: u32 = 4;
/// Looks with a growing number of pauses between them: 1, 2, 4, …
const SPINS: u32 = 6;
/// Looks after that, each when other threads of this CPU had their turn.
const TURNS_GIVEN: u32 = 14;
/// A turn on a CPU that is not crowded takes less than 1 us, or as long as another worker runs
/// fibers before it sleeps. A bound of 50 us counted the kernel's own work as a crowd, and a mutex
/// that two workers contend for was 20 % slower.
const LONG_TURN_NS: u64 = 500_000;
/// How long a worker gives no turn away after a long one.
const CROWDED: Duration = Duration::from_millis(100);

/// Where a worker gives its turns away, and how long they take; the tests have one of their own.
pub(super) trait Cpu {
    /// A monotonic time in ns.
    fn now_ns(&self) -> u64;

    /// Lets other threads of this CPU run.
    fn give_turn(&self);
}

/// The CPU of the calling thread.
pub(super) struct ThisCpu;

impl Cpu for ThisCpu {
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn give_turn(&self) {
        std::thread::yield_now();
    }
}

/// How often a worker may yet linger in vain.
#[derive(Default)]
pub(super) struct Patience {
    left: Cell<u32>,
    /// Until then the CPU counts as crowded.
    crowded_until_ns: Cell<u64>,
}

/// Turns that one wait gives away, with one look at the clock for each.
#[derive(Default)]
pub(crate) struct Turns {
    /// The time before the first turn.
    start_ns: Option<u64>,
    /// The time after the last turn.
    last_ns: u64,
}

impl Turns {
    /// Lets other threads of this CPU run, unless it is crowded. Returns whether to do it again.
    pub(crate) fn give(&mut self) -> bool {
        self.give_on(&ThisCpu, &current().patience)
    }

    fn give_on(&mut self, cpu: &impl Cpu, patience: &Patience) -> bool {
        let start_ns = match self.start_ns {
            Some(start_ns) => start_ns,
            None => {
                self.last_ns = cpu.now_ns();
                if self.last_ns < patience.crowded_until_ns.get() {
                    return false;
                }
                *self.start_ns.insert(self.last_ns)
            }
        };
        cpu.give_turn();
        let now_ns = cpu.now_ns();
        if now_ns - self.last_ns > LONG_TURN_NS {
            patience.crowded_until_ns.set(now_ns + CROWDED.as_nanos() as u64);
        }
        self.last_ns = now_ns;
        now_ns - start_ns <= LONG_TURN_NS
    }
}

impl Patience {
    pub(super) fn is_left(&self) -> bool {
        self.left.get() > 0
    }

    pub(super) fn restore(&self) {
        self.left.set(PATIENCE);
    }

    /// Waits a little until `has_work` is true. Returns whether it is.
    pub(super) fn linger(&self, cpu: &impl Cpu, has_work: impl Fn() -> bool) -> bool {
        let has_work = || {
            let has_work = has_work();
            if has_work {
                self.restore();
            }
            has_work
        };
        for look in 0..SPINS {
            if has_work() {
                return true;
            }
            pause(1 << look);
        }
        let mut turns = Turns::default();
        for _ in 0..TURNS_GIVEN {
            if has_work() {
                return true;
            }
            if !turns.give_on(cpu, self) {
                break;
            }
        }
        has_work() || {
            self.left.set(self.left.get() - 1);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(4);

    /// A CPU on which each turn that is given away takes `turn`.
    struct FakeCpu {
        now: Cell<Duration>,
        turn: Duration,
        turns_given: Cell<u32>,
    }

    impl FakeCpu {
        fn new(turn: Duration) -> Self {
            FakeCpu { now: Cell::new(Duration::ZERO), turn, turns_given: Cell::new(0) }
        }
    }

    impl Cpu for FakeCpu {
        fn now_ns(&self) -> u64 {
            self.now.get().as_nanos() as u64
        }

        fn give_turn(&self) {
            self.turns_given.update(|turns| turns + 1);
            self.now.update(|now| now + self.turn);
        }
    }

    fn restored() -> Patience {
        let patience = Patience::default();
        patience.restore();
        patience
    }

    #[test]
    fn a_worker_that_lingers_in_vain_lingers_no_more() {
        let (patience, cpu) = (restored(), FakeCpu::new(Duration::from_nanos(500)));
        for _ in 0..PATIENCE {
            assert!(patience.is_left());
            assert!(!patience.linger(&cpu, || false), "there is no work");
        }
        assert!(!patience.is_left(), "then it sleeps");
        assert_eq!(cpu.turns_given.get(), PATIENCE * TURNS_GIVEN);
    }

    #[test]
    fn work_restores_the_patience() {
        let (patience, cpu) = (restored(), FakeCpu::new(Duration::from_nanos(500)));
        assert!(!patience.linger(&cpu, || false));
        assert!(patience.linger(&cpu, || cpu.turns_given.get() > TURNS_GIVEN + 2));
        assert_eq!(
            cpu.turns_given.get(),
            TURNS_GIVEN + 3,
            "the turn that work came in is the last"
        );
        assert_eq!(patience.left.get(), PATIENCE);
    }

    /// As where another worker of the same CPU runs fibers for 400 us at a time.
    #[test]
    fn turns_that_are_long_together_end_the_lingering() {
        let (patience, cpu) = (restored(), FakeCpu::new(Duration::from_micros(400)));
        assert!(!patience.linger(&cpu, || false));
        assert_eq!(cpu.turns_given.get(), 2);
        assert!(!patience.linger(&cpu, || false));
        assert_eq!(cpu.turns_given.get(), 4, "the CPU is not crowded");
    }

    /// With four threads that compute beside it, a worker that gave away all turns was off the CPU
    /// for 200 to 400 ms, while its timers were due.
    #[test]
    fn on_a_crowded_cpu_one_turn_is_given_away_in_a_while() {
        let (patience, cpu) = (restored(), FakeCpu::new(SLICE));
        while patience.is_left() {
            assert!(!patience.linger(&cpu, || false));
        }
        patience.restore();
        assert!(!patience.linger(&cpu, || false));
        assert_eq!(cpu.turns_given.get(), 1);

        cpu.now.update(|now| now + CROWDED);
        assert!(!patience.linger(&cpu, || false));
        assert_eq!(cpu.turns_given.get(), 2, "the CPU may have become free");
    }

    #[test]
    fn strands_that_wait_for_mutexes_give_no_turn_away_on_a_crowded_cpu() {
        let (patience, cpu) = (Patience::default(), FakeCpu::new(SLICE));
        assert!((0..9).all(|_| !Turns::default().give_on(&cpu, &patience)));
        assert_eq!(cpu.turns_given.get(), 1);

        let cpu = FakeCpu::new(Duration::from_nanos(500));
        assert!((0..9).all(|_| Turns::default().give_on(&cpu, &Patience::default())));
        assert_eq!(cpu.turns_given.get(), 9);
    }

    #[test]
    fn work_that_came_during_a_long_turn_is_seen() {
        let (patience, cpu) = (restored(), FakeCpu::new(SLICE));
        assert!(patience.linger(&cpu, || cpu.turns_given.get() == 1));
        assert_eq!(patience.left.get(), PATIENCE);
    }
}
