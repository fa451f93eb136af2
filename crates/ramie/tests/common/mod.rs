//! Helpers of the tests: each kind of runtime, a process of its own, waits for events that must
//! come.
#![allow(dead_code, unreachable_pub)]

pub mod cancel;
pub mod program;

use std::{
    cell::Cell,
    fmt::Display,
    fs,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    panic::Location,
    path::Path,
    process::{Command, Output},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use ramie::{
    Driver, Runtime,
    net::{TcpListener, TcpStream},
};

/// Reports that a test, or a part of it, is left out.
pub fn skipped(reason: impl Display) {
    let thread = std::thread::current();
    say(&format!("skipped: {}: {reason}", thread.name().unwrap_or("a thread")));
}

/// Prints a line past libtest, which shows only what failing tests print.
fn say(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Ends the process if it lives for more than a minute, and names the test: for calls that would
/// suspend forever if they were broken, with no other strand left to notice.
pub struct Limit {
    _ended: mpsc::Sender<()>,
}

impl Limit {
    pub fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        let (ended, has_ended) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            let result = has_ended.recv_timeout(Duration::from_secs(60));
            if result == Err(mpsc::RecvTimeoutError::Timeout) {
                say(&format!("{what}: it hangs"));
                std::process::abort();
            }
        });
        Limit { _ended: ended }
    }

    /// A limit for the test of this thread: libtest names threads after their tests.
    pub fn of_this_test() -> Self {
        Limit::new(std::thread::current().name().unwrap_or("a test"))
    }
}

/// Whether this is a build for AddressSanitizer, which itself takes memory for each thread, each
/// allocation and each page of a stack, so a test cannot count pages. Reports that.
pub fn memory_is_the_sanitizers() -> bool {
    let is_sanitized = cfg!(feature = "sanitizer");
    if is_sanitized {
        skipped("AddressSanitizer takes memory of its own");
    }
    is_sanitized
}

/// Whether this machine allows io_uring. Reports if a filter, a setting or an old kernel refuses
/// it; any other error fails the test.
pub fn has_ring() -> bool {
    match Runtime::builder().driver(Driver::Uring).workers(1).build() {
        Ok(_) => true,
        Err(error) => {
            let is_refused = [io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported]
                .contains(&error.kind());
            assert!(is_refused, "io_uring is allowed, but {error}");
            // Once for each test.
            thread_local!(static IS_SAID: Cell<bool> = const { Cell::new(false) });
            if !IS_SAID.replace(true) {
                skipped(error);
            }
            false
        }
    }
}

/// The drivers that this machine has.
pub fn drivers() -> Vec<Driver> {
    if has_ring() { vec![Driver::Uring, Driver::Poll] } else { vec![Driver::Poll] }
}

/// The same, as `RAMIE_DRIVER` names them.
pub fn driver_names() -> Vec<&'static str> {
    if has_ring() { vec!["uring", "poll"] } else { vec!["poll"] }
}

/// Runs `f` on both drivers, with the given number of workers.
pub fn on_each(workers: &[usize], f: impl Fn(&Runtime)) {
    for driver in drivers() {
        for &count in workers {
            let runtime = Runtime::builder().driver(driver).workers(count).build();
            f(&runtime.expect("this machine has the driver"));
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

/// One worker without a watchdog, whose thread would need memory, too.
pub fn unwatched_worker() -> Runtime {
    let builder = Runtime::builder().workers(1).stall_limit(None);
    builder.on_deadlock(ramie::Reaction::Ignore).build().unwrap()
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
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "what had to come has not come");
        ramie::fiber::yield_now();
    }
}

/// Two streams that are connected.
pub fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Returns the message in the payload of a panic.
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

/// The name by which libtest knows a test of the caller's file: in a program of several files, each
/// of them is a module.
#[track_caller]
pub fn full_name(test: &str) -> String {
    let file = Path::new(Location::caller().file());
    let is_whole_program = file.ends_with("main.rs") || file.with_file_name("").ends_with("tests");
    match file.file_stem() {
        Some(module) if !is_whole_program && !test.contains("::") => {
            format!("{}::{test}", module.display())
        }
        _ => test.to_owned(),
    }
}

/// Runs the test of this name in the caller's file in a process of its own.
#[track_caller]
pub fn child(test: &str) -> Output {
    child_with("true", test, &[])
}

/// For a shell: closes the descriptors that the caller of the tests has left open, so that a limit
/// on descriptors means the same everywhere.
pub const CLOSE_INHERITED: &str = "for fd in /proc/self/fd/*; do fd=${fd##*/}; \
     [ \"$fd\" -le 2 ] || eval \"exec $fd>&-\"; done";

/// The same, after a shell command that sets limits, and with these variables set. A child that
/// hangs is killed.
#[track_caller]
pub fn child_with(limits: &str, test: &str, variables: &[(&str, &str)]) -> Output {
    child_for(60, limits, test, variables)
}

/// The same, with a limit in seconds. This process repeats the skips that the child reports.
#[track_caller]
pub fn child_for(seconds: u32, limits: &str, test: &str, variables: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().expect("the test knows its own program");
    let output = Command::new("timeout")
        .args([&*seconds.to_string(), "bash", "-c"])
        .arg(format!("{CLOSE_INHERITED}; ulimit -c 0; {limits}; exec \"$0\" \"$@\""))
        .arg(program)
        .args([&*full_name(test), "--exact", "--nocapture", "--test-threads=1"])
        .env_remove("RAMIE_CAPS")
        .env_remove("RAMIE_FLIGHT_RECORDER")
        .env_remove("RAMIE_DRIVER")
        .env_remove("RAMIE_SUBMIT")
        .env_remove("RAMIE_STACK")
        // Tests count the lines on stderr and in the log; a backtrace of a debug build is a stall.
        .env("RAMIE_STALL_MS", "0")
        .env_remove("RAMIE_STRANDS")
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("timeout and bash can be run");
    // It is empty if the limits redirect it.
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.is_empty() || stdout.contains("running 1 test"), "no test is named {test}");
    stderr(&output).lines().filter(|line| line.starts_with("skipped: ")).for_each(say);
    output
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

/// From now on this process gets no more address space, but for `room` bytes.
pub fn limit_memory(room: u64) {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    set_memory_limit(pages * 4096 + room);
}

pub fn lift_memory_limit() {
    set_memory_limit(libc::RLIM_INFINITY);
}

fn set_memory_limit(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the struct is valid for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
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
