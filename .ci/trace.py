"""Checks a trace of `ramie run pipe` with Perfetto's protobuf classes.

Each fiber must have waits, and each wait that has ended must have a wake-up: an instant on another
track, with an arrow to the fiber.
"""

import argparse
from collections import Counter, defaultdict

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--fibers", type=int, required=True)
parser.add_argument("--forget-flows", action="store_true", help="the canary")
arguments = parser.parse_args()

trace = Trace()
with open(arguments.file, "rb") as file:
    trace.ParseFromString(file.read())

tracks, names, events = {}, {}, []
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1
    for name in packet.interned_data.event_names:
        names[name.iid] = name.name
    if packet.HasField("track_descriptor"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
    if packet.HasField("track_event"):
        events.append((packet.timestamp, packet.track_event))


process = [track for track in tracks.values() if track.HasField("process")]
assert len(process) == 1, process
assert all(track.parent_uuid == process[0].uuid for track in tracks.values() if track != process[0])
workers = {uuid for uuid, track in tracks.items() if track.HasField("thread")}
fibers = {uuid for uuid, track in tracks.items() if track.name.startswith("fiber ")}
assert workers and fibers
events.sort(key=lambda event: event[0])

# The slices of each track follow one another, and each flow begins at an instant elsewhere.
open_slice, begins, phases, gaps = {}, {}, defaultdict(list), 0
for time, event in events:
    track = event.track_uuid
    assert track in tracks, track
    if event.type == TrackEvent.TYPE_SLICE_END:
        assert track in open_slice, f"{tracks[track].name}: the end of no slice"
        del open_slice[track]
        continue
    flows = [] if arguments.forget_flows else list(event.flow_ids)
    name = names[event.name_iid]
    gaps += name == "events were overwritten"
    if event.type == TrackEvent.TYPE_INSTANT:
        for flow in flows:
            assert flow not in begins, "two instants with one flow"
            begins[flow] = (track, name)
        continue
    assert event.type == TrackEvent.TYPE_SLICE_BEGIN
    assert track not in open_slice, f"{tracks[track].name}: a slice inside of another"
    open_slice[track] = name
    details = {note.name: note.string_value or note.int_value for note in event.debug_annotations}
    arrows = [] if arguments.forget_flows else list(event.terminating_flow_ids)
    if track in fibers:
        phases[track].append((name, flows, arrows, details, gaps))
assert not open_slice, open_slice

busy = 0
causes = Counter()
for fiber, slices in phases.items():
    waits = 0
    # The first slice may have begun before the trace, and its wake-up may have come before, too.
    for before, after, behind in zip(slices[1:], slices[2:], slices[3:]):
        if before[0] not in ("waits: data from a pipe", "waits: room in a pipe"):
            continue
        if before[4] != behind[4]:
            # The recorder was too slow on this machine, and events between them are missing.
            continue
        assert before[3].get("location", "").count(":") == 2, before
        waits += 1
        assert after[0] == "runnable", (before, after)
        woken = [flow for flow in after[1] if flow in begins and begins[flow][0] != fiber]
        assert len(woken) == 1, f"{tracks[fiber].name}: a wait without a wake-up"
        assert behind[0] == "runs" and behind[2] == woken, (after, behind)
        causes[begins[woken[0]][1]] += 1
    busy += waits > 10
print(f"{len(events)} events, {gaps} gaps; {busy} fibers with more than ten waits; wake-ups: {dict(causes)}")
assert busy == arguments.fibers, f"expected {arguments.fibers} fibers with waits, found {busy}"
