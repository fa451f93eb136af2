//! From the counts of the workers to the value of a summary.

use std::{
    collections::HashMap,
    process,
    time::{Duration, Instant},
};

use ramie_driver::sys::monotonic_ns;

use super::{
    StateCounts, Summary, WaitPlace, WorkerSummary,
    awaited::awaited_by,
    collect::{of_strand, status_of},
    descriptor::name_descriptors_of,
    stalls::recent_stalls,
};
use crate::{
    core::{
        strand::visit_unstarted,
        worker::{
            self, AskersTurn, Question, SLOWEST, Surveyed, WaitCount, WorkerAnswer, WorkerFacts,
        },
    },
    metrics::{self, WorkerLevels},
};

/// How long a summary waits for workers that run a fiber without suspending. Shorter than that of a
/// dump, because summaries are wanted each second.
const LIMIT: Duration = Duration::from_secs(1);
/// The most places of a summary.
const MOST_PLACES: usize = 100;

/// Asks all workers, and waits for their answers for the limit, or until nobody wants the summary.
#[track_caller]
pub(super) fn summary(is_unwanted: impl Fn() -> bool) -> Summary {
    let start = Instant::now();
    let Surveyed { mut workers, .. } = worker::survey(Question::Counts, LIMIT, &is_unwanted);
    workers.retain(|worker| worker.is_worth_a_line());
    workers.sort_by_key(|worker| worker.index.unwrap_or(usize::MAX));
    let figures = metrics::snapshot();
    let mut summary = Summary {
        process: process::id(),
        spawned: figures.spawned,
        ended: figures.ended,
        resumed: figures.resumed,
        stalls: recent_stalls(),
        ..Summary::default()
    };
    let mut places = WaitPlaces::default();
    for (place, mut worker) in workers.into_iter().enumerate() {
        let levels = figures.workers.iter().find(|levels| levels.thread_id == worker.thread_id);
        worker.counts.waits.values().for_each(|count| places.add(count));
        summary.states.add(&worker);
        let strands = std::mem::take(&mut worker.strands);
        summary.slowest.extend(strands.into_iter().map(|facts| of_strand(facts, place)));
        summary.workers.push(of_worker(worker, levels));
    }
    let mut turn = AskersTurn::begin();
    visit_unstarted(|| turn.yield_if_long(), |_, _| summary.states.not_started += 1);
    summary.keep_slowest();
    summary.take_places(places);
    let known = summary.slowest.iter().map(|strand| strand.id).collect();
    summary.awaited = awaited_by(&summary.slowest, known, &mut turn);
    name_descriptors_of(&mut summary.slowest);
    summary.at = Duration::from_nanos(monotonic_ns());
    summary.took = start.elapsed();
    summary
}

fn of_worker(worker: WorkerFacts, levels: Option<&WorkerLevels>) -> WorkerSummary {
    WorkerSummary {
        index: worker.index,
        thread_name: worker.thread_name,
        thread_id: worker.thread_id,
        status: status_of(worker.answer),
        fibers: worker.fibers,
        runnable: worker.counts.runnable,
        waiting: worker.counts.waiting,
        // Of a worker that has not answered, the length at its last poll.
        run_queue: levels.map(|levels| worker.counts.run_queue.unwrap_or(levels.run_queue)),
        cpu: levels.and_then(|levels| Some(Duration::from_nanos(levels.cpu_ns?))),
    }
}

impl StateCounts {
    fn add(&mut self, worker: &WorkerFacts) {
        self.running += worker.counts.running;
        self.runnable += worker.counts.runnable;
        self.waiting += worker.counts.waiting;
        // A thread that runs code of its own cannot count its strand.
        let is_uncounted = worker.root != 0 && worker.answer == WorkerAnswer::NotInLoop;
        self.running += u64::from(is_uncounted);
    }
}

impl Summary {
    fn keep_slowest(&mut self) {
        // A strand that was described in one slice may have ended its wait before another one.
        self.slowest.retain(|strand| strand.wait.is_some());
        let since = |strand: &super::StrandDump| strand.wait.as_ref().map(|wait| wait.since);
        self.slowest.sort_by_key(|strand| std::cmp::Reverse(since(strand)));
        self.slowest.truncate(SLOWEST);
    }

    fn take_places(&mut self, places: WaitPlaces) {
        self.places = places.0.into_values().collect();
        // By name besides, so that places with as many strands keep their order.
        self.places.sort_by(|a, b| {
            let name = |place: &WaitPlace| (place.location.file, place.location.line);
            b.strands.cmp(&a.strands).then_with(|| name(a).cmp(&name(b)))
        });
        let rest = self.places.iter().skip(MOST_PLACES);
        self.waiting_elsewhere = rest.map(|place| place.strands).sum();
        self.places.truncate(MOST_PLACES);
    }
}

/// The places at which strands wait, by purpose, file, line and column.
#[derive(Default)]
struct WaitPlaces(HashMap<(&'static str, &'static str, u32, u32), WaitPlace>);

impl WaitPlaces {
    fn add(&mut self, count: &WaitCount) {
        let (purpose, at) = (count.kind.name, count.location);
        let longest = Duration::from_millis(count.longest_ms.into());
        let place = self
            .0
            .entry((purpose, at.file(), at.line(), at.column()))
            .or_insert_with(|| WaitPlace { purpose, location: at.into(), strands: 0, longest });
        place.strands += count.strands;
        place.longest = place.longest.max(longest);
    }
}
