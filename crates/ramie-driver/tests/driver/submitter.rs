//! Rings whose ops a thread other than the worker submits.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::support::{self, PATIENCE, in_child_with, submit};
use ramie_driver::{
    Choice, Config, Driver, Feature, FeatureSet, Op, OpFrame, Outcome, Profile, Submitter, Wait,
    probe_report, sys,
};

const OTHERS: [Submitter; 2] = [Submitter::Sidecar, Submitter::KERNEL_THREAD];

fn open(submitter: Submitter, masked: FeatureSet) -> Driver {
    let config = Config { submitter, masked, ..Config::default() };
    Driver::open(Choice::Uring, &config).expect("io_uring works here")
}

/// The names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let comm = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks.filter_map(comm).map(|name| name.trim().to_owned()).collect()
}

fn others() -> usize {
    threads().iter().filter(|name| *name == "ramie-sidecar" || name.starts_with("iou-sqp")).count()
}

/// Looks at completions without ever entering the kernel, until the op is complete.
#[track_caller]
fn watch(driver: &mut Driver, frame: &OpFrame) -> i32 {
    let started = Instant::now();
    while !frame.is_complete() {
        assert!(started.elapsed() < PATIENCE, "nobody hands over {:?}", frame.op());
        if driver.needs_turn() {
            driver.turn(Wait::Never).unwrap();
        }
        // The submitter may need this CPU.
        std::thread::yield_now();
    }
    while driver.pop_complete().is_some() {}
    frame.result()
}

#[test]
fn nobody_else_submits_without_a_choice() {
    if !support::has_ring() {
        return;
    }
    in_child_with("child_nobody_else_submits", &[("RAMIE_SUBMIT", None)]);
    // The variable is for runtimes; a driver by itself follows its configuration.
    in_child_with("child_nobody_else_submits", &[("RAMIE_SUBMIT", Some("sidecar"))]);
}

#[test]
#[ignore = "run in a child by nobody_else_submits_without_a_choice"]
fn child_nobody_else_submits() {
    let before = threads().len();
    for choice in [Choice::Auto, Choice::Uring, Choice::Poll] {
        for config in [Config::default(), Config::small()] {
            let driver = Driver::open(choice, &config).unwrap();
            assert_eq!(driver.caps().submitter, Submitter::Worker);
            assert_eq!((threads().len(), others()), (before, 0));
            assert!(!driver.reason().contains("submits"), "{}", driver.reason());
        }
    }
}

#[test]
fn the_submitter_that_is_asked_for_comes_and_goes() {
    if !support::has_ring() {
        return;
    }
    in_child_with("child_comes_and_goes", &[]);
}

#[test]
#[ignore = "run in a child by the_submitter_that_is_asked_for_comes_and_goes"]
fn child_comes_and_goes() {
    for submitter in OTHERS {
        let driver = open(submitter, FeatureSet::EMPTY);
        assert_eq!(driver.caps().submitter, submitter);
        let started = Instant::now();
        // A thread gives itself its name, once it runs.
        while others() == 0 {
            assert!(started.elapsed() < PATIENCE, "{:?}", threads());
            std::thread::yield_now();
        }
        assert_eq!(others(), 1, "{:?}", threads());
        assert!(driver.reason().contains("submits the ops"), "{}", driver.reason());
        drop(driver);
        let started = Instant::now();
        // The kernel takes its own away when it has closed the ring.
        while others() > 0 {
            assert!(started.elapsed() < PATIENCE, "{:?}", threads());
            std::thread::yield_now();
        }
    }
}

#[test]
fn ops_are_done_though_the_worker_never_submits() {
    if !support::has_ring() {
        return;
    }
    for submitter in OTHERS {
        for masked in Profile::ALL.map(Profile::masked).into_iter().chain([FeatureSet::EMPTY]) {
            let mut driver = open(submitter, masked);
            assert_eq!(driver.caps().submitter, submitter);
            let frame = OpFrame::new(Op::Nop);
            assert!(submit(&mut driver, &frame));
            assert_eq!(watch(&mut driver, &frame), 0);
            let (ours, theirs) = UnixStream::pair().unwrap();
            let mut buf = [0; 4];
            let (fd, at) = (ours.as_raw_fd(), buf.as_mut_ptr());
            let frame = OpFrame::new(Op::Recv { fd, buf: at, len: 4, flags: 0 });
            assert!(submit(&mut driver, &frame));
            sys::write(&theirs, b"data").unwrap();
            assert_eq!(watch(&mut driver, &frame), 4);
            assert_eq!(&buf, b"data");
        }
    }
}

/// Pauses that end when the sidecar falls asleep, or about then: a wake that is lost hangs here.
#[test]
fn no_op_is_lost_between_the_last_look_and_the_sleep() {
    if !support::has_ring() {
        return;
    }
    for submitter in
        [Submitter::Sidecar, Submitter::KernelThread { idle: Duration::from_millis(1) }]
    {
        let mut driver = open(submitter, FeatureSet::EMPTY);
        let about = if submitter == Submitter::Sidecar { 100 } else { 1000 };
        let rounds = if submitter == Submitter::Sidecar { 1500 } else { 150 };
        let mut pause = 7_u64;
        for _ in 0..rounds {
            pause = pause.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let pause = Duration::from_micros(about / 2 + (pause >> 33) % (about * 3 / 2));
            let started = Instant::now();
            while started.elapsed() < pause {
                std::hint::spin_loop();
            }
            let frame = OpFrame::new(Op::Nop);
            assert!(submit(&mut driver, &frame));
            assert_eq!(watch(&mut driver, &frame), 0);
        }
    }
}

#[test]
fn where_waits_take_no_timeout_the_worker_submits() {
    if !support::has_ring() {
        return;
    }
    for submitter in OTHERS {
        let masked = FeatureSet::EMPTY.with(Feature::ExtArg);
        let mut driver = open(submitter, masked);
        assert_eq!(driver.caps().submitter, Submitter::Worker);
        let reason = driver.reason().to_owned();
        assert!(reason.contains("the worker submits its ops, because"), "{reason}");
        assert_eq!(support::run(&mut driver, Op::Nop), 0);
    }
}

#[test]
fn polling_has_no_other_submitter_and_reports_it() {
    for submitter in OTHERS {
        let config = Config { submitter, ..Config::default() };
        let driver = Driver::open(Choice::Poll, &config).unwrap();
        assert_eq!(driver.caps().submitter, Submitter::Worker);
        assert!(
            driver.reason().contains("only a ring has ops that are submitted by"),
            "{}",
            driver.reason()
        );
    }
}

#[test]
fn the_report_names_both() {
    if !support::has_ring() {
        return;
    }
    let report = probe_report();
    for name in ["sidecar", "kernel-thread"] {
        let check = report.checks.iter().find(|check| check.name == name).unwrap();
        assert_eq!(check.outcome, Outcome::Ok, "{check:?}");
    }
}

#[test]
fn the_environment_names_the_submitter() {
    for (value, expected) in [(None, "none"), (Some(""), "none"), (Some("worker"), "Worker")] {
        in_child_with("child_environment", &[("RAMIE_SUBMIT", value), ("WANTED", Some(expected))]);
    }
    for (value, expected) in
        [("sidecar", "Sidecar"), ("kernel-thread", "KernelThread"), ("sqpoll", "worker, kernel-")]
    {
        let variables = [("RAMIE_SUBMIT", Some(value)), ("WANTED", Some(expected))];
        in_child_with("child_environment", &variables);
    }
}

#[test]
#[ignore = "run in a child by the_environment_names_the_submitter"]
fn child_environment() {
    let found = match Submitter::from_env() {
        Ok(None) => "none".to_owned(),
        Ok(Some(submitter)) => format!("{submitter:?}"),
        Err(error) => error.to_string(),
    };
    let wanted = std::env::var("WANTED").unwrap();
    assert!(found.contains(&wanted), "{found}");
}
