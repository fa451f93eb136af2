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
    inspect::{EndOfWait, Trace, TraceEvent, TraceEventKind, TracedWait, WakeSource},
};

use super::{
    packets::{Detail, Packets, Track},
    slices::{Occupation, Phase, Slices, StrandState},
    tracks::{self, PROCESS, worker_track},
};

/// Writes a trace as Perfetto reads it.
///
/// # Errors
/// That of the sink.
pub(super) fn convert(trace: &Trace, sink: &mut dyn Write) -> io::Result<()> {
    let mut packets = Packets::begin(sink, trace);
    let strands = tracks::strand_tracks(trace);
    tracks::describe(trace, &strands, &mut packets);
    let begin = trace.events.first().map_or(trace.span[0], |event| event.time);
    let mut state =
        Conversion { trace, slices: Slices::new(strands, trace.workers.len(), &mut packets) };
    state.begin_waits(begin);
    for event in &trace.events {
        state.add(event);
    }
    state.finish(begin);
    packets.end()
}

struct Conversion<'a, 'b> {
    trace: &'a Trace,
    slices: Slices<'a, 'b>,
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
                self.slices.begin_phase(
                    strand.id,
                    Phase::Waits,
                    begin,
                    &name_of(wait),
                    &details_of(wait),
                );
            }
        }
    }

    fn add(&mut self, event: &TraceEvent) {
        let TraceEvent { time, worker, strand, .. } = *event;
        let here = self.slices.track_of(strand, worker);
        match &event.kind {
            TraceEventKind::Spawned { by, .. } => self.add_spawn(event, *by),
            TraceEventKind::Started => {
                self.slices.run(worker, strand, time);
                self.slices.begin(strand, Phase::Runs, time, "runs", &[]);
            }
            TraceEventKind::Waits(wait) => self.add_wait(event, wait),
            TraceEventKind::Continues { end, .. } => {
                let end = match end {
                    EndOfWait::TimedOut => Some("timed out"),
                    EndOfWait::Cancelled => Some("cancelled"),
                    _ => None,
                };
                let details: Vec<_> = end.iter().map(|end| Detail::Text("wait", end)).collect();
                self.slices.run(worker, strand, time);
                self.slices.begin(strand, Phase::Runs, time, "runs", &details);
            }
            TraceEventKind::Wakes { by, source, .. } => {
                let name = match source {
                    WakeSource::Op => "op wakes",
                    WakeSource::Timer => "timer wakes",
                    WakeSource::Cancellation => "cancels the wait of",
                    _ => "wakes",
                };
                let name = format!("{name} {}", self.slices.label(strand));
                self.add_wake(event, self.slices.track_of(*by, worker), &name, &[]);
            }
            TraceEventKind::Received => {
                let name = format!("takes {} from the inbox", self.slices.label(strand));
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
                self.slices.packets.instant(here, time, &format!("{op} at once"), &details, None);
            }
            TraceEventKind::Ended { has_panicked, .. } => {
                let name = if *has_panicked { "ends by a panic" } else { "ends" };
                self.slices.stop(worker, time);
                self.slices.begin(strand, Phase::Ended, time, "", &[]);
                self.slices.packets.instant(here, time, name, &[], None);
            }
            TraceEventKind::Panics { message, .. } => {
                let details = [Detail::Text("message", message)];
                self.slices.packets.instant(here, time, "panics", &details, None);
            }
            TraceEventKind::Cancels { scope, .. } => {
                let scope = format!("{scope:#x}");
                let details = [Detail::Text("scope", &scope)];
                self.slices.packets.instant(here, time, "cancels a scope", &details, None);
            }
            TraceEventKind::Stolen => {
                let name = format!("steals {}", self.slices.label(strand));
                self.slices.packets.instant(worker_track(worker), time, &name, &[], None);
            }
            TraceEventKind::Overwritten { count, .. } => self.slices.forget(worker, time, *count),
            TraceEventKind::Sleeps => self.slices.sleep(worker, time),
            TraceEventKind::Awakes => self.slices.set_worker(worker, Occupation::Nothing, time, ""),
            _ => {}
        }
    }

    fn add_spawn(&mut self, event: &TraceEvent, by: Option<FiberId>) {
        let flow = self.slices.begin_flow();
        let name = format!("spawns {}", self.slices.label(event.strand));
        let track = self.slices.track_of(by, event.worker);
        self.slices.packets.instant(track, event.time, &name, &[], Some(flow));
        if let Some(state) = event.strand.and_then(|strand| self.slices.strands.get_mut(&strand)) {
            state.flow = Some(flow);
        }
        self.slices.begin(event.strand, Phase::NotStarted, event.time, "not started", &[]);
    }

    fn add_wait(&mut self, event: &TraceEvent, wait: &TracedWait) {
        self.slices.stop(event.worker, event.time);
        self.slices.begin(
            event.strand,
            Phase::Waits,
            event.time,
            &name_of(wait),
            &details_of(wait),
        );
        let is_woken =
            |strand| self.slices.strands.get(strand).is_some_and(|state| state.flow.is_some());
        if event.strand.as_ref().is_some_and(is_woken) {
            // Another thread ended the wait before the strand had suspended.
            self.slices.begin(event.strand, Phase::Runnable, event.time, "runnable", &[]);
        }
    }

    /// Adds an instant that makes a strand runnable, unless it is already.
    fn add_wake(&mut self, event: &TraceEvent, track: Track, name: &str, details: &[Detail<'_>]) {
        let phase = event.strand.and_then(|strand| Some(self.slices.strands.get(&strand)?.phase));
        let is_cause = matches!(phase, Some(Phase::Waits | Phase::Unknown | Phase::Runs));
        // A strand that was woken while it ran comes through the inbox only later.
        let is_passed_on = matches!(event.kind, TraceEventKind::Received)
            && matches!(phase, Some(Phase::Runs | Phase::Unknown));
        let flow = (is_cause && !is_passed_on).then(|| self.slices.begin_flow());
        self.slices.packets.instant(track, event.time, name, details, flow);
        let Some(flow) = flow else { return };
        if let Some(state) = event.strand.and_then(|strand| self.slices.strands.get_mut(&strand)) {
            state.flow = Some(flow);
        }
        if phase != Some(Phase::Runs) {
            self.slices.begin(event.strand, Phase::Runnable, event.time, "runnable", &[]);
        }
    }

    /// Ends all slices, and adds the waits that no event belongs to.
    fn finish(&mut self, begin: Duration) {
        let end =
            self.trace.events.last().map_or(begin, |event| event.time).max(self.trace.span[1]);
        for strand in &self.trace.strands {
            let StrandState { phase, since, .. } = self.slices.strands[&strand.id];
            let has_waited = |wait: &&TracedWait| wait.since.is_some_and(|since| since <= end);
            if let (Phase::Unknown, Some(wait)) = (phase, strand.wait.as_ref().filter(has_waited)) {
                let since = wait.since.unwrap_or(begin).max(begin).clamp(since.min(end), end);
                self.slices.begin_phase(
                    strand.id,
                    Phase::Waits,
                    since,
                    &name_of(wait),
                    &details_of(wait),
                );
            }
            self.slices.begin_phase(strand.id, Phase::Ended, end, "", &[]);
        }
        for worker in 0..self.trace.workers.len() {
            self.slices.set_worker(worker, Occupation::Nothing, end, "");
        }
        if !self.trace.is_complete {
            self.slices.packets.instant(PROCESS, end, "the trace is cut off", &[], None);
        }
    }
}
