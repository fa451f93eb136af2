//! Traces: the events of each wait and wake-up, whatever ends it, and bytes that are no trace.

use std::{
    fs,
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use ramie::{
    Runtime, cancel, fiber,
    inspect::{self, EndOfWait, FlightRecorder, Trace, TraceEventKind, WakeSource},
    sync::Event,
};

use crate::{
    common::{assert_success, child_with, driver_names, is_child},
    recorded::{events_of, is_alone, kinds, pass_tokens, recorded_in, strand, traced},
    served::Folder,
    spawned_in,
};

const FILE: &str = file!();

/// Checks that the wait of a strand for `purpose` was ended by `source`.
#[track_caller]
fn assert_woken(
    trace: &Trace,
    name: &str,
    purpose: &str,
    by: Option<&str>,
    woken: (WakeSource, EndOfWait),
) {
    let kinds = kinds(trace, name);
    let is_begin = |kind: &&TraceEventKind| match kind {
        TraceEventKind::Waits(wait) => wait.purpose.as_deref() == Some(purpose),
        _ => false,
    };
    let begin = kinds.iter().position(is_begin).unwrap_or_else(|| panic!("{kinds:?}"));
    let TraceEventKind::Waits(wait) = kinds[begin] else { unreachable!() };
    let location = wait.location.as_deref().expect("a location");
    assert!(location.starts_with(FILE), "{location}");
    let by = by.map(|by| strand(trace, by).id);
    let is_wake = |kind: &TraceEventKind| {
        matches!(kind, TraceEventKind::Wakes { by: found, source, .. }
            if *found == by && *source == woken.0)
    };
    assert!(is_wake(kinds[begin + 1]), "{kinds:?}");
    let TraceEventKind::Continues { wait: same, end, .. } = kinds[begin + 2] else {
        panic!("{kinds:?}")
    };
    assert_eq!((same, *end), (wait, woken.1));
}

#[test]
fn each_wait_and_wake_up_of_pipes_is_in_the_trace() {
    const PAIRS: usize = 3;
    const ROUNDS: usize = 50;
    if !is_child() {
        for driver in driver_names() {
            let name = "each_wait_and_wake_up_of_pipes_is_in_the_trace";
            assert_success(&child_with("true", name, &[("RAMIE_DRIVER", driver)]));
        }
        return;
    }
    let trace = traced(1, || {
        fiber::scope(|s| {
            for pair in 0..PAIRS {
                let (mut reader, mut writer) = ramie::io::pipe().unwrap();
                let (mut acked, mut ack) = ramie::io::pipe().unwrap();
                spawned_in(s, &format!("reader {pair}"), move || {
                    for _ in 0..ROUNDS {
                        reader.read_exact(&mut [0; 8]).unwrap();
                        ack.write_all(b"!").unwrap();
                    }
                });
                spawned_in(s, &format!("writer {pair}"), move || {
                    for _ in 0..ROUNDS {
                        writer.write_all(b"8 bytes.").unwrap();
                        acked.read_exact(&mut [0]).unwrap();
                    }
                });
            }
        });
    });
    assert_eq!(trace.workers.len(), 1);
    assert_eq!((trace.workers[0].index, trace.workers[0].overwritten), (Some(0), 0));
    let main = strand(&trace, "main").id;
    for pair in 0..PAIRS {
        for role in ["reader", "writer"] {
            let name = format!("{role} {pair}");
            let kinds = kinds(&trace, &name);
            let spawned = &kinds[..2];
            assert!(
                matches!(spawned, [TraceEventKind::Spawned { by, .. }, TraceEventKind::Started]
                    if *by == Some(main)),
                "{kinds:?}"
            );
            let last = kinds[kinds.len() - 1];
            assert!(matches!(last, TraceEventKind::Ended { has_panicked: false, .. }), "{kinds:?}");
            // Each wait is followed by the completion of its op, and that by its end.
            let mut waits = 0;
            for (at, kind) in kinds.iter().enumerate() {
                let TraceEventKind::Waits(wait) = kind else { continue };
                assert!(wait.purpose.as_deref().unwrap().ends_with("pipe"), "{wait:?}");
                assert!(wait.fd.is_some() && wait.location.is_some(), "{wait:?}");
                let ended = &kinds[at + 1..at + 3];
                assert!(
                    matches!(ended, [
                        TraceEventKind::Completed { result: 0.., .. },
                        TraceEventKind::Continues { wait: same, end: EndOfWait::Woken, .. },
                    ] if same == wait),
                    "{kinds:?}"
                );
                waits += 1;
            }
            // The reader begins each round with nothing in its pipe, and so does the writer.
            assert!(waits >= ROUNDS - 1, "{waits} waits: {kinds:?}");
        }
    }
}

#[test]
fn a_wake_up_names_the_strand_that_woke() {
    if !is_alone("a_wake_up_names_the_strand_that_woke") {
        return;
    }
    let trace = traced(1, || {
        let event = Event::new();
        fiber::scope(|s| {
            spawned_in(s, "sleeper", || event.wait().unwrap());
            spawned_in(s, "waker", || event.set());
        });
    });
    let woken = (WakeSource::Strand, EndOfWait::Woken);
    assert_woken(&trace, "sleeper", "an Event", Some("waker"), woken);
    let sleeper = strand(&trace, "sleeper");
    assert!(sleeper.spawned_at.as_deref().unwrap().contains("inspect/main.rs"));
    let closure = sleeper.closure.as_deref().unwrap();
    assert!(closure.contains("a_wake_up_names_the_strand_that_woke"), "{closure}");
    // It has ended; the strand that asked waits for the blocking pool.
    assert!(sleeper.wait.is_none());
    assert!(strand(&trace, "main").wait.is_some());
}

#[test]
fn timers_and_cancellations_are_named_as_such() {
    if !is_alone("timers_and_cancellations_are_named_as_such") {
        return;
    }
    let trace = traced(1, || {
        let cancelled = Event::new();
        fiber::scope(|s| {
            spawned_in(s, "timed", || fiber::sleep(Duration::from_millis(1)));
            let (sent, handle) = mpsc::channel();
            let waits = &cancelled;
            spawned_in(s, "cancelled", move || {
                cancel::scope(|scope| {
                    sent.send(scope.handle()).unwrap();
                    waits.wait().unwrap_err();
                });
            });
            spawned_in(s, "canceller", move || assert!(handle.recv().unwrap().cancel()))
                .join()
                .unwrap();
        });
    });
    let timed_out = (WakeSource::Timer, EndOfWait::TimedOut);
    assert_woken(&trace, "timed", "a sleep", None, timed_out);
    let cancelled = (WakeSource::Cancellation, EndOfWait::Cancelled);
    assert_woken(&trace, "cancelled", "an Event", Some("canceller"), cancelled);
    let cancels = kinds(&trace, "canceller");
    assert!(cancels.iter().any(|kind| matches!(kind, TraceEventKind::Cancels { .. })));
}

#[test]
fn a_wake_up_by_another_thread_comes_through_the_inbox() {
    if !is_alone("a_wake_up_by_another_thread_comes_through_the_inbox") {
        return;
    }
    let trace = traced(1, || {
        fiber::scope(|s| {
            let parked = spawned_in(s, "parked", fiber::park);
            let handle = parked.thread().clone();
            // It has parked, because the worker is idle when the thread runs.
            fiber::yield_now();
            ramie::blocking(move || thread::spawn(move || handle.unpark()).join().unwrap());
        });
    });
    let kinds = kinds(&trace, "parked");
    let begin = kinds.iter().position(|kind| matches!(kind, TraceEventKind::Waits(_))).unwrap();
    assert!(
        matches!(
            kinds[begin..begin + 3],
            [_, TraceEventKind::Received, TraceEventKind::Continues { end: EndOfWait::Woken, .. },]
        ),
        "{kinds:?}"
    );
}

#[test]
fn a_panic_is_in_the_trace_with_its_message() {
    if !is_alone("a_panic_is_in_the_trace_with_its_message") {
        return;
    }
    const MESSAGE: &str = "on purpose, with a message that takes more than one event";
    let trace = traced(1, || {
        let builder = fiber::Builder::new().name("panics".to_owned());
        let panics = builder.spawn(|| std::panic::panic_any(MESSAGE)).unwrap();
        panics.join().unwrap_err();
    });
    let kinds = kinds(&trace, "panics");
    let [.., panics, ended] = &kinds[..] else { panic!("{kinds:?}") };
    assert!(matches!(panics, TraceEventKind::Panics { message, .. } if message == MESSAGE));
    assert!(matches!(ended, TraceEventKind::Ended { has_panicked: true, .. }), "{kinds:?}");
}

#[test]
fn a_stolen_closure_starts_on_the_worker_that_took_it() {
    if !is_alone("a_stolen_closure_starts_on_the_worker_that_took_it") {
        return;
    }
    let trace = traced(2, || {
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&has_run);
        let builder = fiber::Builder::new().name("stolen".to_owned());
        drop(builder.spawn(move || runs.store(true, Ordering::SeqCst)).unwrap());
        // This worker cannot run it.
        while !has_run.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    });
    let stolen = strand(&trace, "stolen").id;
    let events = events_of(&trace, stolen);
    let by = |is_kind: fn(&TraceEventKind) -> bool| {
        let event = events.iter().find(|event| is_kind(&event.kind));
        event.unwrap_or_else(|| panic!("{events:?}")).worker
    };
    let spawner = by(|kind| matches!(kind, TraceEventKind::Spawned { .. }));
    let thief = by(|kind| matches!(kind, TraceEventKind::Stolen));
    let runner = by(|kind| matches!(kind, TraceEventKind::Started));
    assert!(spawner != thief && thief == runner, "{events:?}");
}

/// Each such thread has a buffer of its own.
#[test]
fn strands_that_are_threads_are_recorded() {
    if !is_alone("strands_that_are_threads_are_recorded") {
        return;
    }
    let folder = Folder::new();
    let runtime = recorded_in(&folder, 1).strands(ramie::Strands::Threads).build().unwrap();
    let path = runtime.run(|| {
        let event = Event::new();
        fiber::scope(|s| {
            spawned_in(s, "sleeper", || event.wait().unwrap());
            crate::waiting("sleeper");
            event.set();
        });
        inspect::write_trace().unwrap()
    });
    let trace = Trace::read(&fs::read(path).unwrap()).unwrap();
    let sleeper = strand(&trace, "sleeper").id;
    assert!(sleeper.is_thread());
    let woken = (WakeSource::Strand, EndOfWait::Woken);
    let kinds = kinds(&trace, "sleeper");
    let is_received = |kind: &&TraceEventKind| !matches!(kind, TraceEventKind::Received);
    assert_eq!(kinds.iter().filter(|kind| !is_received(kind)).count(), 1, "{kinds:?}");
    let main = strand(&trace, "main").id;
    let is_woken = |kind: &&TraceEventKind| {
        matches!(kind, TraceEventKind::Wakes { by, source, .. }
            if *by == Some(main) && *source == woken.0)
    };
    assert!(kinds.iter().any(is_woken), "{kinds:?}");
    assert!(trace.workers.len() >= 2 && trace.workers.iter().all(|worker| worker.index.is_none()));
}

#[test]
fn the_oldest_events_are_overwritten_and_counted() {
    if !is_alone("the_oldest_events_are_overwritten_and_counted") {
        return;
    }
    const WAITS: usize = 1_000;
    let folder = Folder::new();
    let recorder = FlightRecorder::new(&folder.0).bytes_per_worker(4096);
    let runtime = Runtime::builder().workers(1).flight_recorder(recorder).build().unwrap();
    let path = runtime.run(|| {
        fiber::scope(|s| {
            let mut rounds = 0..WAITS;
            pass_tokens(s, move || rounds.next().is_some());
        });
        inspect::write_trace().unwrap()
    });
    let trace = Trace::read(&fs::read(path).unwrap()).unwrap();
    let worker = &trace.workers[0];
    assert!(trace.events.len() <= 128 && trace.events.len() > 100, "{}", trace.events.len());
    assert!(worker.overwritten > 2 * WAITS as u64, "{worker:?}");
    // Its spawn is overwritten, and it has ended; that of a strand alive comes from the dump.
    let main = trace.strands.iter().find(|strand| strand.name.as_deref() == Some("main"));
    assert!(main.is_some_and(|main| main.spawned_at.is_some()), "{:?}", trace.strands);
}

#[test]
fn bytes_that_are_no_trace_are_refused_and_damaged_ones_do_no_harm() {
    if !is_alone("bytes_that_are_no_trace_are_refused_and_damaged_ones_do_no_harm") {
        return;
    }
    let folder = Folder::new();
    let path = recorded_in(&folder, 1).build().unwrap().run(|| {
        fiber::spawn(|| fiber::sleep(Duration::from_nanos(1))).join().unwrap();
        inspect::write_trace().unwrap()
    });
    let bytes = fs::read(path).unwrap();
    let whole = Trace::read(&bytes).unwrap();
    for length in 0..bytes.len() {
        match Trace::read(&bytes[..length]) {
            Ok(cut) => {
                assert!(!cut.is_complete && cut.events.len() <= whole.events.len());
                assert_eq!(cut.why, "call");
            }
            Err(error) => assert_eq!(error.to_string(), "not a trace of Ramie"),
        }
    }
    let mut damaged = bytes.clone();
    for (at, byte) in bytes.iter().enumerate() {
        damaged[at] = !byte;
        let _ = Trace::read(&damaged);
        damaged[at] = *byte;
    }
    let mut newer = bytes;
    newer[8] = 2;
    let error = Trace::read(&newer).unwrap_err().to_string();
    assert!(error.contains("version 2") && error.contains("`ramie`"), "{error}");
    for no_trace in [&b""[..], b"RMTR", b"\x0a\x02\x40\x01", &[0xff; 100]] {
        assert!(Trace::read(no_trace).is_err());
    }
}
