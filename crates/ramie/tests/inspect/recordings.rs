//! Recordings: one after another, two at a time, of workers that end, and longer than a chunk.

use std::{
    fs,
    io::{Read, Write},
    os::fd::AsRawFd,
    thread,
};

use ramie::{
    Runtime, cancel, fiber,
    inspect::{self, FlightRecorder, Trace, TraceEventKind, WakeSource},
    sync::Event,
};

use crate::{
    common::{is_child, wait_until},
    has_thread,
    recorded::{events_of, is_alone, kinds, pass_tokens, recorded_in, strand, traced},
    served::{Folder, alone, inspected},
    spawned_in,
    traced_requests::{self, begin},
};

#[test]
fn one_recording_follows_another() {
    if !is_alone("one_recording_follows_another") {
        return;
    }
    for _ in 0..3 {
        let trace = traced(1, || fiber::spawn(|| ()).join().unwrap());
        let main = events_of(&trace, strand(&trace, "main").id);
        assert!(main.len() >= 2, "{main:?}");
    }
}

/// The trace of a second in which `f` runs, taken by a request.
fn requested(f: impl FnOnce()) -> Trace {
    let (mut stream, mut bytes) = begin("trace 1\n", b"STRD");
    f();
    let bytes = ramie::blocking(move || {
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    });
    wait_until(|| !has_thread(traced_requests::THREAD));
    Trace::read(bytes.strip_prefix(b"ok trace\n").unwrap()).unwrap()
}

/// Of a strand that has ended, events alone tell the name.
fn has(trace: &Trace, name: &str) -> bool {
    trace.strands.iter().any(|strand| strand.name.as_deref() == Some(name))
}

#[test]
fn a_worker_follows_each_recording() {
    if !is_child() {
        alone("a_worker_follows_each_recording", &[]);
        return;
    }
    inspected().build().unwrap().run(|| {
        for name in ["first", "second"] {
            let trace = requested(|| fiber::scope(|s| drop(spawned_in(s, name, || ()))));
            assert!(has(&trace, name), "{trace:?}");
        }
    });
}

#[test]
fn a_request_for_a_trace_leaves_the_flight_recorder_alone() {
    if !is_child() {
        alone("a_request_for_a_trace_leaves_the_flight_recorder_alone", &[]);
        return;
    }
    let folder = Folder::new();
    let recorder = FlightRecorder::new(&folder.0);
    inspected().flight_recorder(recorder).build().unwrap().run(|| {
        fiber::scope(|s| {
            let run = |name: &str| drop(spawned_in(s, name, || ()).join());
            run("early");
            let requested = requested(|| run("during"));
            run("late");
            let path = inspect::write_trace().unwrap();
            let kept = Trace::read(&fs::read(path).unwrap()).unwrap();
            assert_eq!(["early", "during"].map(|name| has(&requested, name)), [false, true]);
            assert!(["early", "during", "late"].iter().all(|name| has(&kept, name)), "{kept:?}");
        });
    });
}

#[test]
fn the_events_of_the_last_workers_that_ended_are_kept() {
    if !is_alone("the_events_of_the_last_workers_that_ended_are_kept") {
        return;
    }
    const ENDED_KEPT: usize = 16;
    let trace = traced(1, || {
        let start_and_end = || Runtime::builder().workers(1).build().unwrap().run(|| ());
        for _ in 0..ENDED_KEPT + 4 {
            ramie::blocking(|| thread::scope(|s| s.spawn(start_and_end).join().unwrap()));
        }
    });
    let workers = trace.workers.iter().filter(|worker| worker.index == Some(0)).count();
    // The one that is recorded, and the last one, which ended when no buffer was made any more.
    assert!(workers <= 1 + ENDED_KEPT + 1, "{workers}");
}

#[test]
fn an_op_is_the_cause_of_the_wake_up_that_it_makes_and_of_no_other() {
    if !is_alone("an_op_is_the_cause_of_the_wake_up_that_it_makes_and_of_no_other") {
        return;
    }
    let mut fd = None;
    let trace = traced(1, || {
        let (mut reader, mut writer) = ramie::io::pipe().unwrap();
        fd = Some(reader.as_raw_fd());
        fiber::scope(|s| {
            // In a cancel scope the op is not the only one that may end the wait.
            let read = move || cancel::scope(|_| reader.read_exact(&mut [0]).unwrap());
            spawned_in(s, "reader", read);
            spawned_in(s, "writer", move || writer.write_all(b"!").unwrap());
        });
        let event = Event::new();
        fiber::scope(|s| {
            spawned_in(s, "sleeper", || event.wait().unwrap());
            spawned_in(s, "waker", || event.set());
        });
    });
    let waker = strand(&trace, "waker").id;
    let is_wake = |kind: &&TraceEventKind| {
        matches!(kind, TraceEventKind::Wakes { by, source: WakeSource::Strand, .. }
            if *by == Some(waker))
    };
    assert!(kinds(&trace, "sleeper").iter().any(is_wake), "{trace:?}");
    let kinds = kinds(&trace, "reader");
    let begin = kinds.iter().position(|kind| matches!(kind, TraceEventKind::Waits(_))).unwrap();
    let TraceEventKind::Waits(wait) = kinds[begin] else { unreachable!() };
    assert_eq!(wait.fd, fd);
    assert!(
        matches!(
            kinds[begin + 1..begin + 4],
            [
                TraceEventKind::Completed { .. },
                TraceEventKind::Wakes { by: None, source: WakeSource::Op, .. },
                TraceEventKind::Continues { .. },
            ]
        ),
        "{kinds:?}"
    );
}

#[test]
fn events_of_several_chunks_are_not_taken_for_overwritten() {
    if !is_alone("events_of_several_chunks_are_not_taken_for_overwritten") {
        return;
    }
    const ROUNDS: usize = 3_000;
    let folder = Folder::new();
    let path = recorded_in(&folder, 1).build().unwrap().run(|| {
        fiber::scope(|s| {
            let mut rounds = 0..ROUNDS;
            pass_tokens(s, move || rounds.next().is_some());
        });
        inspect::write_trace().unwrap()
    });
    let trace = Trace::read(&fs::read(path).unwrap()).unwrap();
    assert!(trace.events.len() > 2 * 4096, "{}", trace.events.len());
    assert!(trace.workers.iter().all(|worker| worker.overwritten == 0), "{:?}", trace.workers);
    let starts = trace.events.iter().filter(|event| event.kind == TraceEventKind::Started);
    let starts: Vec<_> = starts.map(|event| event.strand).collect();
    assert!(starts.iter().all(|id| starts.iter().filter(|other| *other == id).count() == 1));
}
