//! A worker that another program's loop drives: it runs in *turns*, and never sleeps in the kernel.
//!
//! Between two turns the worker counts as asleep, by the protocol in [`shared`](super::shared): a
//! thread that hands it something wakes it by its driver's waker, and so do completions. Either
//! makes the driver's descriptor readable ([`Driver::pollable`](ramie_driver::Driver::pollable)),
//! for which the other loop waits.
//!
//! | the worker | changed by |
//! |---|---|
//! | is between two turns, asleep | [`turn`], which announces that it runs |
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

use super::{
    Installed, Membership, Worker,
    idle::{
        QUIET, give_back_surplus, has_surplus, look_outside, queue_stolen, sleep_bound,
        take_from_outside,
    },
    note_spawn,
    spread::Taken,
};
use crate::core::{strand::StrandHeader, worker::Until};

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
    /// Whether another program's loop drives the worker.
    is_driven: Cell<bool>,
    /// When the turn should end, in ns on the system's clock.
    end_ns: Cell<u64>,
    is_open: Cell<bool>,
    /// Whether a strand has run in this turn.
    has_run: Cell<bool>,
    outcome: Cell<TurnEnd>,
    /// Since when no strand has run, in ns on the system's clock; 0: the last turn has run some.
    idle_since_ns: Cell<u64>,
}

impl GuestTurn {
    pub(super) fn is_driven(&self) -> bool {
        self.is_driven.get()
    }

    /// Whether the time of the turn is over. Each turn runs a strand, if there is one.
    pub(super) fn is_over(&self) -> bool {
        self.has_run.get() && self.is_late()
    }

    /// Whether the worker is in a turn.
    pub(super) fn is_in_turn(&self) -> bool {
        self.is_open.get()
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

/// Makes a worker one that another program's loop drives. No closure runs there in the place of one
/// that has ended, because the worker's loop then could not look whether the turn is over.
pub(crate) fn become_guest(worker: &mut Worker) {
    worker.root.guest.is_driven.set(true);
    worker.scheduler.may_chain = false;
}

/// Queues a closure between two turns, on the thread of the loop. It is counted already.
pub(crate) fn queue_between_turns(worker: &Worker, header: &'static StrandHeader) {
    note_spawn(worker, header);
    {
        // A policy of the program may look at the worker.
        let _installed = Installed::new(worker);
        worker.scheduler.ready.push_fresh(header);
    }
    // Not while it is installed: a worker does not wake itself through its own ring.
    worker.shared.wake();
}

/// Runs strands until there is nothing to run, or until that time on the system's clock.
pub(crate) fn turn(worker: &Worker, end_ns: u64) -> TurnEnd {
    begin_turn(worker);
    worker.root.guest.end_ns.set(end_ns);
    worker.root.guest.has_run.set(false);
    worker.root.guest.outcome.set(TurnEnd::Finished);
    worker.root.guest.is_open.set(true);
    worker.run(Until::TurnEnd);
    worker.root.guest.is_open.set(false);
    // Askers may wait for an answer: they wake the worker, and the other loop gives it a turn.
    worker.surveys.set_in_loop(true);
    if let TurnEnd::Idle(_) = worker.root.guest.outcome.get() {
        worker.watched.fall_asleep();
    }
    worker.root.guest.outcome.get()
}

/// The worker is awake: in a turn, or for good, because its own loop drives it from now on.
pub(crate) fn begin_turn(worker: &Worker) {
    worker.shared.announce_running();
    worker.clock.stir(worker.shared);
    worker.watched.wake_up();
    give_back_if_quiet(worker);
}

/// Looks everywhere once. Returns whether the turn is over, or `None` to look again.
pub(super) fn look_around_in_turn(worker: &Worker) -> Option<bool> {
    let has_ready = look_outside(worker);
    let is_settled = worker.io.turn_to_poll(&worker.scheduler, &worker.running);
    if has_ready || worker.has_ready() || take_from_outside(worker) {
        return go_on_in_turn(worker);
    }
    let left_for = match worker.membership.as_ref().map(|it| it.steal(worker.shared.live())) {
        Some(Taken::First(header)) => {
            queue_stolen(worker, header);
            return go_on_in_turn(worker);
        }
        Some(Taken::LeftFor(time)) => Some(time),
        Some(Taken::Nothing) | None => None,
    };
    worker.membership.iter().for_each(Membership::note_end);
    if worker.workers().is_some_and(|workers| workers.check_finished()) {
        return worker.root.guest.end(TurnEnd::Finished);
    }
    if worker.has_runnable() || !is_settled {
        return look_again(worker);
    }
    worker.shared.announce_sleep();
    if !may_rest(worker) {
        worker.shared.announce_running();
        return look_again(worker);
    }
    worker.shared.record.sleeps.add_one();
    worker.root.guest.end(TurnEnd::Idle(bound_between_turns(worker, left_for)))
}

/// The look behind the announcement of a sleep. At the system's clock, too, because a turn that
/// ends with a bound of zero costs a round of the other program's loop.
fn may_rest(worker: &Worker) -> bool {
    let is_wanted = || {
        let has_news = worker.membership.as_ref().is_some_and(Membership::has_news);
        has_news || worker.shared.has_mail() || worker.surveys.is_asked()
    };
    if is_wanted() || worker.timers.are_due(&worker.clock) {
        return false;
    }
    worker.clock.rest(worker.shared, &worker.timers, &worker.io);
    if !worker.timers.are_due(&worker.clock) {
        return true;
    }
    worker.clock.stir(worker.shared);
    false
}

fn go_on_in_turn(worker: &Worker) -> Option<bool> {
    match worker.root.guest.is_over() {
        true => worker.root.guest.end(TurnEnd::Busy),
        false => Some(false),
    }
}

fn look_again(worker: &Worker) -> Option<bool> {
    if worker.root.guest.is_late() { worker.root.guest.end(TurnEnd::Busy) } else { None }
}

/// How long the other loop may wait, if nothing makes the descriptor readable.
fn bound_between_turns(worker: &Worker, left_for: Option<Duration>) -> Option<Duration> {
    let of_driver = worker.io.with_open_driver(|driver| driver.poll_limit()).flatten();
    let bound = [sleep_bound(worker, left_for), of_driver].into_iter().flatten().min();
    if worker.root.guest.has_run.get() || worker.root.guest.idle_since_ns.get() == 0 {
        worker.root.guest.idle_since_ns.set(monotonic_ns());
    }
    match has_surplus(worker) {
        true => Some(bound.unwrap_or(QUIET).min(QUIET)),
        false => bound,
    }
}

/// Gives memory back if no strand has run for long.
fn give_back_if_quiet(worker: &Worker) {
    let since = worker.root.guest.idle_since_ns.get();
    if since != 0 && monotonic_ns() - since >= QUIET.as_nanos() as u64 && has_surplus(worker) {
        give_back_surplus(worker);
    }
}
