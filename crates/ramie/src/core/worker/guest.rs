//! A worker that another program's loop drives: it runs in *turns*, and never sleeps in the kernel.
//!
//! Between two turns the worker counts as asleep, by the protocol in [`shared`](super::shared): a
//! thread that hands it something wakes it by its driver's waker, and so do completions. Either
//! makes the driver's descriptor readable ([`Driver::pollable`](ramie_driver::Driver::pollable)),
//! for which the other loop waits.
//!
//! | the worker | changed by |
//! |---|---|
//! | is between two turns, asleep | [`turn`](Worker::turn), which announces that it runs |
//! | is in a turn | the turn's end, when there is nothing to run, in this order: all ops are with the kernel; it announces its sleep; it looks again |
//! | is between two turns, awake: it has more to run | `turn`. The descriptor is readable |
//!
//! *The race to fear* is the one of `shared`: a push between the last look and the wait. The pusher
//! finds the announcement, and its wake stays in the descriptor until the next turn.
//!
//! Such a worker is no sleeper that others wake to search for closures, because the other loop may
//! take any time until it gives the next turn, and meanwhile no other worker would be woken. It
//! searches in its turns.

use std::{cell::Cell, time::Duration};

use ramie_driver::sys::monotonic_ns;

use super::{Worker, idle::QUIET, spread::Taken};
use crate::core::{trace::EventKind, worker::Until};

/// How a turn has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum TurnEnd {
    /// The runtime has nothing left to run, or its grace period is over.
    #[default]
    Finished,
    /// There is more to run.
    Busy,
    /// There is nothing to run before the descriptor is readable, or this time has passed.
    Idle(Option<Duration>),
}

/// The turn of a worker that another program's loop drives.
#[derive(Default)]
pub(super) struct GuestTurn {
    /// When the turn should end, in ns on the system's clock.
    end_ns: Cell<u64>,
    /// Whether a strand has run in this turn.
    has_run: Cell<bool>,
    outcome: Cell<TurnEnd>,
    /// Since when no strand has run, in ns on the system's clock; 0: the last turn has run some.
    idle_since_ns: Cell<u64>,
}

impl GuestTurn {
    /// Whether the time of the turn is over. Each turn runs a strand, if there is one.
    pub(super) fn is_over(&self) -> bool {
        self.has_run.get() && self.is_late()
    }

    fn is_late(&self) -> bool {
        monotonic_ns() >= self.end_ns.get()
    }

    pub(super) fn note_run(&self, runs: bool) {
        self.has_run.set(self.has_run.get() || runs);
    }

    fn end(&self, outcome: TurnEnd) -> Option<bool> {
        self.outcome.set(outcome);
        Some(true)
    }
}

impl Worker {
    /// Lets no closure run in the place of one that has ended, because the loop then could not look
    /// whether the turn is over.
    pub(crate) fn become_guest(&mut self) {
        self.scheduler.may_chain = false;
    }

    /// Runs strands until there is nothing to run, or until that time on the system's clock.
    pub(crate) fn turn(&self, end_ns: u64) -> TurnEnd {
        self.begin_turn();
        self.guest.end_ns.set(end_ns);
        self.guest.has_run.set(false);
        self.guest.outcome.set(TurnEnd::Finished);
        self.run(Until::TurnEnd);
        // Askers may wait for an answer: they wake the worker, and the other loop gives it a turn.
        self.surveys.set_in_loop(true);
        if let TurnEnd::Idle(_) = self.guest.outcome.get() {
            self.watched.fall_asleep();
        }
        self.guest.outcome.get()
    }

    /// The worker is awake: in a turn, or for good, because its own loop drives it from now on.
    pub(crate) fn begin_turn(&self) {
        self.shared.announce_running();
        self.clock.stir(self.shared);
        self.watched.wake_up();
        self.give_back_if_quiet();
    }

    /// Looks everywhere once. Returns whether the turn is over, or `None` to look again.
    pub(super) fn look_around_in_turn(&self) -> Option<bool> {
        let has_ready = self.look_outside();
        let is_settled = self.io.turn_to_poll(&self.scheduler, &self.running);
        if has_ready || self.has_ready() || self.take_from_outside() {
            return self.go_on_in_turn();
        }
        let left_for = match self.membership.as_ref().map(|it| it.steal(self.shared.live())) {
            Some(Taken::First(header)) => {
                self.shared.record.stolen.add_one();
                self.running.recorder.note_deed(EventKind::Stolen, header.id_bits());
                self.scheduler.push_stolen(header);
                return self.go_on_in_turn();
            }
            Some(Taken::LeftFor(time)) => Some(time),
            Some(Taken::Nothing) | None => None,
        };
        if self.workers().is_some_and(|workers| workers.check_finished()) {
            return self.guest.end(TurnEnd::Finished);
        }
        if self.has_runnable() || !is_settled {
            return self.look_again();
        }
        self.shared.announce_sleep();
        if !self.may_rest() {
            self.shared.announce_running();
            return self.look_again();
        }
        self.shared.record.sleeps.add_one();
        self.guest.end(TurnEnd::Idle(self.bound_between_turns(left_for)))
    }

    /// The look behind the announcement of a sleep.
    fn may_rest(&self) -> bool {
        let is_wanted = || {
            let is_over = self.workers().is_some_and(|workers| workers.has_news());
            is_over || self.shared.has_mail() || self.surveys.is_asked()
        };
        if is_wanted() || self.timers.are_due(&self.clock) {
            return false;
        }
        self.clock.rest(self.shared, &self.timers, &self.io);
        if !self.timers.are_due(&self.clock) {
            return true;
        }
        self.clock.stir(self.shared);
        false
    }

    fn go_on_in_turn(&self) -> Option<bool> {
        match self.guest.is_over() {
            true => self.guest.end(TurnEnd::Busy),
            false => Some(false),
        }
    }

    fn look_again(&self) -> Option<bool> {
        if self.guest.is_late() { self.guest.end(TurnEnd::Busy) } else { None }
    }

    /// How long the other loop may wait, if nothing makes the descriptor readable.
    fn bound_between_turns(&self, left_for: Option<Duration>) -> Option<Duration> {
        let of_driver = self.io.with_open_driver(|driver| driver.poll_limit()).flatten();
        let bound = [self.sleep_bound(left_for), of_driver].into_iter().flatten().min();
        if self.guest.has_run.get() || self.guest.idle_since_ns.get() == 0 {
            self.guest.idle_since_ns.set(monotonic_ns());
        }
        match self.has_surplus() {
            true => Some(bound.unwrap_or(QUIET).min(QUIET)),
            false => bound,
        }
    }

    /// Gives memory back if no strand has run for long.
    fn give_back_if_quiet(&self) {
        let since = self.guest.idle_since_ns.get();
        if since != 0 && monotonic_ns() - since >= QUIET.as_nanos() as u64 && self.has_surplus() {
            self.give_back_surplus();
        }
    }
}
