//! Writing the packets of a trace: tracks, slices, instants and flows.

use std::{
    collections::HashMap,
    io::{self, Write},
    time::Duration,
};

use prost::Message;
use ramie::inspect::Trace;

use super::messages::{
    BEGINS_SEQUENCE, CONTINUES_SEQUENCE, Clock, ClockSnapshot, DebugAnnotation, EventName,
    EventType, InternedData, MONOTONIC, PACKET_TAG, REALTIME, TracePacket, TracePacketDefaults,
    TrackDescriptor, TrackEvent,
};

/// All packets are of one sequence, in which names are given numbers.
const SEQUENCE: u32 = 1;

/// A track of the viewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Track(pub(super) u64);

/// An arrow of the viewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flow(pub(super) u64);

/// A detail of a slice or an instant.
pub(super) enum Detail<'a> {
    Text(&'static str, &'a str),
    Number(&'static str, i64),
}

pub(super) struct Packets<'a> {
    sink: &'a mut dyn Write,
    buffer: Vec<u8>,
    names: HashMap<String, u64>,
    error: Option<io::Error>,
}

impl<'a> Packets<'a> {
    /// Begins the trace with its clock.
    pub(super) fn begin(sink: &'a mut dyn Write, trace: &Trace) -> Self {
        let mut packets = Packets { sink, buffer: Vec::new(), names: HashMap::new(), error: None };
        let clock = |clock_id, time: Duration| Clock {
            clock_id: Some(clock_id),
            timestamp: Some(time.as_nanos() as u64),
        };
        let [start, _] = trace.span;
        // The time of day was taken when the trace was begun, within moments of its end if it is a
        // file of a flight recorder. It is for orientation only.
        let clocks = vec![clock(MONOTONIC, start), clock(REALTIME, trace.begun_at)];
        packets.write(TracePacket {
            clock_snapshot: Some(ClockSnapshot { clocks, primary_trace_clock: Some(MONOTONIC) }),
            sequence_flags: Some(BEGINS_SEQUENCE),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(MONOTONIC),
            }),
            ..TracePacket::default()
        });
        packets
    }

    /// Returns the first error of the sink.
    pub(super) fn end(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    fn write(&mut self, packet: TracePacket) {
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        self.buffer.clear();
        self.buffer.push(PACKET_TAG);
        packet.encode_length_delimited(&mut self.buffer).expect("a vector grows");
        if self.error.is_none() {
            self.error = self.sink.write_all(&self.buffer).err();
        }
    }

    pub(super) fn track(&mut self, descriptor: TrackDescriptor) {
        self.write(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
    }

    /// Begins a slice; `flows` go through it, and `ends` end there.
    pub(super) fn slice(
        &mut self,
        track: Track,
        time: Duration,
        name: &str,
        details: &[Detail<'_>],
        flows: [Option<Flow>; 2],
    ) {
        let [through, end] = flows;
        let event = TrackEvent {
            r#type: Some(EventType::SliceBegin.into()),
            flow_ids: through.iter().map(|flow| flow.0).collect(),
            terminating_flow_ids: end.iter().map(|flow| flow.0).collect(),
            ..TrackEvent::default()
        };
        self.event(track, time, Some(name), details, event);
    }

    /// Ends the slice that was begun last on the track.
    pub(super) fn end_slice(&mut self, track: Track, time: Duration) {
        let event =
            TrackEvent { r#type: Some(EventType::SliceEnd.into()), ..TrackEvent::default() };
        self.event(track, time, None, &[], event);
    }

    pub(super) fn instant(
        &mut self,
        track: Track,
        time: Duration,
        name: &str,
        details: &[Detail<'_>],
        flow: Option<Flow>,
    ) {
        let event = TrackEvent {
            r#type: Some(EventType::Instant.into()),
            flow_ids: flow.iter().map(|flow| flow.0).collect(),
            ..TrackEvent::default()
        };
        self.event(track, time, Some(name), details, event);
    }

    fn event(
        &mut self,
        track: Track,
        time: Duration,
        name: Option<&str>,
        details: &[Detail<'_>],
        event: TrackEvent,
    ) {
        let mut interned_data = None;
        let name_iid = name.map(|name| {
            let next = self.names.len() as u64 + 1;
            if let Some(&iid) = self.names.get(name) {
                return iid;
            }
            self.names.insert(name.to_owned(), next);
            let event_names = vec![EventName { iid: Some(next), name: Some(name.to_owned()) }];
            interned_data = Some(InternedData { event_names });
            next
        });
        self.write(TracePacket {
            timestamp: Some(time.as_nanos() as u64),
            track_event: Some(TrackEvent {
                debug_annotations: details.iter().map(annotation).collect(),
                name_iid,
                track_uuid: Some(track.0),
                ..event
            }),
            interned_data,
            sequence_flags: Some(CONTINUES_SEQUENCE),
            ..TracePacket::default()
        });
    }
}

fn annotation(detail: &Detail<'_>) -> DebugAnnotation {
    let (name, int_value, string_value) = match *detail {
        Detail::Text(name, text) => (name, None, Some(text.to_owned())),
        Detail::Number(name, number) => (name, Some(number), None),
    };
    DebugAnnotation { name: Some(name.to_owned()), int_value, string_value }
}
