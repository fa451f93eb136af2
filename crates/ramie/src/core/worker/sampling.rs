//! Samples of how long strands wait for their turn and how long they run, and the count of
//! switches.
//!
//! A look at the clock takes as long as five switches, so not each switch can be timed. A worker
//! takes a sample once in [`POLLS_PER_SAMPLE`] polls and sleeps. To be told of the two moments that
//! it needs, it shortens the countdown to the next poll, which each switch counts down anyway. So a
//! switch costs the same as without samples, and a sample about 100 ns.
//!
//! | state | the loop looks up | then |
//! |---|---|---|
//! | `Off` | at the poll or after the sleep that begins a sample | marks the last fiber of the run queue, which has just become runnable: `Queued` |
//! | `Queued` | when that strand should be the next | records its delay; the strand runs: `Runs`. If others came before it, looks up again |
//! | `Runs` | when it has suspended | records how long it ran: `Off` |
//!
//! Polls in between are made when they are due. A mark is lost if the run queue gets a larger ring;
//! then the sample ends without a record. Only fibers that have started are marked, and none if the
//! program chooses the order of strands.
//!
//! The number of switches follows from the countdown: the worker counts them (`count_switches`)
//! before it restarts the countdown, because it polls, sleeps or is to poll next, and when its loop
//! ends. A sample counts nothing, because it leaves the number of switches until the poll
//! unchanged.

use std::cell::Cell;

use ramie_driver::sys::monotonic_ns;

use super::{Worker, run_queue::Mark};

/// The number of polls, and of sleeps, for which one sample is taken.
const POLLS_PER_SAMPLE: u32 = 32;

/// The worker's part in samples.
pub(super) struct Sampling {
    polls_left: Cell<u32>,
    state: Cell<Sample>,
    /// The switches that were left until the next poll when switches were last counted.
    counted_at: Cell<u32>,
}

#[derive(Clone, Copy)]
enum Sample {
    Off,
    Queued { since_ns: u64, mark: Mark },
    Runs { since_ns: u64 },
}

impl Sampling {
    pub(super) fn new(switches_per_poll: u32) -> Self {
        Sampling {
            polls_left: Cell::new(1),
            state: Cell::new(Sample::Off),
            counted_at: Cell::new(switches_per_poll),
        }
    }
}

/// Counts the switches since this was last called.
fn count_switches(worker: &Worker) {
    let left = worker.scheduler.switches_until_poll();
    let switches = worker.running.sampling.counted_at.replace(left).saturating_sub(left);
    worker.shared.record.resumed.add(u64::from(switches));
}

/// Restarts the countdown and the count of calls that complete at once, because the worker polls
/// now or sleeps.
pub(super) fn restart_counts(worker: &Worker) {
    count_switches(worker);
    worker.io.restart_counts(&worker.scheduler);
    worker.running.sampling.counted_at.set(worker.io.switches_per_poll);
}

/// Lets the loop poll before it resumes a strand.
pub(super) fn poll_next(worker: &Worker) {
    count_switches(worker);
    worker.scheduler.poll_after(1);
    worker.running.sampling.counted_at.set(1);
}

/// The loop looks up between two switches. Returns whether the poll is due.
pub(super) fn look_up(worker: &Worker) -> bool {
    let scheduler = &worker.scheduler;
    let is_poll_due = scheduler.is_poll_due();
    match worker.running.sampling.state.get() {
        Sample::Runs { since_ns } => {
            worker.shared.record.durations.run_length.record(monotonic_ns() - since_ns);
            worker.running.sampling.state.set(Sample::Off);
            scheduler.look_up_after(scheduler.switches_until_poll());
        }
        // If the poll is due, the strand waits for it, too.
        Sample::Queued { since_ns, mark } if !is_poll_due => await_turn(worker, since_ns, mark, 0),
        Sample::Queued { .. } => {}
        Sample::Off => scheduler.look_up_after(scheduler.switches_until_poll()),
    }
    is_poll_due
}

/// The worker has polled or slept, and strands may have become runnable. The loop counts this
/// number of switches, 0 or 1, before it resumes the next one.
pub(super) fn begin_if_due(worker: &Worker, switches: u32) {
    let Worker { scheduler, .. } = worker;
    let sampling = &worker.running.sampling;
    let record = &worker.shared.record;
    record.polls.add_one();
    record.run_queue.set(scheduler.ready.entries() as u64);
    record.timers.set(worker.timers.count() as u64);
    if let Sample::Queued { since_ns, mark } = sampling.state.get() {
        return await_turn(worker, since_ns, mark, switches);
    }
    sampling.polls_left.set(sampling.polls_left.get() - 1);
    if sampling.polls_left.get() > 0 {
        return;
    }
    sampling.polls_left.set(POLLS_PER_SAMPLE);
    if let Some(mark) = scheduler.ready.mark_last_fiber() {
        await_turn(worker, monotonic_ns(), mark, switches);
    }
}

/// Ends a sample, because the loop ends.
pub(super) fn stop(worker: &Worker) {
    count_switches(worker);
    worker.running.sampling.state.set(Sample::Off);
}

/// Lets the loop look up when the marked strand is the next; if it is, records its delay.
fn await_turn(worker: &Worker, since_ns: u64, mark: Mark, switches: u32) {
    let Worker { scheduler, .. } = worker;
    let sampling = &worker.running.sampling;
    let record = &worker.shared.record;
    let Some(ahead) = scheduler.ready.entries_ahead_of(mark) else {
        sampling.state.set(Sample::Off);
        return scheduler.look_up_after(scheduler.switches_until_poll());
    };
    let switches = switches + u32::try_from(ahead).unwrap_or(u32::MAX / 2);
    if switches > 0 {
        sampling.state.set(Sample::Queued { since_ns, mark });
        return scheduler.look_up_after(switches);
    }
    let now_ns = monotonic_ns();
    record.durations.run_queue_delay.record(now_ns - since_ns);
    sampling.state.set(Sample::Runs { since_ns: now_ns });
    scheduler.look_up_after(1);
}
