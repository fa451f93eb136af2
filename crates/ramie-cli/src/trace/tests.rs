//! Traces of this process, converted and read again.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    time::Duration,
};

use prost::Message;
use ramie::{
    Runtime, fiber,
    inspect::{self, FlightRecorder, Trace},
    sync::Event,
};

use super::{
    convert::convert,
    messages::{EventType, TracePacket, TrackEvent},
};

#[derive(Clone, PartialEq, Message)]
struct TraceFile {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

/// Records `f` with that many bytes for the events of a worker.
fn recorded(bytes: usize, f: impl FnOnce()) -> Trace {
    let folder = std::env::temp_dir().join(format!("ramie-convert-{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&folder).unwrap();
    let recorder = FlightRecorder::new(&folder).bytes_per_worker(bytes);
    let runtime = Runtime::builder().workers(1).flight_recorder(recorder).build().unwrap();
    let path = runtime.run(|| {
        f();
        inspect::write_trace().unwrap()
    });
    let trace = Trace::read(&fs::read(path).unwrap()).unwrap();
    fs::remove_dir_all(folder).unwrap();
    trace
}

/// One fiber wakes another one, and one sleeps.
fn three_fibers() {
    let event = Event::new();
    fiber::scope(|s| {
        let spawn = |name: &str| fiber::Builder::new().name(name.to_owned());
        spawn("woken").spawn_scoped(s, || event.wait().unwrap()).unwrap();
        spawn("waker").spawn_scoped(s, || event.set()).unwrap();
        let sleep = || fiber::sleep(Duration::from_millis(1));
        spawn("sleeper").spawn_scoped(s, sleep).unwrap();
    });
}

/// Two fibers that wait for each other many times.
fn many_waits() {
    let (there, at_other) = ramie::channel::bounded(1);
    let (back, at_first) = ramie::channel::bounded(1);
    fiber::scope(|s| {
        s.spawn(move || at_other.iter().for_each(|()| back.send(()).unwrap()));
        s.spawn(move || {
            for _ in 0..1_000 {
                there.send(()).unwrap();
                at_first.recv().unwrap();
            }
        });
    });
}

/// A converted trace, by tracks.
struct Converted {
    tracks: HashMap<String, u64>,
    names: HashMap<u64, String>,
    events: Vec<TrackEvent>,
}

impl Converted {
    fn of(trace: &Trace) -> Converted {
        let mut bytes = Vec::new();
        convert(trace, &mut bytes).unwrap();
        let packets = TraceFile::decode(&*bytes).unwrap().packet;
        let mut converted =
            Converted { tracks: HashMap::new(), names: HashMap::new(), events: Vec::new() };
        for packet in packets {
            for name in packet.interned_data.into_iter().flat_map(|data| data.event_names) {
                converted.names.insert(name.iid.unwrap(), name.name.unwrap());
            }
            if let Some(track) = packet.track_descriptor {
                let thread = track.thread.and_then(|thread| thread.thread_name);
                let process = track.process.and_then(|process| process.process_name);
                let name = track.name.or(thread).or(process).unwrap();
                converted.tracks.insert(name, track.uuid.unwrap());
            }
            converted.events.extend(packet.track_event);
        }
        converted
    }

    /// The track whose name begins so.
    #[track_caller]
    fn track(&self, begin: &str) -> u64 {
        let mut tracks = self.tracks.iter();
        *tracks.find(|(name, _)| name.starts_with(begin)).expect(begin).1
    }

    /// The slices or instants of a track, with their names.
    fn of_track(&self, track: u64, kind: EventType) -> Vec<(&str, &TrackEvent)> {
        let is_meant = |event: &&TrackEvent| {
            event.track_uuid == Some(track) && event.r#type == Some(kind.into())
        };
        let named = |event: &'_ TrackEvent| event.name_iid.map_or("", |name| &self.names[&name]);
        self.events.iter().filter(is_meant).map(|event| (named(event), event)).collect()
    }
}

#[test]
fn phases_follow_one_another_and_arrows_lead_to_them() {
    let trace = recorded(1 << 20, three_fibers);
    let converted = Converted::of(&trace);
    let woken = converted.track("fiber 'woken' (");
    let slices = converted.of_track(woken, EventType::SliceBegin);
    let names: Vec<_> = slices.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["not started", "runs", "waits: an Event", "runnable", "runs"]);
    let [location] = &slices[2].1.debug_annotations[..] else { panic!("{slices:?}") };
    assert!(location.string_value.as_ref().unwrap().contains("trace/tests.rs:"));
    let ends = converted.of_track(woken, EventType::SliceEnd);
    assert_eq!(ends.len(), slices.len());

    // The arrow from the waker, through `runnable`, to `runs`.
    let waker = converted.track("fiber 'waker' (");
    let instants = converted.of_track(waker, EventType::Instant);
    let wakes = instants.iter().find(|(name, _)| name.starts_with("wakes fiber 'woken'"));
    let flows = &wakes.expect("the wake-up").1.flow_ids;
    assert_eq!(flows.len(), 1);
    assert_eq!((&slices[3].1.flow_ids, &slices[4].1.terminating_flow_ids), (flows, flows));
    // And that from the spawn to the first run.
    let main = converted.track("fiber 'main' (");
    let instants = converted.of_track(main, EventType::Instant);
    let spawns = instants.iter().find(|(name, _)| name.starts_with("spawns fiber 'woken'"));
    let flows = &spawns.expect("the spawn").1.flow_ids;
    assert_eq!((&slices[0].1.flow_ids, &slices[1].1.terminating_flow_ids), (flows, flows));

    let sleeper = converted.track("fiber 'sleeper' (");
    let slices = converted.of_track(sleeper, EventType::SliceBegin);
    let last = slices[slices.len() - 1].1;
    assert_eq!(last.debug_annotations[0].string_value.as_deref(), Some("timed out"));
    let worker = converted.track("worker 0 (");
    let instants = converted.of_track(worker, EventType::Instant);
    assert!(instants.iter().any(|(name, _)| name.starts_with("timer wakes fiber 'sleeper'")));
    let runs = converted.of_track(worker, EventType::SliceBegin);
    assert!(runs.iter().any(|(name, _)| name.starts_with("fiber 'waker'")), "{runs:?}");
    assert!(runs.iter().any(|(name, _)| *name == "sleeps"), "{runs:?}");

    // Not a test of its own, because a process has one recorder.
    overwritten_events_are_mentioned();
}

fn overwritten_events_are_mentioned() {
    let mut trace = recorded(4096, many_waits);
    trace.is_complete = false;
    let converted = Converted::of(&trace);
    let instants = converted.of_track(converted.track("worker 0 ("), EventType::Instant);
    let (_, lost) = instants.iter().find(|(name, _)| *name == "events were overwritten").unwrap();
    let count = trace.workers[0].overwritten as i64;
    assert!(count > 1_000 && lost.debug_annotations[0].int_value == Some(count));
    let process = converted.of_track(converted.track("Ramie, process"), EventType::Instant);
    assert_eq!(process[0].0, "the trace is cut off");
    // A wait whose begin was overwritten begins with the trace.
    let is_continued = |event: &&inspect::TraceEvent| {
        matches!(event.kind, inspect::TraceEventKind::Continues { .. })
    };
    let id = trace.events.iter().find(is_continued).unwrap().strand.unwrap();
    let slices = converted.of_track(converted.track(&format!("fiber {id}")), EventType::SliceBegin);
    assert!(slices[0].0.starts_with("waits: "), "{slices:?}");
    for track in converted.tracks.values() {
        let begun = converted.of_track(*track, EventType::SliceBegin).len();
        assert_eq!(converted.of_track(*track, EventType::SliceEnd).len(), begun);
    }
}
