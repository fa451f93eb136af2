//! What the tests share: each kind of runtime, a process of one's own, waiting for what must come.
#![allow(dead_code, unreachable_pub)]

pub mod cancel;

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    process::{Command, Output},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use ramie::{Driver, Runtime};

/// Runs `f` on both drivers, with as many workers as told.
pub fn on_each(workers: &[usize], f: impl Fn(&Runtime)) {
    for driver in [Driver::Uring, Driver::Poll] {
        for &count in workers {
            match Runtime::builder().driver(driver).workers(count).build() {
                Ok(runtime) => f(&runtime),
                Err(error) => eprintln!("skipped: {driver:?} cannot be had: {error}"),
            }
        }
    }
}

/// Runs `f` on both drivers with one worker and with two, and on a plain thread.
pub fn everywhere(f: impl Fn() + Send + Sync) {
    on_each(&[1, 2], |runtime| runtime.run(&f));
    std::thread::scope(|s| s.spawn(&f).join().expect("the plain thread's run"));
}

pub fn one_worker() -> Runtime {
    with_workers(1)
}

pub fn with_workers(count: usize) -> Runtime {
    Runtime::builder().workers(count).build().unwrap()
}

/// Runs `f` with one worker and with two.
pub fn on_workers(f: impl Fn()) {
    for count in [1, 2] {
        with_workers(count).run(&f);
    }
}

/// Lets others run until `condition` holds, which it must within a minute.
#[track_caller]
pub fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "what had to come has not come");
        ramie::fiber::yield_now();
    }
}

/// Says what the payload of a panic says.
pub fn text(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).expect("a text")
}

/// Runs `f`, which must panic, and returns the text.
#[track_caller]
pub fn panic_text<T>(f: impl FnOnce() -> T) -> String {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(_) => panic!("this should have panicked"),
        Err(payload) => text(&*payload).to_owned(),
    }
}

/// Counts how many of its kind were dropped.
pub struct Counted<'a>(pub &'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Numbers from a seed that is printed, so that a failure can be repeated with `SEED=…`.
pub struct Random(u64);

impl Random {
    pub fn new(what: &str) -> Self {
        let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
        let seed = given.unwrap_or_else(clock) | 1;
        println!("{what}: SEED={seed}");
        Random(seed)
    }

    /// One of several, from a number that the first of them gave.
    pub fn from_seed(seed: u64) -> Self {
        Random(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

const CHILD: &str = "RAMIE_TEST_CHILD";

/// Whether this process was started to run the body of one test.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the test of this name in a process of its own.
pub fn child(test: &str) -> Output {
    child_with("true", test, &[])
}

/// The same, after a shell command that sets limits, and with these variables set. A child that
/// hangs is killed.
pub fn child_with(limits: &str, test: &str, variables: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().expect("the test knows its own program");
    Command::new("timeout")
        .args(["60", "sh", "-c"])
        .arg(format!("ulimit -c 0; {limits}; exec \"$0\" \"$@\""))
        .arg(program)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env_remove("RAMIE_CAPS")
        .env_remove("RAMIE_DRIVER")
        .env_remove("RAMIE_ENTER")
        .env_remove("RAMIE_STACK")
        .env_remove("RAMIE_STRANDS")
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("timeout and sh can be run")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
pub fn assert_aborted(output: &Output, sentence: &str) {
    let report = stderr(output);
    // `timeout` passes its child's signal on as 128 + the signal's number.
    let is_abort = output.status.signal() == Some(6) || output.status.code() == Some(128 + 6);
    assert!(is_abort, "{:?}: {report}", output.status);
    assert!(report.contains(sentence), "'{sentence}' is not in: {report}");
}

#[track_caller]
pub fn assert_success(output: &Output) {
    assert!(output.status.success(), "{:?}: {}", output.status, stderr(output));
}

/// User and system time of this process so far.
pub fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("Linux has it").count()
}

pub fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("Linux has it").count()
}
