//! `ramie run --counters`: the events that the kernel, the CPU, the runtime and the allocator count
//! while a workload runs.
//!
//! The counters cover the interval of `seconds`: the workload's stopwatch calls [`before`] and
//! [`after`] right before and after it.

mod allocator;
mod events;
mod runs;
mod sys;
mod whole_process;

use std::{
    borrow::Cow,
    fmt, fs, mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ramie_driver::RingTotals;
use ramie_workloads::{IntervalHooks, hook_intervals, kib_field};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::{
    allocator::Allocations,
    events::{EventReading, Events},
    runs::{Histogram, Runs},
};
pub(crate) use self::{
    runs::CountingFifo,
    whole_process::{UsedByProcess, wait_for},
};

/// The reading of one counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Counted {
    Count(u64),
    Number(f64),
    /// The reason why there is no number.
    Missing(String),
}

/// The counters of one repetition, by name.
pub(crate) struct Counters(Vec<NamedCounter>);

/// The names of all counters, in the order in which reports show them.
pub(crate) const NAMES: [&str; 22] = [
    "voluntary_switches",
    "involuntary_switches",
    "migrations",
    "minor_faults",
    "major_faults",
    "user_s",
    "system_s",
    "peak_rss_bytes",
    "ring_enters",
    "ring_ops",
    "runs_min",
    "runs_median",
    "runs_max",
    "allocations",
    "allocated_bytes",
    "allocations_per_op",
    "allocated_bytes_per_op",
    "cycles",
    "instructions",
    "branches",
    "branch_misses",
    "cache_misses",
];

/// A counter with its name.
type NamedCounter = (Cow<'static, str>, Counted);

/// The counters of a member of the engine `processes`, as it reports them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OfMember {
    counters: Vec<NamedCounter>,
    runs: Histogram,
}

/// The state between the calls of the stopwatch.
struct Interval {
    events: Option<Events>,
    counts_runs: bool,
    before: Option<Snapshot>,
    counters: Vec<NamedCounter>,
    /// The counters of member processes.
    of_members: Vec<OfMember>,
}

static INTERVAL: Mutex<Interval> = Mutex::new(Interval {
    events: None,
    counts_runs: false,
    before: None,
    counters: Vec::new(),
    of_members: Vec::new(),
});

fn interval() -> MutexGuard<'static, Interval> {
    INTERVAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counters that only grow.
struct Snapshot {
    events: Vec<Option<EventReading>>,
    usage: libc::rusage,
    rings: RingTotals,
    allocations: Allocations,
    /// Why the peak of the resident memory cannot be restarted, if so.
    old_peak: Option<String>,
}

/// Begins to count. Threads that run already are not covered, so this comes first.
pub(crate) fn enable() {
    interval().events = Some(Events::open());
    let (thread_end, helper) = (end_of_thread, runs::omit_this_fiber);
    hook_intervals(IntervalHooks { before, after, thread_end, helper });
}

/// Selects what is counted from now on: only the runs of strands, or everything except these.
pub(crate) fn count_runs_only(is_so: bool) {
    interval().counts_runs = is_so;
}

/// Adds strands that are neither fibers nor threads, each with its number of runs.
pub(crate) fn add_runs(runs: impl IntoIterator<Item = u64>) {
    runs.into_iter().for_each(|runs| runs::add(runs, 1));
}

/// Counts the runs of the calling thread, which is a strand and about to end. Threads that serve
/// connections end after the interval, so their whole life counts.
pub(crate) fn end_of_thread() {
    if interval().counts_runs {
        runs::add_this_thread();
    }
}

/// The counters of this process, which is a member, if it was asked to count.
pub(crate) fn of_this_member() -> Option<OfMember> {
    let mut interval = interval();
    interval.events.as_ref()?;
    Some(OfMember { counters: mem::take(&mut interval.counters), runs: runs::take() })
}

/// Adds the counters of a member of this process.
pub(crate) fn add_member(member: OfMember) {
    interval().of_members.push(member);
}

fn before() {
    let mut interval = interval();
    if interval.counts_runs {
        return runs::begin();
    }
    let restarted = fs::write("/proc/self/clear_refs", "5");
    let before = Snapshot {
        old_peak: restarted.err().map(|error| format!("/proc/self/clear_refs: {error}")),
        events: interval.events.as_ref().map(Events::read).unwrap_or_default(),
        usage: sys::resource_usage(),
        rings: ramie_driver::ring_totals(),
        allocations: allocator::counted(),
    };
    interval.before = Some(before);
    // Last, because the lines above allocate.
    allocator::count_allocations(true);
}

fn after() {
    allocator::count_allocations(false);
    let rings = ramie_driver::ring_totals();
    let usage = sys::resource_usage();
    let allocations = allocator::counted();
    let mut interval = interval();
    if interval.counts_runs {
        return runs::end();
    }
    let Some(before) = interval.before.take() else { return };
    let mut counters = of_kernel(&before.usage, &usage);
    counters.push(("peak_rss_bytes", peak_rss(before.old_peak)));
    counters.extend(of_rings(before.rings, rings));
    let delta = |before, after: u64| Counted::Count(after - before);
    let Allocations { allocations: count, bytes } = before.allocations;
    counters.push(("allocations", delta(count, allocations.allocations)));
    counters.push(("allocated_bytes", delta(bytes, allocations.bytes)));
    if let Some(events) = &interval.events {
        counters.extend(events.between(&before.events, &events.read()));
    }
    interval.counters =
        counters.into_iter().map(|(name, counted)| (name.into(), counted)).collect();
}

fn of_kernel(before: &libc::rusage, after: &libc::rusage) -> Vec<(&'static str, Counted)> {
    let count = |of: fn(&libc::rusage) -> i64| Counted::Count((of(after) - of(before)) as u64);
    let seconds = |of: fn(&libc::rusage) -> libc::timeval| {
        let us = |usage| of(usage).tv_sec * 1_000_000 + of(usage).tv_usec;
        Counted::Number((us(after) - us(before)) as f64 / 1e6)
    };
    vec![
        ("voluntary_switches", count(|usage| usage.ru_nvcsw)),
        ("involuntary_switches", count(|usage| usage.ru_nivcsw)),
        ("minor_faults", count(|usage| usage.ru_minflt)),
        ("major_faults", count(|usage| usage.ru_majflt)),
        ("user_s", seconds(|usage| usage.ru_utime)),
        ("system_s", seconds(|usage| usage.ru_stime)),
    ]
}

/// The peak of the resident memory since the interval began.
fn peak_rss(old_peak: Option<String>) -> Counted {
    if let Some(reason) = old_peak {
        return Counted::Missing(reason);
    }
    let peak = fs::read_to_string("/proc/self/status").map(|status| kib_field(&status, "VmHWM:"));
    match peak {
        Ok(Some(kib)) => Counted::Count(kib * 1024),
        Ok(None) => Counted::Missing("/proc/self/status has no VmHWM".to_owned()),
        Err(error) => Counted::Missing(format!("/proc/self/status: {error}")),
    }
}

fn of_rings(before: RingTotals, after: RingTotals) -> [(&'static str, Counted); 2] {
    let reading = |count| match after.open {
        0 => Counted::Missing("no ring: strands are no fibers, or the driver polls".to_owned()),
        _ => Counted::Count(count),
    };
    [
        ("ring_enters", reading(after.enters - before.enters)),
        ("ring_ops", reading(after.ops - before.ops)),
    ]
}

impl Counted {
    /// The sum of a counter over two processes.
    fn plus(self, other: Counted) -> Counted {
        match (self, other) {
            (Counted::Count(one), Counted::Count(other)) => Counted::Count(one + other),
            (Counted::Number(one), Counted::Number(other)) => Counted::Number(one + other),
            (missing @ Counted::Missing(_), _) | (_, missing) => missing,
        }
    }
}

/// The sums over all members; of the peaks of their memory, too, so that sum is an upper bound.
fn sums(members: Vec<OfMember>) -> Option<Vec<NamedCounter>> {
    let all = members.into_iter().map(|member| member.counters);
    all.reduce(|sums, of_member| {
        let both = sums.into_iter().zip(of_member);
        both.map(|((name, sum), (_, counted))| (name, sum.plus(counted))).collect()
    })
}

impl Counters {
    /// The counters of the repetition that has just ended. `count_runs` runs it once more, to count
    /// the runs of its strands.
    pub(crate) fn of_repetition<E>(
        ops: u64,
        count_runs: impl FnOnce() -> Result<(), E>,
    ) -> Result<Self, E> {
        let (own, members) = {
            let mut interval = interval();
            (mem::take(&mut interval.counters), mem::take(&mut interval.of_members))
        };
        // The process that waits for members counts as well, but does no part of the work.
        let mut counters = sums(members).unwrap_or(own);
        let per_op = |name| match counters.iter().find(|(other, _)| *other == name) {
            Some((_, Counted::Count(count))) => Counted::Number(*count as f64 / ops as f64),
            _ => Counted::Missing("not counted".to_owned()),
        };
        let allocations = ["allocations", "allocated_bytes"].map(per_op);
        let names = ["allocations_per_op", "allocated_bytes_per_op"].map(Cow::Borrowed);
        counters.extend(names.into_iter().zip(allocations));
        count_runs_only(true);
        let has_run = count_runs();
        count_runs_only(false);
        has_run?;
        counters.extend(of_runs());
        Ok(Counters(counters))
    }

    /// The counters as a JSON object: `null` for each that is not available, with the reasons in
    /// the object `unavailable`.
    pub(crate) fn json(&self) -> Value {
        let missing = self.0.iter().filter_map(|(name, reading)| match reading {
            Counted::Missing(reason) => Some((name.to_string(), reason.as_str().into())),
            _ => None,
        });
        self.object(Value::Object(missing.collect()))
    }

    /// As [`json`](Self::json), for CSV: the reasons are one text, so that every row has the same
    /// columns.
    pub(crate) fn cells(&self) -> Value {
        let reasons = self.reasons().into_iter();
        let texts = reasons.map(|(reason, names)| format!("no {}: {reason}", names.join(", ")));
        self.object(texts.collect::<Vec<_>>().join("; ").into())
    }

    fn object(&self, unavailable: Value) -> Value {
        let value = |reading: &Counted| match reading {
            Counted::Count(count) => (*count).into(),
            Counted::Number(number) => (*number).into(),
            Counted::Missing(_) => Value::Null,
        };
        let values = self.0.iter().map(|(name, reading)| (name.to_string(), value(reading)));
        let mut object: Map<_, _> = values.collect();
        object.insert("unavailable".to_owned(), unavailable);
        let scope = interval().events.as_ref().and_then(Events::scope);
        object.insert("events_of".to_owned(), scope.into());
        object.into()
    }

    /// The reasons why counters are not available, each with the names of these counters.
    fn reasons(&self) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (name, reading) in &self.0 {
            let Counted::Missing(reason) = reading else { continue };
            match reasons.iter_mut().find(|(other, _)| other == reason) {
                Some((_, names)) => names.push(name),
                None => reasons.push((reason, vec![name])),
            }
        }
        reasons
    }
}

/// The runs that the last repetition has counted, here and in members.
fn of_runs() -> [NamedCounter; 3] {
    for member in mem::take(&mut interval().of_members) {
        member.runs.into_iter().for_each(|(runs, strands)| runs::add(runs, strands));
    }
    let runs = Runs::of(&runs::take());
    let counter = |of: fn(&Runs) -> u64| match &runs {
        Some(runs) => Counted::Count(of(runs)),
        None => Counted::Missing("no strand ran".to_owned()),
    };
    [
        ("runs_min".into(), counter(|runs| runs.min)),
        ("runs_median".into(), counter(|runs| runs.median)),
        ("runs_max".into(), counter(|runs| runs.max)),
    ]
}

/// One line: ` name=value` for each counter, `name=-` for those that are not available, and their
/// reasons.
impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  counters:")?;
        for (name, reading) in &self.0 {
            match reading {
                Counted::Count(count) => write!(f, " {name}={count}")?,
                Counted::Number(number) => write!(f, " {name}={number:.6}")?,
                Counted::Missing(_) => write!(f, " {name}=-")?,
            }
        }
        for (reason, names) in self.reasons() {
            write!(f, "; no {}: {reason}", names.join(", "))?;
        }
        Ok(())
    }
}
