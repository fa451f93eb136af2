//! Helpers of the tests: drivers of both kinds, and waiting for one op.
#![allow(dead_code, unreachable_pub)]

use std::cell::Cell;
use std::io::Write;
use std::panic::Location;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use ramie_driver::{
    Choice, Config, Driver, FeatureSet, Op, OpFrame, Profile, Submitted, Submitter, Wait,
};

/// Long enough that only a lost completion or wake reaches it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Reports that a test, or a part of it, is left out.
pub fn skipped(reason: impl std::fmt::Display) {
    let thread = std::thread::current();
    say(&format!("skipped: {}: {reason}", thread.name().unwrap_or("a thread")));
}

/// Prints a line past libtest, which shows only what failing tests print.
fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Whether this machine allows io_uring. Reports if a filter, a setting or an old kernel refuses
/// it; any other error fails the test.
pub fn has_ring() -> bool {
    match Driver::open(Choice::Uring, &Config::small()) {
        Ok(_) => true,
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
            // Once for each test.
            thread_local!(static IS_SAID: Cell<bool> = const { Cell::new(false) });
            if !IS_SAID.replace(true) {
                skipped(error);
            }
            false
        }
        Err(error) => panic!("io_uring is allowed, but {error}"),
    }
}

/// Whether this kernel has that version, or a later one.
pub fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = ramie_driver::sys::kernel_release();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

/// The drivers that this machine has.
pub fn choices() -> Vec<Choice> {
    if has_ring() { vec![Choice::Uring, Choice::Poll] } else { vec![Choice::Poll] }
}

/// Runs `test` with a driver of each kind, and with rings as older kernels make them.
pub fn both(test: impl Fn(&mut Driver)) {
    both_sized(&Config::default(), test);
}

/// Runs `test` with drivers of this size: of each kind, with rings as older kernels make them, and
/// with rings whose ops another thread submits.
pub fn both_sized(config: &Config, test: impl Fn(&mut Driver)) {
    run_with(Choice::Poll, config, &test);
    if !has_ring() {
        return;
    }
    let mut tried = Vec::new();
    let kernels = Profile::ALL.map(|profile| (profile.name(), profile.masked()));
    for (name, masked) in kernels.into_iter().chain([("this kernel", FeatureSet::EMPTY)]) {
        let masked = masked.plus(config.masked);
        if !tried.contains(&masked) {
            eprintln!("features: {name}");
            tried.push(masked);
            run_with(Choice::Uring, &Config { masked, ..config.clone() }, &test);
        }
    }
    for submitter in [Submitter::Sidecar, Submitter::KERNEL_THREAD] {
        run_with(Choice::Uring, &Config { submitter, ..config.clone() }, &test);
    }
}

fn run_with(choice: Choice, config: &Config, test: impl Fn(&mut Driver)) {
    eprintln!("driver: {choice:?}, submitted by {:?}", config.submitter);
    let mut driver = Driver::open(choice, config).expect("this machine has both");
    test(&mut driver);
    assert_eq!(driver.in_flight(), 0, "nothing stays behind");
}

/// Submits; true if the op is in flight.
pub fn submit(driver: &mut Driver, frame: &OpFrame) -> bool {
    // SAFETY: the tests keep frames and buffers until the op is complete.
    unsafe { driver.submit(NonNull::from(frame)) == Submitted::InFlight }
}

/// Asks to cancel an op that is in flight.
pub fn cancel(driver: &mut Driver, frame: &OpFrame) {
    // SAFETY: submitted to this driver and not popped, as the tests are written.
    unsafe { driver.cancel(NonNull::from(frame)) }
}

/// Turns until `frame` is complete; pops frames that complete meanwhile.
pub fn finish(driver: &mut Driver, frame: &OpFrame) -> i32 {
    let started = std::time::Instant::now();
    while !frame.is_complete() {
        assert!(started.elapsed() < PATIENCE, "{:?} never completes", frame.op());
        driver.turn(Wait::Until(Some(PATIENCE))).expect("a turn");
    }
    while driver.pop_complete().is_some() {}
    frame.result()
}

/// Runs one op to its end.
pub fn run(driver: &mut Driver, op: Op) -> i32 {
    let frame = OpFrame::new(op);
    submit(driver, &frame);
    finish(driver, &frame)
}

/// The name by which libtest knows a test of the caller's file: in a program of several files, each
/// of them is a module.
#[track_caller]
pub fn full_name(test: &str) -> String {
    let file = Path::new(Location::caller().file());
    let is_whole_program = file.with_file_name("").ends_with("tests");
    match file.file_stem() {
        Some(module) if !is_whole_program => format!("{}::{test}", module.display()),
        _ => test.to_owned(),
    }
}

/// Runs one test of the caller's file, which is ignored elsewhere, in a process of its own; with
/// RAMIE_DRIVER set.
#[track_caller]
pub fn in_child(test: &str, driver: Option<&str>) {
    in_child_with(test, &[("RAMIE_DRIVER", driver)]);
}

/// The same, with these variables set or unset.
#[track_caller]
pub fn in_child_with(test: &str, variables: &[(&str, Option<&str>)]) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &*full_name(test), "--nocapture", "--test-threads=1", "--ignored"]);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| line.starts_with("skipped: ")).for_each(say);
    assert!(output.status.success(), "{test}: {text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{test} did not run");
}
