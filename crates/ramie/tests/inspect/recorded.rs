//! Helpers of the tests of traces: a program with a recorder, and the parts of its trace.

use std::fs;

use ramie::{
    Builder, Runtime,
    fiber::{self, FiberId},
    inspect::{self, FlightRecorder, Trace, TraceEvent, TraceEventKind, TracedStrand},
};

use crate::{
    common::{assert_success, child_with, full_name, is_child},
    served::Folder,
    spawned_in,
};

pub(crate) fn recorded_in(folder: &Folder, workers: usize) -> Builder {
    Runtime::builder().workers(workers).flight_recorder(FlightRecorder::new(&folder.0))
}

/// Whether this process runs only this test; otherwise it runs such a process. A process has one
/// recorder for all of its runtimes.
#[track_caller]
pub(crate) fn is_alone(test: &str) -> bool {
    if !is_child() {
        assert_success(&child_with("true", &full_name(test), &[]));
    }
    is_child()
}

/// Runs `f`, and returns the trace of it.
pub(crate) fn traced(workers: usize, f: impl FnOnce()) -> Trace {
    let folder = Folder::new();
    let path = recorded_in(&folder, workers).build().unwrap().run(|| {
        f();
        inspect::write_trace().unwrap()
    });
    let trace = Trace::read(&fs::read(path).unwrap()).unwrap();
    assert!(trace.is_complete && !trace.is_full, "{trace:?}");
    assert_eq!((trace.process, &*trace.why), (std::process::id(), "call"));
    assert!(trace.events.is_sorted_by_key(|event| event.time));
    trace
}

#[track_caller]
pub(crate) fn strand<'a>(trace: &'a Trace, name: &str) -> &'a TracedStrand {
    let mut strands = trace.strands.iter();
    strands.find(|strand| strand.name.as_deref() == Some(name)).expect(name)
}

pub(crate) fn events_of(trace: &Trace, id: FiberId) -> Vec<&TraceEvent> {
    trace.events.iter().filter(|event| event.strand == Some(id)).collect()
}

/// Spawns two fibers that wait for each other in turns, as long as `goes_on`.
pub(crate) fn pass_tokens<'a>(
    s: &'a fiber::Scope<'a, '_>,
    mut goes_on: impl FnMut() -> bool + Send + 'a,
) {
    let (there, at_other) = ramie::channel::bounded(1);
    let (back, at_first) = ramie::channel::bounded(1);
    spawned_in(s, "other", move || {
        while let Ok(()) = at_other.recv() {
            back.send(()).unwrap();
        }
    });
    spawned_in(s, "first", move || {
        while goes_on() {
            there.send(()).unwrap();
            at_first.recv().unwrap();
        }
    });
}

/// The kinds of the events of a strand.
pub(crate) fn kinds<'a>(trace: &'a Trace, name: &str) -> Vec<&'a TraceEventKind> {
    let id = strand(trace, name).id;
    events_of(trace, id).into_iter().map(|event| &event.kind).collect()
}
