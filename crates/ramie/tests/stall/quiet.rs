//! No report where no fiber is at fault, and no wake-ups of the watchdog where nothing runs.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    Program, REPORTED,
    common::{Limit, assert_success, child_with, cpu_time, is_child, stderr, with_workers},
    compute, wait_for_end,
};
use ramie::fiber;

const MOMENT: Duration = Duration::from_millis(3);

/// Fibers of all workers compute for moments, until `is_over`.
fn take_turns(is_over: &AtomicBool) {
    fiber::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                while !is_over.load(SeqCst) {
                    compute(MOMENT);
                    fiber::yield_now();
                }
            });
        }
    });
}

/// Most of the time a fiber is in the middle of its turn when the process is stopped.
#[test]
fn a_stopped_process_has_no_stall() {
    if is_child() {
        let is_over = AtomicBool::new(false);
        return ramie::run(|| {
            fiber::scope(|s| {
                s.spawn(|| take_turns(&is_over));
                eprintln!("it runs");
                wait_for_end();
                is_over.store(true, SeqCst);
            });
        });
    }
    let mut program = Program::start("a_stopped_process_has_no_stall");
    program.read_to("it runs");
    let pid = rustix::process::Pid::from_child(&program.child);
    for _ in 0..6 {
        for signal in [rustix::process::Signal::STOP, rustix::process::Signal::CONT] {
            rustix::process::kill_process(pid, signal).unwrap();
            thread::sleep(Duration::from_millis(60));
        }
    }
    let text = program.end();
    assert!(!text.contains("stall:"), "{text}");
}

/// Threads that compute take most of the CPU time.
#[test]
fn an_overloaded_machine_has_no_stall() {
    let test = "an_overloaded_machine_has_no_stall";
    if !is_child() {
        let output = child_with("true", test, &[REPORTED]);
        assert_success(&output);
        assert!(!stderr(&output).contains("stall:"), "{}", stderr(&output));
        return;
    }
    let is_over = AtomicBool::new(false);
    let crowd = 4 * thread::available_parallelism().unwrap().get();
    thread::scope(|s| {
        for _ in 0..crowd {
            s.spawn(|| {
                while !is_over.load(SeqCst) {
                    std::hint::spin_loop();
                }
            });
        }
        with_workers(2).run(|| {
            fiber::scope(|s| {
                s.spawn(|| take_turns(&is_over));
                fiber::sleep(Duration::from_millis(700));
                is_over.store(true, SeqCst);
            });
        });
    });
}

/// A fiber without company keeps nobody waiting. With company it would stall: it uses thrice the
/// limit of CPU time, and between two looks the watchdog has time to get a CPU of a busy machine.
#[test]
fn a_fiber_that_is_alone_does_not_stall() {
    let test = "a_fiber_that_is_alone_does_not_stall";
    if is_child() {
        return ramie::run(|| {
            let end = cpu_time() + Duration::from_millis(300);
            while cpu_time() < end {
                compute(MOMENT);
            }
        });
    }
    let output = child_with("true", test, &[("RAMIE_STALL_MS", "100")]);
    assert_success(&output);
    assert!(!stderr(&output).contains("stall:"), "{}", stderr(&output));
}

/// The folders in /proc of the watchdogs of this process.
fn watchdogs() -> Vec<PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
    let is_watchdog =
        |task: &PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|name| name == NAME);
    tasks.filter(is_watchdog).collect()
}

const NAME: &str = "ramie-watchdog\n";

fn status(task: &Path, line: &str) -> String {
    let status = fs::read_to_string(task.join("status")).unwrap();
    let line = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
    line.trim().to_owned()
}

#[test]
fn the_watchdog_of_an_idle_process_sleeps() {
    let test = "the_watchdog_of_an_idle_process_sleeps";
    if !is_child() {
        return assert_success(&child_with("true", test, &[REPORTED]));
    }
    let _limit = Limit::new(test);
    for workers in [1, 2] {
        let runtime = with_workers(workers);
        assert!(watchdogs().is_empty());
        runtime.run(|| {
            let this = fiber::current();
            let is_over = AtomicBool::new(false);
            thread::scope(|s| {
                s.spawn(|| {
                    // A thread gets its name when it runs for the first time.
                    let watchdog = loop {
                        match &watchdogs()[..] {
                            [] => thread::yield_now(),
                            found => break found[0].clone(),
                        }
                    };
                    // It blocks signals after it got its name; SIGUSR1 and SIGTERM, for example.
                    let mask = || u64::from_str_radix(&status(&watchdog, "SigBlk:"), 16).unwrap();
                    while mask() & 0x4200 != 0x4200 {
                        thread::yield_now();
                    }
                    let wake_ups = || status(&watchdog, "voluntary_ctxt_switches:");
                    // It would look dozens of times.
                    let mut before = wake_ups();
                    loop {
                        thread::sleep(Duration::from_millis(300));
                        let now = wake_ups();
                        if before == now {
                            break;
                        }
                        before = now;
                    }
                    is_over.store(true, SeqCst);
                    this.unpark();
                });
                while !is_over.load(SeqCst) {
                    fiber::park();
                }
            });
        });
        // It ends with its runtime. The kernel lists a thread for a moment after it was joined.
        while !watchdogs().is_empty() {
            thread::yield_now();
        }
    }
}

/// Runtimes that come and go do not wait for their watchdogs' looks.
#[test]
fn runtimes_end_at_once() {
    let runtime = ramie::Runtime::builder().stall_limit(Some(Duration::from_secs(3600)));
    let runtime = runtime.workers(1).build().unwrap();
    let start = Instant::now();
    (0..100).for_each(|n| assert_eq!(runtime.run(|| n), n));
    // A look would be due after 15 minutes.
    assert!(start.elapsed() < Duration::from_secs(60));
}

/// The watchdog looks once in 15 minutes here, and each of its rests is followed by such a look.
#[test]
fn a_worker_that_wakes_up_for_moments_does_not_wake_the_watchdog_each_time() {
    let test = "a_worker_that_wakes_up_for_moments_does_not_wake_the_watchdog_each_time";
    if !is_child() {
        return assert_success(&child_with("true", test, &[]));
    }
    let limit = Some(Duration::from_secs(3600));
    let runtime = ramie::Runtime::builder().stall_limit(limit).workers(1).build().unwrap();
    runtime.run(|| {
        let moment = || fiber::sleep(Duration::from_millis(1));
        let watchdog = loop {
            match watchdogs().pop() {
                Some(found) => break found,
                None => moment(),
            }
        };
        let wake_ups =
            || status(&watchdog, "voluntary_ctxt_switches:").parse::<usize>().expect("a number");
        let before = wake_ups();
        (0..100).for_each(|_| moment());
        let count = wake_ups() - before;
        assert!(count < 10, "{count} wake-ups of the watchdog in 100 of the worker");
    });
}

/// `run` wakes the watchdog in the end, and this function takes that wake-up. Without a search for
/// deadlocks, nothing else ends the watchdog's rest.
#[test]
fn a_reaction_that_parks_its_thread_does_not_keep_the_runtime() {
    let _limit = Limit::of_this_test();
    let is_called = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&is_called);
    let reaction = ramie::Reaction::call(move |_| {
        theirs.store(true, SeqCst);
        thread::park();
    });
    let builder = ramie::Runtime::builder().strands(ramie::Strands::Fibers).on_stall(reaction);
    let builder = builder.on_deadlock(ramie::Reaction::Ignore);
    let runtime = builder.stall_limit(Some(Duration::from_millis(5))).workers(1).build().unwrap();
    runtime.run(|| {
        let hog = || while !is_called.load(SeqCst) {};
        fiber::scope(|s| drop(s.spawn(hog)));
    });
}
