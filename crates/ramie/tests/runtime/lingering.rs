//! Fibers that keep `run` from returning are named, after a second, once.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::common::{assert_success, child_with, is_child, stderr};
use ramie::{Runtime, Strands, fiber};

/// Keeps the log, and lets the fibers end when it has a line.
struct Log;

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
static MAY_END: AtomicBool = AtomicBool::new(false);

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        if record.level() == log::Level::Warn {
            SAID.lock().unwrap().push(record.args().to_string());
            MAY_END.store(true, SeqCst);
        }
    }

    fn flush(&self) {}
}

fn linger(name: &str) {
    let linger = || {
        while !MAY_END.load(SeqCst) {
            fiber::sleep(Duration::from_millis(5));
        }
        // The line is not logged again.
        fiber::sleep(Duration::from_millis(1500));
    };
    fiber::Builder::new().name(name.to_owned()).spawn(linger).unwrap();
}

/// Runs a test in a process whose logger is ours; it is killed if `run` reports nothing.
fn in_child(test: &str, variables: &[(&str, &str)]) -> bool {
    if is_child() {
        log::set_logger(&Log).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
        return true;
    }
    let output = child_with("true", test, variables);
    assert_success(&output);
    let said = stderr(&output);
    let count = said.matches("ramie: run is still waiting 1s after").count();
    let expected = usize::from(cfg!(debug_assertions) && !said.contains("no line is expected"));
    assert_eq!(count, expected, "on stderr: {said}");
    false
}

fn said() -> Vec<String> {
    std::mem::take(&mut *SAID.lock().unwrap())
}

#[test]
fn run_names_the_fibers_that_it_waits_for() {
    let test = "run_names_the_fibers_that_it_waits_for";
    for workers in ["1", "2"] {
        for driver in ["poll", "auto"] {
            let variables = [("RAMIE_DRIVER", driver), ("WORKERS", workers)];
            if !in_child(test, &variables) {
                continue;
            }
            let workers = std::env::var("WORKERS").unwrap().parse().unwrap();
            let runtime = Runtime::builder().workers(workers).strands(Strands::Fibers);
            runtime.build().unwrap().run(|| {
                (0..12).for_each(|n| linger(&format!("guest {n}")));
            });
            let said = said();
            assert_eq!(said.len(), 1, "{said:?}");
            let lines: Vec<_> = said[0].lines().collect();
            assert!(lines[0].ends_with("strands that have not ended: 12"), "{said:?}");
            assert_eq!(lines.len(), 1 + 10 + 1 + 1, "{said:?}");
            for line in &lines[1..11] {
                assert!(line.starts_with("  fiber 'guest "), "{line}");
                assert!(line.contains(" waits for ") && line.contains("lingering.rs:"), "{line}");
                let end = concat!("; it runs ", module_path!(), "::linger::{{closure}}");
                assert!(line.ends_with(end), "{line}");
            }
            assert_eq!(lines[11], "  and 2 more");
            assert!(lines[12].contains("Builder::grace"), "{said:?}");
            return;
        }
    }
}

#[test]
fn threads_that_linger_are_named_too() {
    if in_child("threads_that_linger_are_named_too", &[]) {
        let runtime = Runtime::builder().strands(Strands::Threads).build().unwrap();
        runtime.run(|| linger("guest"));
        let said = said();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("strands that have not ended: 1\n"), "{said:?}");
        assert!(said[0].contains("thread 'guest' is still running\n"), "{said:?}");
    }
}

/// A worker whose fiber never suspends cannot report the waits of its other fibers.
#[test]
fn a_worker_that_does_not_answer_is_named() {
    if in_child("a_worker_that_does_not_answer_is_named", &[]) {
        let runtime = Runtime::builder().workers(2).strands(Strands::Fibers).build().unwrap();
        runtime.run(|| {
            let place = fiber::Place::Worker(1);
            let spins = || {
                while !MAY_END.load(SeqCst) {
                    std::hint::spin_loop();
                }
            };
            fiber::Builder::new().on(place).spawn(spins).unwrap();
        });
        let said = said();
        assert_eq!(said.len(), 1, "{said:?}");
        let line = "  and the fibers of worker 1, which is running a fiber that does not suspend\n";
        assert!(said[0].contains(line), "{said:?}");
    }
}

/// Nothing is reported about fibers that end within the second, that a grace period ends, or before
/// the closure has returned.
#[test]
fn a_strand_that_ends_in_time_is_not_named() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    if in_child("a_strand_that_ends_in_time_is_not_named", &[]) {
        eprintln!("no line is expected");
        Runtime::builder().workers(1).build().unwrap().run(|| {
            fiber::spawn(|| fiber::sleep(Duration::from_millis(1200)));
            fiber::sleep(Duration::from_millis(1100));
            fiber::spawn(|| {
                fiber::sleep(Duration::from_millis(200));
                ENDED.fetch_add(1, SeqCst);
            });
        });
        assert_eq!((ENDED.load(SeqCst), said()), (1, vec![]));
        let grace = Runtime::builder().workers(1).grace(Duration::from_secs(60)).build().unwrap();
        grace.run(|| drop(fiber::spawn(|| fiber::sleep(Duration::from_millis(1200)))));
        assert_eq!(said(), [""; 0]);
    }
}
