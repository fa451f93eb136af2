//! The figures of the process. Other tests of this program run meanwhile, so counts may be higher
//! than what a test does itself, and never lower.

use std::{
    io::{Read, Write},
    thread,
    time::Duration,
};

use crate::common::{has_ring, on_each, wait_until};
use ramie::{
    fiber, io,
    metrics::{Snapshot, WorkerLevels, snapshot},
    sync::{Event, Mutex},
};

fn begun(snapshot: &Snapshot, kind: &str) -> u64 {
    snapshot.ops.iter().find(|op| op.kind == kind).map_or(0, |op| op.begun)
}

/// Runs `f` on each driver; returns the snapshots before and after, the latter when all workers
/// have counted what they did.
fn around(workers: &[usize], f: impl Fn()) -> Vec<(Snapshot, Snapshot)> {
    let pairs = std::sync::Mutex::new(Vec::new());
    on_each(workers, |runtime| {
        let before = snapshot();
        runtime.run(&f);
        pairs.lock().unwrap().push((before, snapshot()));
    });
    pairs.into_inner().unwrap()
}

#[test]
fn spawns_switches_parks_and_wakes_are_counted() {
    let wait_in_turns = || {
        let event = Event::new();
        fiber::scope(|s| {
            (0..100).for_each(|_| _ = s.spawn(|| event.wait()));
            (0..50).for_each(|_| fiber::yield_now());
            event.set();
        });
    };
    for (before, after) in around(&[1, 2], wait_in_turns) {
        // With the closure of `run`.
        assert!(after.spawned >= before.spawned + 101, "{}", after.spawned - before.spawned);
        assert!(after.ended >= before.ended + 101);
        assert!(after.resumed >= before.resumed + 150, "{}", after.resumed - before.resumed);
        assert!(after.polls > before.polls);
        let wakes = |of: &Snapshot| of.wakes.here + of.wakes.by_threads;
        assert!(wakes(&after) > wakes(&before));
        assert!(after.parks > before.parks);
    }
}

#[test]
fn a_wake_by_another_thread_is_counted_as_such() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let before = snapshot().wakes.by_threads;
            // If the thread is early, the strand does not have to be woken.
            wait_until(|| {
                let strand = fiber::current();
                let waker = thread::spawn(move || strand.unpark());
                fiber::park();
                waker.join().unwrap();
                snapshot().wakes.by_threads > before
            });
        });
    });
}

#[test]
fn ops_are_counted_and_timed_by_kind() {
    let read_and_write = || {
        let (mut reader, mut writer) = io::pipe().unwrap();
        fiber::scope(|s| {
            s.spawn(move || {
                (0..100).for_each(|_| {
                    fiber::yield_now();
                    writer.write_all(b"!").unwrap();
                });
            });
            (0..100).for_each(|_| reader.read_exact(&mut [0]).unwrap());
        });
    };
    for (before, after) in around(&[1, 2], read_and_write) {
        for kind in ["read", "write"] {
            let count = begun(&after, kind) - begun(&before, kind);
            assert!(count >= 100, "{count} times {kind}");
            let op = after.ops.iter().find(|op| op.kind == kind).unwrap();
            assert!(op.durations.count() > 0 && op.durations.count() < op.begun);
            assert!(op.durations.quantile(1.0) > Some(Duration::ZERO));
        }
    }
}

#[test]
fn rings_are_counted() {
    if !has_ring() {
        return;
    }
    let runtime = ramie::Runtime::builder().driver(ramie::Driver::Uring).workers(1).build();
    runtime.unwrap().run(|| {
        let before = snapshot().rings;
        assert!(before.open > 0);
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"!").unwrap();
        reader.read_exact(&mut [0]).unwrap();
        let after = snapshot().rings;
        assert!(after.ops > before.ops && after.enters > before.enters);
    });
}

#[test]
fn late_timers_and_sampled_runs_are_in_their_histograms() {
    let sleep_and_compute = || {
        fiber::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..100 {
                        fiber::sleep(Duration::from_micros(200));
                        (0..10).for_each(|_| fiber::yield_now());
                    }
                });
            }
        });
    };
    for (before, after) in around(&[1, 2], sleep_and_compute) {
        let more = |of: fn(&Snapshot) -> u64| of(&after) - of(&before);
        let (wakes, late) =
            (more(|of| of.wakes.by_timers), more(|of| of.durations.timer_lateness.count()));
        // A sleep that is over before it begins, because its thread had no CPU, needs no timer.
        assert!(wakes >= 200 && late >= 200, "{wakes} wakes, {late} of them late");
        // One sample in 32 polls, and each sleep ends with one.
        assert!(more(|of| of.durations.run_queue_delay.count()) > 0);
        assert!(more(|of| of.durations.run_length.count()) > 0);
    }
}

/// A fiber that computes for 5 ms is in the histograms with that time, and so is the delay of the
/// fiber behind it.
#[test]
fn samples_measure_what_happened() {
    let runtime = ramie::Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let long = Duration::from_millis(5);
        let is_long = |snapshot: &Snapshot| {
            let longest = |of: &ramie::metrics::Histogram| of.quantile(1.0) >= Some(long);
            longest(&snapshot.durations.run_length) && longest(&snapshot.durations.run_queue_delay)
        };
        let start = std::time::Instant::now();
        let end = &Event::new();
        fiber::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    while !end.is_set() {
                        let start = std::time::Instant::now();
                        while start.elapsed() < long {}
                        fiber::yield_now();
                    }
                });
            }
            while !is_long(&snapshot()) {
                assert!(start.elapsed() < Duration::from_secs(60), "no sample is that long");
                fiber::yield_now();
            }
            end.set();
        });
    });
}

#[test]
fn steals_and_blocking_jobs_are_counted() {
    let runtime = ramie::Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| {
        let before = snapshot();
        ramie::blocking(|| {
            let during = snapshot().blocking;
            assert!(during.threads > 0 && during.jobs > 0);
        });
        assert!(snapshot().blocking.begun > before.blocking.begun);
        wait_until(|| {
            fiber::scope(|s| (0..64).for_each(|_| _ = s.spawn(fiber::yield_now)));
            snapshot().stolen > before.stolen
        });
    });
}

#[test]
fn workers_are_listed_while_they_run() {
    let runtime = ramie::Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| {
        let mutex = Mutex::new(());
        let guard = mutex.lock().unwrap();
        fiber::scope(|s| {
            (0..10).for_each(|_| _ = s.spawn(|| drop(mutex.lock().unwrap())));
            wait_until(|| {
                let fibers = |worker: WorkerLevels| worker.fibers;
                snapshot().workers.into_iter().map(fibers).sum::<usize>() >= 11
            });
            drop(guard);
        });
        assert!(snapshot().workers.iter().all(|worker| worker.cpu_ns > Some(0)));
    });
}

/// Reads the text as a scraper does: each sample has a name of a family that was announced, and a
/// number; the buckets of a histogram rise and end with its count.
#[test]
fn the_text_is_that_of_prometheus() {
    for (_, after) in around(&[1, 2], || fiber::sleep(Duration::from_millis(1))) {
        let text = after.prometheus().to_string();
        let mut family = ("", "");
        let mut last = (String::new(), 0.0);
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                assert!(
                    help.split_once(' ').is_some_and(|(_, text)| text.ends_with('.')),
                    "{line}"
                );
                continue;
            }
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                family = kind.split_once(' ').unwrap();
                assert!(["counter", "gauge", "histogram"].contains(&family.1), "{line}");
                continue;
            }
            let (name, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            let bare = name.split('{').next().unwrap();
            let suffixes: &[&str] =
                if family.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            let is_of_family = |suffix: &&'static str| bare.strip_suffix(*suffix) == Some(family.0);
            assert!(suffixes.iter().any(is_of_family), "{line} is not of {family:?}");
            if let Some((labels, _)) = name.split_once("le=") {
                // The buckets of one histogram stand in a row.
                assert!(labels != last.0 || value >= last.1, "{line}");
                last = (labels.to_owned(), value);
            }
            if name.starts_with(&format!("{}_count", family.0)) {
                assert_eq!(value, last.1, "{line}");
            }
        }
        assert!(
            text.contains("ramie_worker_cpu_seconds_total{worker=\"") || after.workers.is_empty()
        );
    }
}
