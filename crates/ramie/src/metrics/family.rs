//! The figures of a snapshot by name, as exporters need them.

use super::{Histogram, Snapshot, WorkerLevels};

/// A figure of a [`Snapshot`] with its name; made by [`Snapshot::families`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Family<'a> {
    /// The name by the conventions of Prometheus, with `ramie_` and the unit, such as
    /// `ramie_strands_spawned_total`.
    pub name: &'static str,
    /// A sentence about it.
    pub help: &'static str,
    /// The values: one, or one for each worker or kind of op.
    pub samples: Vec<FigureSample<'a>>,
    /// What the values are.
    pub kind: FamilyKind,
}

/// What the values of a [`Family`] are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FamilyKind {
    /// A number that never falls.
    Counter,
    /// A number of now.
    Gauge,
    /// Durations, in seconds.
    Histogram,
}

/// One value of a [`Family`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FigureSample<'a> {
    /// Names and values that tell it from the others of the family.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Value<'a>,
}

/// The value of a [`FigureSample`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// A whole number.
    Count(u64),
    /// A number with a fraction.
    Number(f64),
    /// A histogram.
    Histogram(&'a Histogram),
}

impl Snapshot {
    /// Returns all figures with their names.
    #[must_use]
    pub fn families(&self) -> Vec<Family<'_>> {
        let mut families = self.counts();
        families.extend(self.levels());
        families.extend(self.worker_families());
        families.extend(self.durations());
        families
    }

    fn counts(&self) -> Vec<Family<'_>> {
        [
            ("ramie_strands_spawned_total", "Strands spawned.", self.spawned),
            ("ramie_strands_ended_total", "Strands ended.", self.ended),
            ("ramie_resumes_total", "Strands started or resumed by a worker.", self.resumed),
            ("ramie_polls_total", "Looks of workers outside their run queues.", self.polls),
            ("ramie_sleeps_total", "Sleeps of workers in the kernel.", self.sleeps),
            ("ramie_parks_total", "Waits that others may end.", self.parks),
            ("ramie_wakes_here_total", "Wakes by the strand's own worker.", self.wakes.here),
            ("ramie_wakes_by_threads_total", "Wakes by other threads.", self.wakes.by_threads),
            ("ramie_wakes_by_timers_total", "Waits ended by timers.", self.wakes.by_timers),
            ("ramie_steals_total", "Closures taken from other workers.", self.stolen),
            ("ramie_ring_enters_total", "Calls of io_uring_enter.", self.rings.enters),
            ("ramie_ring_ops_total", "Ops submitted through rings.", self.rings.ops),
            ("ramie_blocking_jobs_begun_total", "Blocking jobs begun.", self.blocking.begun),
        ]
        .map(|(name, help, count)| single(name, help, FamilyKind::Counter, Value::Count(count)))
        .into()
    }

    fn levels(&self) -> Vec<Family<'_>> {
        let Snapshot { rings, blocking, stacks, .. } = self;
        [
            ("ramie_strands", "Strands that have not ended.", self.alive()),
            ("ramie_rings", "Open rings.", rings.open as u64),
            ("ramie_blocking_threads", "Threads of the blocking pools.", blocking.threads as u64),
            ("ramie_blocking_jobs", "Blocking jobs that wait or run.", blocking.jobs as u64),
            ("ramie_stacks_made", "Stacks mapped and guarded.", stacks.made as u64),
            (
                "ramie_stacks_in_use",
                "Stacks that fibers use or workers keep for others.",
                stacks.in_use as u64,
            ),
            ("ramie_stacks_leaked", "Stacks that never return.", stacks.leaked as u64),
        ]
        .map(|(name, help, level)| single(name, help, FamilyKind::Gauge, Value::Count(level)))
        .into()
    }

    fn worker_families(&self) -> Vec<Family<'_>> {
        let of_workers = |value: fn(&WorkerLevels) -> Option<Value<'static>>| {
            let sample = |worker: &WorkerLevels| {
                let labels = vec![
                    ("worker", worker.index.to_string()),
                    ("thread", worker.thread_id.to_string()),
                ];
                Some(FigureSample { labels, value: value(worker)? })
            };
            self.workers.iter().filter_map(sample).collect()
        };
        vec![
            Family {
                name: "ramie_worker_cpu_seconds_total",
                help: "CPU time of the worker's thread.",
                kind: FamilyKind::Counter,
                samples: of_workers(|worker| Some(Value::Number(worker.cpu_ns? as f64 / 1e9))),
            },
            Family {
                name: "ramie_worker_fibers",
                help: "Fibers that have started and not ended.",
                kind: FamilyKind::Gauge,
                samples: of_workers(|worker| Some(Value::Count(worker.fibers as u64))),
            },
            Family {
                name: "ramie_worker_run_queue",
                help: "Length of the run queue at the last poll.",
                kind: FamilyKind::Gauge,
                samples: of_workers(|worker| Some(Value::Count(worker.run_queue))),
            },
            Family {
                name: "ramie_worker_timers",
                help: "Armed timers at the last poll.",
                kind: FamilyKind::Gauge,
                samples: of_workers(|worker| Some(Value::Count(worker.timers))),
            },
        ]
    }

    fn durations(&self) -> Vec<Family<'_>> {
        let histogram = |name, help, histogram| {
            single(name, help, FamilyKind::Histogram, Value::Histogram(histogram))
        };
        let label = |kind: &str| vec![("op", kind.to_owned())];
        let begun = self.ops.iter().map(|op| (label(op.kind), Value::Count(op.begun)));
        let durations = self.ops.iter().map(|op| (label(op.kind), Value::Histogram(&op.durations)));
        vec![
            histogram(
                "ramie_run_queue_delay_seconds",
                "Waits of fibers for their turn, sampled.",
                &self.durations.run_queue_delay,
            ),
            histogram(
                "ramie_run_length_seconds",
                "Times that fibers ran until they suspended, sampled.",
                &self.durations.run_length,
            ),
            histogram(
                "ramie_timer_lateness_seconds",
                "Lateness of timers.",
                &self.durations.timer_lateness,
            ),
            Family {
                name: "ramie_ops_total",
                help: "Ops begun.",
                kind: FamilyKind::Counter,
                samples: begun.map(|(labels, value)| FigureSample { labels, value }).collect(),
            },
            Family {
                name: "ramie_op_duration_seconds",
                help: "Times that ops took, sampled.",
                kind: FamilyKind::Histogram,
                samples: durations.map(|(labels, value)| FigureSample { labels, value }).collect(),
            },
        ]
    }
}

fn single<'a>(
    name: &'static str,
    help: &'static str,
    kind: FamilyKind,
    value: Value<'a>,
) -> Family<'a> {
    Family { name, help, kind, samples: vec![FigureSample { labels: Vec::new(), value }] }
}
