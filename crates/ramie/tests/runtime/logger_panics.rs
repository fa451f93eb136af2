//! A program's logger that panics, waits or writes by Ramie, wherever the runtime calls it from.
//! Each test runs in a process of its own, with a logger of its own.

use std::{
    io::Write,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use crate::common::{
    self, assert_success, child_with, is_child, one_worker, panic_text, stderr, text, with_workers,
};
use ramie::{fiber, os::unix::net::UnixStream, ring};

type Log = fn(&str);

/// The action of the logger at a warning or an error, by `RAMIE_TEST_LOGGER`.
const KINDS: [(&str, Log); 4] = [
    ("panics", |line| panic!("no room for: {line}")),
    ("drops", |_| std::panic::panic_any(PanicsWhenDropped)),
    ("prints", |line| ramie::eprintln!("printed: {line}")),
    ("waits", |_| fiber::sleep(Duration::from_millis(1))),
];

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("the payload's destructor");
    }
}

struct Logger(Log);

static CALLS: AtomicUsize = AtomicUsize::new(0);

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        if record.level() <= log::Level::Warn {
            CALLS.fetch_add(1, SeqCst);
            (self.0)(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Installs the logger that the parent has asked for.
fn install_logger() {
    let name = std::env::var("RAMIE_TEST_LOGGER").unwrap();
    let (_, log) = KINDS.into_iter().find(|(kind, _)| *kind == name).unwrap();
    log::set_logger(Box::leak(Box::new(Logger(log)))).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
}

/// Runs the test in a child for each kind of logger; the line must not be lost where it panics.
fn with_each_logger(test: &str, variables: &[(&str, &str)], line: &str) {
    for (kind, _) in KINDS {
        let mut variables = variables.to_vec();
        variables.push(("RAMIE_TEST_LOGGER", kind));
        let output = child_with("true", test, &variables);
        assert_success(&output);
        let report = stderr(&output);
        assert!(kind == "waits" || report.contains(line), "{kind}: '{line}' is not in: {report}");
    }
}

/// Runs `check` with each kind of logger, in a child with the logger installed whose memory has no
/// room for the stack of [`large`].
fn where_a_fiber_cannot_start(test: &str, check: fn()) {
    if !is_child() {
        let line = "fiber 'large' cannot start";
        return with_each_logger(test, &[("RAMIE_DRIVER", "poll")], line);
    }
    common::limit_memory(512 << 20);
    install_logger();
    check();
}

/// The builder of a fiber whose stack finds no room.
fn large() -> fiber::Builder {
    fiber::Builder::new().name("large".into()).stack_size(1 << 30)
}

/// The line is logged in the worker's loop.
#[test]
fn a_fiber_that_cannot_start_leaves_the_loop_whole() {
    where_a_fiber_cannot_start("a_fiber_that_cannot_start_leaves_the_loop_whole", || {
        let has_ended = AtomicBool::new(false);
        with_workers(2).run(|| {
            fiber::scope(|scope| {
                scope.spawn(|| {
                    common::wait_until(|| CALLS.load(SeqCst) > 0);
                    fiber::sleep(Duration::from_millis(20));
                    has_ended.store(true, SeqCst);
                });
                let payload = large().spawn_scoped(scope, || ()).unwrap().join().unwrap_err();
                assert!(text(&*payload).contains("cannot start"), "{}", text(&*payload));
            });
        });
        assert!(has_ended.load(SeqCst), "run has returned before a strand that borrows");
        assert_eq!(CALLS.load(SeqCst), 1);
    });
}

/// The same on a thread outside `run`, for whose wait the loop runs.
#[test]
fn a_fiber_that_cannot_start_on_a_thread_leaves_the_wait_whole() {
    let test = "a_fiber_that_cannot_start_on_a_thread_leaves_the_wait_whole";
    where_a_fiber_cannot_start(test, || {
        let has_ended = AtomicBool::new(false);
        let sentence = panic_text(|| {
            fiber::scope(|scope| {
                drop(large().spawn_scoped_local(scope, || ()).unwrap());
                scope.spawn(|| {
                    while CALLS.load(SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    std::thread::sleep(Duration::from_millis(20));
                    has_ended.store(true, SeqCst);
                });
            });
        });
        assert!(sentence.contains("a strand of the scope panicked: fiber 'large'"), "{sentence}");
        assert!(has_ended.load(SeqCst), "the scope has returned before a strand that borrows");
    });
}

/// From now on the kernel has no memory for a ring of buffers, on this thread.
fn forbid_buffer_rings() {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch,
    };
    const REGISTER_PBUF_RING: u64 = 22;
    let is_meant =
        SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, REGISTER_PBUF_RING);
    let rule = SeccompRule::new(vec![is_meant.unwrap()]).unwrap();
    let filter = SeccompFilter::new(
        [(libc::SYS_io_uring_register, vec![rule])].into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOMEM as u32),
        TargetArch::try_from(std::env::consts::ARCH).unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// The driver has taken an op in, and is borrowed, when it finds that.
#[test]
fn a_driver_without_buffers_reports_it_when_its_op_is_settled() {
    let test = "a_driver_without_buffers_reports_it_when_its_op_is_settled";
    if !common::has_ring() {
        return;
    }
    if !is_child() {
        let line = "the ring cannot register receive buffers";
        return with_each_logger(test, &[("RAMIE_DRIVER", "auto")], line);
    }
    install_logger();
    let builder = ramie::Runtime::builder().driver(ramie::Driver::Uring).workers(1);
    let runtime = builder.build().unwrap();
    forbid_buffer_rings();
    runtime.run(|| {
        let (from, mut to) = UnixStream::pair().unwrap();
        fiber::scope(|scope| {
            scope.spawn(move || {
                fiber::sleep(Duration::from_millis(5));
                to.write_all(b"bytes").unwrap();
            });
            let leases = ring::recv_bundle(&from).unwrap();
            assert_eq!(leases.iter().map(|lease| lease.len()).sum::<usize>(), 5);
        });
        common::wait_until(|| CALLS.load(SeqCst) > 0);
    });
}

/// The job, which lies in the frame of the call, is on the queue of the pool when it is logged.
#[test]
fn a_pool_that_cannot_grow_keeps_its_jobs() {
    let test = "a_pool_that_cannot_grow_keeps_its_jobs";
    if !is_child() {
        let variables = [("RAMIE_DRIVER", "poll"), ("RUST_MIN_STACK", "1073741824")];
        return with_each_logger(test, &variables, "the blocking pool cannot grow");
    }
    install_logger();
    let (is_running, may_end) = (AtomicBool::new(false), AtomicBool::new(false));
    one_worker().run(|| {
        fiber::scope(|scope| {
            scope.spawn(|| {
                ramie::blocking(|| {
                    is_running.store(true, SeqCst);
                    while !may_end.load(SeqCst) {
                        std::thread::yield_now();
                    }
                });
            });
            common::wait_until(|| is_running.load(SeqCst));
            // Half of a thread's stack.
            common::limit_memory(512 << 20);
            let jobs = [0, 1].map(|n| scope.spawn(move || ramie::blocking(|| n)));
            common::wait_until(|| CALLS.load(SeqCst) > 0);
            fiber::sleep(Duration::from_millis(5));
            may_end.store(true, SeqCst);
            assert_eq!(jobs.map(|job| job.join().unwrap()), [0, 1]);
        });
    });
    assert_eq!(CALLS.load(SeqCst), 1, "told once, however often");
}
