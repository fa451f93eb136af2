//! The tracks of a trace: the process, its workers, its strands; their numbers and names.

use std::collections::HashMap;

use ramie::{
    fiber::FiberId,
    inspect::{Trace, TracedStrand, TracedWorker},
};

use super::{
    messages::{ProcessDescriptor, ThreadDescriptor, TrackDescriptor},
    packets::{Packets, Track},
};

pub(super) const PROCESS: Track = Track(1);
/// The first tracks of workers and of strands.
const WORKERS: u64 = 1 << 32;
const STRANDS: u64 = 1 << 33;

/// The track of each strand, and its name in the viewer.
pub(super) type StrandTracks = HashMap<FiberId, (Track, String)>;

pub(super) fn strand_tracks(trace: &Trace) -> StrandTracks {
    let track = |(index, strand): (usize, &TracedStrand)| {
        (strand.id, (Track(STRANDS + index as u64), label_of(strand)))
    };
    trace.strands.iter().enumerate().map(track).collect()
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

pub(super) fn worker_track(worker: usize) -> Track {
    Track(WORKERS + worker as u64)
}

/// Describes the tracks of a trace: the process, its workers and its strands.
pub(super) fn describe(trace: &Trace, strands: &StrandTracks, packets: &mut Packets<'_>) {
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
        let (track, label) = &strands[&strand.id];
        packets.track(TrackDescriptor {
            uuid: Some(track.0),
            name: Some(label.clone()),
            parent_uuid: Some(PROCESS.0),
            description: Some(description.join("; ")),
            ..TrackDescriptor::default()
        });
    }
}
