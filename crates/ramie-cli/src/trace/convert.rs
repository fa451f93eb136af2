//! From the events of a trace to slices and flows.
//!
//! Each strand has a track, on which one slice follows the other: `not started`, `runs`, `waits:
//! PURPOSE`, `runnable`. Each worker has a track with the strands that it runs and its sleeps. A
//! wake-up is an instant on the track of the strand that wakes (of the worker, if an op or a timer
//! does), and an arrow to the slices of the strand that is woken.
//!
//! `yield_now` is no event: a strand that yields stays in `runs`, and a worker's slice ends with
//! the next event of another strand.

use std::{
    collections::HashMap,
    io::{self, Write},
    time::Duration,
};

use ramie::{
    fiber::FiberId,
    inspect::{
        EndOfWait, Trace, TraceEvent, TraceEventKind, TracedStrand, TracedWait, TracedWorker,
        WakeSource,
    },
};

use super::{
    messages::{ProcessDescriptor, ThreadDescriptor, TrackDescriptor},
    packets::{Detail, Flow, Packets, Track},
};

const PROCESS: Track = Track(1);
/// The first tracks of workers and of strands.
const WORKERS: u64 = 1 << 32;
const STRANDS: u64 = 1 << 33;

/// Writes a trace as Perfetto reads it.
///
/// # Errors
/// That of the sink.
pub(super) fn convert(trace: &Trace, sink: &mut dyn Write) -> io::Result<()> {
    let mut packets = Packets::begin(sink, trace);
    let strands = strands_of(trace);
    describe(trace, &strands, &mut packets);
    let begin = trace.events.first().map_or(trace.span[0], |event| event.time);
    let workers = vec![Occupation::Nothing; trace.workers.len()];
    let mut state = Conversion { trace, strands, workers, flows: 0, packets: &mut packets };
    state.begin_waits(begin);
    for event in &trace.events {
        state.add(event);
    }
    state.finish(begin);
    packets.end()
}

/// What a strand does, according to the events so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Unknown,
    NotStarted,
    Runs,
    Waits,
    Runnable,
    Ended,
}

struct StrandState {
    track: Track,
    label: String,
    phase: Phase,
    /// The arrow of the wake-up or the spawn that the strand has not followed yet.
    flow: Option<Flow>,
    /// The worker on which it runs.
    worker: Option<usize>,
    /// When its phase began.
    since: Duration,
}

/// What a worker does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Occupation {
    Nothing,
    Strand(FiberId),
    Sleep,
}

struct Conversion<'a, 'b> {
    trace: &'a Trace,
    strands: HashMap<FiberId, StrandState>,
    workers: Vec<Occupation>,
    flows: u64,
    packets: &'a mut Packets<'b>,
}

fn strands_of(trace: &Trace) -> HashMap<FiberId, StrandState> {
    let state = |(index, strand): (usize, &TracedStrand)| {
        let track = Track(STRANDS + index as u64);
        let label = label_of(strand);
        (
            strand.id,
            StrandState {
                track,
                label,
                phase: Phase::Unknown,
                flow: None,
                worker: None,
                since: Duration::ZERO,
            },
        )
    };
    trace.strands.iter().enumerate().map(state).collect()
}

/// The name of a strand in the viewer: as dumps name it.
fn label_of(strand: &TracedStrand) -> String {
    let noun = if strand.id.is_thread() { "thread" } else { "fiber" };
    match &strand.name {
        Some(name) => format!("{noun} '{name}' ({})", strand.id),
        None => format!("{noun} {}", strand.id),
    }
}

fn worker_label(worker: &TracedWorker) -> String {
    let name = worker.thread_name.as_deref().unwrap_or("thread");
    match worker.index {
        Some(index) => format!("worker {index} ({name})"),
        None => name.to_owned(),
    }
}

fn worker_track(worker: usize) -> Track {
    Track(WORKERS + worker as u64)
}

fn describe(trace: &Trace, strands: &HashMap<FiberId, StrandState>, packets: &mut Packets<'_>) {
    let pid = trace.process.cast_signed();
    let process = ProcessDescriptor {
        pid: Some(pid),
        process_name: Some(format!("Ramie, process {pid} (trace on {})", trace.why)),
    };
    packets.track(TrackDescriptor {
        uuid: Some(PROCESS.0),
        process: Some(process),
        ..TrackDescriptor::default()
    });
    for (index, worker) in trace.workers.iter().enumerate() {
        let thread = ThreadDescriptor {
            pid: Some(pid),
            tid: Some(worker.thread_id.into()),
            thread_name: Some(worker_label(worker)),
        };
        packets.track(TrackDescriptor {
            uuid: Some(worker_track(index).0),
            parent_uuid: Some(PROCESS.0),
            thread: Some(thread),
            ..TrackDescriptor::default()
        });
    }
    for strand in &trace.strands {
        let spawned = strand.spawned_at.iter().map(|location| format!("spawned at {location}"));
        let closure = strand.closure.iter().map(|closure| format!("runs {closure}"));
        let description: Vec<_> = spawned.chain(closure).collect();
        packets.track(TrackDescriptor {
            uuid: Some(strands[&strand.id].track.0),
            name: Some(strands[&strand.id].label.clone()),
            parent_uuid: Some(PROCESS.0),
            description: Some(description.join("; ")),
            ..TrackDescriptor::default()
        });
    }
}

fn details_of(wait: &TracedWait) -> Vec<Detail<'_>> {
    let location = wait.location.as_deref().map(|location| Detail::Text("location", location));
    let fd = wait.fd.map(|fd| Detail::Number("fd", fd.into()));
    location.into_iter().chain(fd).collect()
}

fn name_of(wait: &TracedWait) -> String {
    format!("waits: {}", wait.purpose.as_deref().unwrap_or("unknown"))
}

impl Conversion<'_, '_> {
    /// Begins the slices of the waits that had begun before the first event.
    fn begin_waits(&mut self, begin: Duration) {
        let mut met = HashMap::new();
        for event in &self.trace.events {
            let Some(strand) = event.strand else { continue };
            let wait = match &event.kind {
                TraceEventKind::Continues { wait, .. } => Some(&**wait),
                TraceEventKind::Spawned { .. }
                | TraceEventKind::Started
                | TraceEventKind::Waits(_)
                | TraceEventKind::Ended { .. } => None,
                _ => continue,
            };
            met.entry(strand).or_insert(wait);
        }
        for strand in &self.trace.strands {
            let is_early = |wait: &&TracedWait| wait.since.is_some_and(|since| since <= begin);
            let wait = match met.get(&strand.id) {
                Some(wait) => *wait,
                // It has waited all the time.
                None => strand.wait.as_ref().filter(is_early),
            };
            if let Some(wait) = wait {
                self.begin_phase(strand.id, Phase::Waits, begin, &name_of(wait), &details_of(wait));
            }
        }
    }

    /// Events of a worker are missing, so the phases of its strands are unknown.
    fn forget(&mut self, worker: usize, time: Duration, count: u64) {
        let details = [Detail::Number("events", i64::try_from(count).unwrap_or(i64::MAX))];
        let track = worker_track(worker);
        self.packets.instant(track, time, "events were overwritten", &details, None);
        self.set_worker(worker, Occupation::Nothing, time, "");
        for state in self.strands.values_mut().filter(|state| state.worker == Some(worker)) {
            if !matches!(state.phase, Phase::Unknown | Phase::Ended) {
                self.packets.end_slice(state.track, time);
                state.phase = Phase::Unknown;
                state.since = time;
                state.flow = None;
            }
        }
    }

    /// Ends the phase of a strand, and begins the next one, through which its flow goes.
    fn begin_phase(
        &mut self,
        strand: FiberId,
        phase: Phase,
        time: Duration,
        name: &str,
        details: &[Detail<'_>],
    ) {
        let Some(state) = self.strands.get_mut(&strand) else { return };
        if !matches!(state.phase, Phase::Unknown | Phase::Ended) {
            self.packets.end_slice(state.track, time);
        }
        state.phase = phase;
        state.since = time;
        let flows = match phase {
            Phase::Runs => [None, state.flow.take()],
            Phase::NotStarted | Phase::Runnable => [state.flow, None],
            _ => [None, None],
        };
        if phase != Phase::Ended {
            self.packets.slice(state.track, time, name, details, flows);
        }
    }

    fn begin_flow(&mut self) -> Flow {
        self.flows += 1;
        Flow(self.flows)
    }

    /// The track of the strand that did something, or of the worker.
    fn track_of(&self, strand: Option<FiberId>, worker: usize) -> Track {
        let track = strand.and_then(|strand| Some(self.strands.get(&strand)?.track));
        track.unwrap_or(worker_track(worker))
    }

    fn label(&self, strand: Option<FiberId>) -> &str {
        strand.and_then(|strand| self.strands.get(&strand)).map_or("a strand", |state| &state.label)
    }

    fn add(&mut self, event: &TraceEvent) {
        let TraceEvent { time, worker, strand, .. } = *event;
        let here = self.track_of(strand, worker);
        match &event.kind {
            TraceEventKind::Spawned { by, .. } => self.add_spawn(event, *by),
            TraceEventKind::Started => {
                self.run(worker, strand, time);
                self.begin(strand, Phase::Runs, time, "runs", &[]);
            }
            TraceEventKind::Waits(wait) => self.add_wait(event, wait),
            TraceEventKind::Continues { end, .. } => {
                let end = match end {
                    EndOfWait::TimedOut => Some("timed out"),
                    EndOfWait::Cancelled => Some("cancelled"),
                    _ => None,
                };
                let details: Vec<_> = end.iter().map(|end| Detail::Text("wait", end)).collect();
                self.run(worker, strand, time);
                self.begin(strand, Phase::Runs, time, "runs", &details);
            }
            TraceEventKind::Wakes { by, source, .. } => {
                let name = match source {
                    WakeSource::Op => "op wakes",
                    WakeSource::Timer => "timer wakes",
                    WakeSource::Cancellation => "cancels the wait of",
                    _ => "wakes",
                };
                let name = format!("{name} {}", self.label(strand));
                self.add_wake(event, self.track_of(*by, worker), &name, &[]);
            }
            TraceEventKind::Received => {
                let name = format!("takes {} from the inbox", self.label(strand));
                self.add_wake(event, worker_track(worker), &name, &[]);
            }
            TraceEventKind::Completed { op, result, .. } => {
                let details = [Detail::Number("result", (*result).into())];
                self.add_wake(event, worker_track(worker), &format!("{op} completes"), &details);
            }
            TraceEventKind::CompletedAtOnce { op, fd, result, .. } => {
                let fd = fd.map(|fd| Detail::Number("fd", fd.into()));
                let result = Detail::Number("result", (*result).into());
                let details: Vec<_> = fd.into_iter().chain([result]).collect();
                self.packets.instant(here, time, &format!("{op} at once"), &details, None);
            }
            TraceEventKind::Ended { has_panicked, .. } => {
                let name = if *has_panicked { "ends by a panic" } else { "ends" };
                self.stop(worker, time);
                self.begin(strand, Phase::Ended, time, "", &[]);
                self.packets.instant(here, time, name, &[], None);
            }
            TraceEventKind::Panics { message, .. } => {
                let details = [Detail::Text("message", message)];
                self.packets.instant(here, time, "panics", &details, None);
            }
            TraceEventKind::Cancels { scope, .. } => {
                let scope = format!("{scope:#x}");
                let details = [Detail::Text("scope", &scope)];
                self.packets.instant(here, time, "cancels a scope", &details, None);
            }
            TraceEventKind::Stolen => {
                let name = format!("steals {}", self.label(strand));
                self.packets.instant(worker_track(worker), time, &name, &[], None);
            }
            TraceEventKind::Overwritten { count, .. } => self.forget(worker, time, *count),
            TraceEventKind::Sleeps => self.sleep(worker, time),
            TraceEventKind::Awakes => self.set_worker(worker, Occupation::Nothing, time, ""),
            _ => {}
        }
    }

    fn begin(
        &mut self,
        strand: Option<FiberId>,
        phase: Phase,
        time: Duration,
        name: &str,
        details: &[Detail<'_>],
    ) {
        if let Some(strand) = strand {
            self.begin_phase(strand, phase, time, name, details);
        }
    }

    fn add_spawn(&mut self, event: &TraceEvent, by: Option<FiberId>) {
        let flow = self.begin_flow();
        let name = format!("spawns {}", self.label(event.strand));
        let track = self.track_of(by, event.worker);
        self.packets.instant(track, event.time, &name, &[], Some(flow));
        if let Some(state) = event.strand.and_then(|strand| self.strands.get_mut(&strand)) {
            state.flow = Some(flow);
        }
        self.begin(event.strand, Phase::NotStarted, event.time, "not started", &[]);
    }

    fn add_wait(&mut self, event: &TraceEvent, wait: &TracedWait) {
        self.stop(event.worker, event.time);
        self.begin(event.strand, Phase::Waits, event.time, &name_of(wait), &details_of(wait));
        let is_woken = |strand| self.strands.get(strand).is_some_and(|state| state.flow.is_some());
        if event.strand.as_ref().is_some_and(is_woken) {
            // Another thread ended the wait before the strand had suspended.
            self.begin(event.strand, Phase::Runnable, event.time, "runnable", &[]);
        }
    }

    /// Adds an instant that makes a strand runnable, unless it is already.
    fn add_wake(&mut self, event: &TraceEvent, track: Track, name: &str, details: &[Detail<'_>]) {
        let phase = event.strand.and_then(|strand| Some(self.strands.get(&strand)?.phase));
        let is_cause = matches!(phase, Some(Phase::Waits | Phase::Unknown | Phase::Runs));
        // A strand that was woken while it ran comes through the inbox only later.
        let is_passed_on = matches!(event.kind, TraceEventKind::Received)
            && matches!(phase, Some(Phase::Runs | Phase::Unknown));
        let flow = (is_cause && !is_passed_on).then(|| self.begin_flow());
        self.packets.instant(track, event.time, name, details, flow);
        let Some(flow) = flow else { return };
        if let Some(state) = event.strand.and_then(|strand| self.strands.get_mut(&strand)) {
            state.flow = Some(flow);
        }
        if phase != Some(Phase::Runs) {
            self.begin(event.strand, Phase::Runnable, event.time, "runnable", &[]);
        }
    }

    /// Lets the track of a worker show another occupation.
    fn set_worker(&mut self, worker: usize, runs: Occupation, time: Duration, name: &str) {
        let before = std::mem::replace(&mut self.workers[worker], runs);
        if before != Occupation::Nothing {
            self.packets.end_slice(worker_track(worker), time);
        }
        if runs != Occupation::Nothing {
            self.packets.slice(worker_track(worker), time, name, &[], [None, None]);
        }
    }

    fn run(&mut self, worker: usize, strand: Option<FiberId>, time: Duration) {
        if let Some(id) = strand {
            let label = self.label(strand).to_owned();
            self.strands.entry(id).and_modify(|state| state.worker = Some(worker));
            self.set_worker(worker, Occupation::Strand(id), time, &label);
        }
    }

    /// A strand suspends or ends. If another one is on the worker's track, that one has yielded.
    fn stop(&mut self, worker: usize, time: Duration) {
        if matches!(self.workers[worker], Occupation::Strand(_)) {
            self.set_worker(worker, Occupation::Nothing, time, "");
        }
    }

    fn sleep(&mut self, worker: usize, time: Duration) {
        self.set_worker(worker, Occupation::Sleep, time, "sleeps");
    }

    /// Ends all slices, and adds the waits that no event belongs to.
    fn finish(&mut self, begin: Duration) {
        let end =
            self.trace.events.last().map_or(begin, |event| event.time).max(self.trace.span[1]);
        for strand in &self.trace.strands {
            let StrandState { phase, since, .. } = self.strands[&strand.id];
            let has_waited = |wait: &&TracedWait| wait.since.is_some_and(|since| since <= end);
            if let (Phase::Unknown, Some(wait)) = (phase, strand.wait.as_ref().filter(has_waited)) {
                let since = wait.since.unwrap_or(begin).max(begin).clamp(since.min(end), end);
                self.begin_phase(strand.id, Phase::Waits, since, &name_of(wait), &details_of(wait));
            }
            self.begin_phase(strand.id, Phase::Ended, end, "", &[]);
        }
        for worker in 0..self.workers.len() {
            self.set_worker(worker, Occupation::Nothing, end, "");
        }
        if !self.trace.is_complete {
            self.packets.instant(PROCESS, end, "the trace is cut off", &[], None);
        }
    }
}
