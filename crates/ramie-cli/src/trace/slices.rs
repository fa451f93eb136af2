//! The slices of tracks, one after the other: what each strand and each worker does.

use std::{collections::HashMap, time::Duration};

use ramie::fiber::FiberId;

use super::{
    packets::{Detail, Flow, Packets, Track},
    tracks::{StrandTracks, worker_track},
};

/// What a strand does, according to the events so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Unknown,
    NotStarted,
    Runs,
    Waits,
    Runnable,
    Ended,
}

pub(super) struct StrandState {
    track: Track,
    label: String,
    pub(super) phase: Phase,
    /// The arrow of the wake-up or the spawn that the strand has not followed yet.
    pub(super) flow: Option<Flow>,
    /// The worker on which it runs.
    worker: Option<usize>,
    /// When its phase began.
    pub(super) since: Duration,
}

/// What a worker does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Occupation {
    Nothing,
    Strand(FiberId),
    Sleep,
}

/// The slices that have begun, on the tracks of strands and workers.
pub(super) struct Slices<'a, 'b> {
    pub(super) strands: HashMap<FiberId, StrandState>,
    pub(super) packets: &'a mut Packets<'b>,
    workers: Vec<Occupation>,
    flows: u64,
}

impl<'a, 'b> Slices<'a, 'b> {
    pub(super) fn new(tracks: StrandTracks, workers: usize, packets: &'a mut Packets<'b>) -> Self {
        let state = |(id, (track, label))| {
            let (phase, since) = (Phase::Unknown, Duration::ZERO);
            (id, StrandState { track, label, phase, flow: None, worker: None, since })
        };
        let strands = tracks.into_iter().map(state).collect();
        Slices { strands, packets, workers: vec![Occupation::Nothing; workers], flows: 0 }
    }

    /// Events of a worker are missing, so the phases of its strands are unknown.
    pub(super) fn forget(&mut self, worker: usize, time: Duration, count: u64) {
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
    pub(super) fn begin_phase(
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

    pub(super) fn begin_flow(&mut self) -> Flow {
        self.flows += 1;
        Flow(self.flows)
    }

    /// The track of the strand that did something, or of the worker.
    pub(super) fn track_of(&self, strand: Option<FiberId>, worker: usize) -> Track {
        let track = strand.and_then(|strand| Some(self.strands.get(&strand)?.track));
        track.unwrap_or(worker_track(worker))
    }

    pub(super) fn label(&self, strand: Option<FiberId>) -> &str {
        strand.and_then(|strand| self.strands.get(&strand)).map_or("a strand", |state| &state.label)
    }

    pub(super) fn begin(
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

    /// Lets the track of a worker show another occupation.
    pub(super) fn set_worker(
        &mut self,
        worker: usize,
        runs: Occupation,
        time: Duration,
        name: &str,
    ) {
        let before = std::mem::replace(&mut self.workers[worker], runs);
        if before != Occupation::Nothing {
            self.packets.end_slice(worker_track(worker), time);
        }
        if runs != Occupation::Nothing {
            self.packets.slice(worker_track(worker), time, name, &[], [None, None]);
        }
    }

    pub(super) fn run(&mut self, worker: usize, strand: Option<FiberId>, time: Duration) {
        if let Some(id) = strand {
            let label = self.label(strand).to_owned();
            self.strands.entry(id).and_modify(|state| state.worker = Some(worker));
            self.set_worker(worker, Occupation::Strand(id), time, &label);
        }
    }

    /// A strand suspends or ends. If another one is on the worker's track, that one has yielded.
    pub(super) fn stop(&mut self, worker: usize, time: Duration) {
        if matches!(self.workers[worker], Occupation::Strand(_)) {
            self.set_worker(worker, Occupation::Nothing, time, "");
        }
    }

    pub(super) fn sleep(&mut self, worker: usize, time: Duration) {
        self.set_worker(worker, Occupation::Sleep, time, "sleeps");
    }
}
