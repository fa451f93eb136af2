//! The reports of fibers that compute or make blocking calls, and the reactions to them.

use std::{
    fs::OpenOptions,
    io::{Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{fs::OpenOptionsExt, net::UnixDatagram},
    },
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::{
    Program, REPORTED,
    common::{Limit, assert_aborted, assert_success, child_with, is_child, stderr},
    compute,
};
use ramie::{Builder, Reaction, Runtime, Stall, StallCause, fiber};

pub(crate) const FIFTY: Duration = Duration::from_millis(50);

/// The stalls that a runtime has found.
#[derive(Clone, Default)]
pub(crate) struct Found(pub(crate) Arc<Mutex<Vec<Stall>>>, Arc<AtomicUsize>);

impl Found {
    fn any(&self) -> bool {
        self.count() > 0
    }

    /// For fibers that compute until then, which would keep the watchdog from the lock.
    fn count(&self) -> usize {
        self.1.load(SeqCst)
    }

    pub(crate) fn builder(&self) -> Builder {
        let found = self.clone();
        Runtime::builder().strands(ramie::Strands::Fibers).on_stall(Reaction::call(move |stall| {
            found.0.lock().unwrap().push(Stall::clone(stall));
            found.1.fetch_add(1, SeqCst);
        }))
    }
}

/// Calls `f` in a fiber until a stall is found, and returns that.
pub(crate) fn stall_of(workers: usize, f: impl Fn() + Send + 'static) -> Stall {
    stall_in(|builder| builder.workers(workers), f)
}

/// The same in a runtime with these options.
pub(crate) fn stall_in(
    options: impl FnOnce(Builder) -> Builder,
    f: impl Fn() + Send + 'static,
) -> Stall {
    let _limit = Limit::of_this_test();
    let found = Found::default();
    options(found.builder()).build().unwrap().run(|| {
        let found = found.clone();
        let until_found = move || {
            while !found.any() {
                f();
            }
        };
        fiber::Builder::new().name("hog".to_owned()).spawn(until_found).unwrap().join().unwrap();
    });
    let stalls = found.0.lock().unwrap();
    assert_eq!(stalls.len(), 1, "{stalls:?}");
    stalls[0].clone()
}

#[test]
fn a_fiber_that_computes_is_named() {
    for workers in [1, 2] {
        let stall = stall_of(workers, || compute(Duration::from_millis(1)));
        assert_eq!(stall.fiber(), "fiber 'hog'");
        assert!(stall.closure().starts_with("stall::reports::stall_in<"), "{stall:?}");
        assert!(stall.worker() < workers && !stall.is_in_no_switch());
        let least = Duration::from_millis(25);
        let StallCause::Computing(cpu) = *stall.cause() else { panic!("{stall:?}") };
        assert!(cpu >= least && stall.duration() >= least, "{stall:?}");
    }
}

/// The calls of a stall, if this build makes backtraces.
fn calls_of(stall: &Stall) -> Option<Vec<String>> {
    if !cfg!(all(feature = "backtrace", target_arch = "x86_64")) {
        assert!(stall.backtrace().is_none());
        return None;
    }
    let frames = stall.backtrace().expect("a backtrace").frames();
    Some(frames.into_iter().filter_map(|frame| frame.function).collect())
}

#[inline(never)]
fn computes_for_long() {
    compute(2 * FIFTY);
    std::hint::black_box(());
}

#[inline(never)]
fn sleeps_for_long() {
    std::thread::sleep(6 * FIFTY);
    std::hint::black_box(());
}

/// By a signal if it computes, and by what the kernel tells if it is blocked.
#[test]
fn the_calls_of_a_stalled_fiber_are_named() {
    let stalled: [(fn(), &str); 2] = [
        (computes_for_long, "reports::computes_for_long"),
        (sleeps_for_long, "reports::sleeps_for_long"),
    ];
    for (f, name) in stalled {
        // The signal of a busy machine may be late.
        let with_calls = |_| Some(stall_of(1, f)).filter(|stall| stall.backtrace().is_some());
        let stall = (0..20).find_map(with_calls).unwrap_or_else(|| stall_of(1, f));
        let Some(calls) = calls_of(&stall) else { return };
        assert_eq!(calls.iter().filter(|call| call.contains(name)).count(), 1, "{calls:#?}");
        // They reach the closure of the fiber, and end on its stack.
        assert!(
            calls.iter().any(|call| call.contains("__rust_begin_short_backtrace")),
            "{calls:#?}"
        );
        assert_eq!(calls.last().map(String::as_str), Some("stack_init_trampoline"), "{calls:#?}");
        let report = stall.to_string();
        assert!(
            report.contains("\n  calls, the innermost first:\n") && report.contains(name),
            "{report}"
        );
    }
}

#[test]
fn a_no_switch_region_is_named() {
    let stall = stall_of(1, || ramie::no_switch(|| compute(2 * FIFTY)));
    assert!(stall.is_in_no_switch() && stall.to_string().contains("no_switch"), "{stall}");
}

#[test]
fn a_blocking_call_is_named() {
    let stall = stall_of(1, || std::thread::sleep(6 * FIFTY));
    assert_eq!(*stall.cause(), StallCause::SystemCall("clock_nanosleep".to_owned()));
    let file = std::env::temp_dir().join(format!("ramie-stall-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    let path = file.clone();
    let stall = stall_of(1, move || {
        // Opening a fifo blocks until another thread opens its other end.
        let path = path.clone();
        let open = path.clone();
        let other = std::thread::spawn(move || {
            std::thread::sleep(6 * FIFTY);
            drop(std::fs::File::create(open).unwrap());
        });
        drop(std::fs::File::open(path).unwrap());
        other.join().unwrap();
    });
    std::fs::remove_file(file).unwrap();
    assert_eq!(*stall.cause(), StallCause::SystemCall("openat".to_owned()));
}

/// A name that the fiber does not have.
#[test]
fn a_fiber_without_a_name_is_named_by_its_id() {
    let _limit = Limit::of_this_test();
    let found = Found::default();
    let id = found.builder().workers(1).build().unwrap().run(|| {
        let found = found.clone();
        let hog = fiber::spawn(move || while !found.any() {});
        let id = hog.fiber().id();
        hog.join().unwrap();
        id
    });
    assert_eq!(found.0.lock().unwrap()[0].fiber(), format!("fiber {id}"));
}

/// The name may have come from a request.
#[test]
fn a_name_does_not_control_the_terminal() {
    let _limit = Limit::of_this_test();
    let found = Found::default();
    found.builder().workers(1).build().unwrap().run(|| {
        let found = found.clone();
        let hog = move || while !found.any() {};
        let named = fiber::Builder::new().name("\u{1b}[2J\n\u{202e}".to_owned());
        named.spawn(hog).unwrap().join().unwrap();
    });
    assert_eq!(found.0.lock().unwrap()[0].fiber(), "fiber '\\u{1b}[2J\\n\\u{202e}'");
}

/// The closures have the same type, so only the place of the spawn differs. If it did not count,
/// the second stall would be known without a report, and stay so until the limit of the test.
#[test]
fn the_same_function_is_reported_again_if_it_was_spawned_elsewhere() {
    fn hog(found: &Found, stalls: usize) -> impl FnOnce() + Send + 'static {
        let found = found.clone();
        move || while found.count() < stalls {}
    }
    let _limit = Limit::of_this_test();
    let found = Found::default();
    found.builder().workers(1).build().unwrap().run(|| {
        fiber::spawn(hog(&found, 1)).join().unwrap();
        fiber::spawn(hog(&found, 2)).join().unwrap();
    });
    let stalls = found.0.lock().unwrap();
    assert_eq!(stalls.len(), 2, "{stalls:?}");
    assert_eq!(stalls[0].closure(), stalls[1].closure());
}

/// By default the report goes to stderr, once for each stall, with its end.
#[test]
fn a_stall_is_reported_once() {
    let test = "a_stall_is_reported_once";
    if is_child() {
        let is_over = AtomicBool::new(false);
        return std::thread::scope(|s| {
            s.spawn(|| {
                let _ = std::io::stdin().read(&mut [0]);
                is_over.store(true, SeqCst);
                let _ = std::io::stdin().read(&mut [0]);
                is_over.store(false, SeqCst);
            });
            ramie::run(|| {
                let hog = || {
                    while !is_over.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                    while is_over.load(SeqCst) {
                        fiber::yield_now();
                    }
                    // A second stall of the same closure comes too soon for another report.
                    compute(2 * FIFTY);
                };
                fiber::scope(|s| drop(s.spawn(hog)));
            });
        });
    }
    let mut program = Program::start(test);
    let mut text = program.read_to("  help: ");
    program.write(b".");
    text.push_str(&program.read_to("has ended its run on worker "));
    text.push_str(&program.end());
    assert_eq!(text.matches("ramie: stall: ").count(), 2, "{text}");
    assert_eq!(text.matches("  it computes: at least ").count(), 1, "{text}");
    assert_eq!(text.matches(&format!("  it runs stall::reports::{test}::")).count(), 1, "{text}");
    assert_eq!(text.matches("yield_now").count(), 1, "{text}");
}

#[test]
fn reactions() {
    static IS_CALLED: AtomicBool = AtomicBool::new(false);
    fn panics(_: &Stall) {
        IS_CALLED.store(true, SeqCst);
        panic!("a reaction that panics");
    }
    let stall_until = |is_over: fn() -> bool| {
        let waits = fiber::spawn(fiber::park);
        compute(10 * FIFTY);
        // On a machine that stops for moments, the first looks come too late to count.
        while !is_over() {
            compute(FIFTY);
        }
        waits.fiber().unpark();
        waits.join().unwrap();
    };
    let run = |reaction, is_over| {
        Runtime::builder().on_stall(reaction).build().unwrap().run(|| stall_until(is_over));
    };
    if is_child() {
        return match &*std::env::var("REACTION").unwrap() {
            "ignore" => run(Reaction::Ignore, || true),
            "abort" => run(Reaction::Abort, || false),
            "panic" => run(Reaction::call(panics), || IS_CALLED.load(SeqCst)),
            _ => {
                let off = Runtime::builder().stall_limit(None).on_deadlock(Reaction::Ignore);
                off.build().unwrap().run(|| {
                    let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
                    let mut names = names.map(|task| {
                        std::fs::read_to_string(task.path().join("comm")).unwrap_or_default()
                    });
                    assert!(names.all(|name| name != "ramie-watchdog\n"));
                    stall_until(|| true);
                });
            }
        };
    }
    let output = |reaction| child_with("true", "reactions", &[("REACTION", reaction), REPORTED]);
    for silent in ["ignore", "off"] {
        assert_success(&output(silent));
        assert!(!stderr(&output(silent)).contains("stall:"));
    }
    assert_success(&output("panic"));
    assert!(stderr(&output("panic")).contains("a reaction that panics"));
    assert_aborted(&output("abort"), "was built with Reaction::Abort");
    assert_aborted(&output("abort"), "fiber 'main' has run on worker ");
}

/// The parent of a process may wait for its end before it reads from the pipe.
#[test]
fn a_full_stderr_does_not_keep_a_process() {
    let test = "a_full_stderr_does_not_keep_a_process";
    if is_child() {
        return Runtime::builder().workers(1).build().unwrap().run(|| {
            let waits = fiber::spawn(fiber::park);
            compute(4 * FIFTY);
            waits.fiber().unpark();
            waits.join().unwrap();
        });
    }
    let (_reader, writer) = std::io::pipe().unwrap();
    // Opened anew, because the flag belongs to the open file.
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut filler = OpenOptions::new();
    let mut filler = filler.write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    while filler.write(&[0; 4096]).is_ok() {}
    let mut program = Program::with_stderr(test, &[], writer.into());
    assert!(program.child.wait().unwrap().success());
}

/// So that nothing that another thread or process prints gets into it. A datagram is one call.
#[test]
fn a_report_is_written_by_one_call() {
    let test = "a_report_is_written_by_one_call";
    if is_child() {
        let reaction = match std::env::var_os("REACTION") {
            Some(_) => Reaction::Abort,
            None => Reaction::Report,
        };
        let runtime = Runtime::builder().workers(1).on_stall(reaction).build().unwrap();
        return runtime.run(|| {
            drop(fiber::spawn(fiber::park));
            compute(Duration::from_secs(20));
        });
    }
    for variables in [&[][..], &[("REACTION", "abort")]] {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let stderr = Stdio::from(OwnedFd::from(theirs));
        let _program = Program::with_stderr(test, variables, stderr);
        let (_limit, mut datagram) = (Limit::of_this_test(), [0; 8192]);
        let report = loop {
            let len = ours.recv(&mut datagram).unwrap();
            let text = String::from_utf8_lossy(&datagram[..len]).into_owned();
            if text.starts_with("ramie: ") {
                break text;
            }
        };
        let last = report.lines().last().unwrap();
        let is_aborted = !variables.is_empty();
        let expected = if is_aborted { "Aborting, " } else { "  help: " };
        assert!(report.starts_with("ramie: stall: ") && last.starts_with(expected), "{report}");
        assert!(report.ends_with('\n'), "{report}");
    }
}

/// A panic or a lock in the program's logger cannot hinder the report.
#[test]
fn a_stalled_logger_does_not_hinder_the_report() {
    struct Log;
    static LOCK: Mutex<u32> = Mutex::new(0);
    static IS_LOGGED: AtomicBool = AtomicBool::new(false);
    impl log::Log for Log {
        fn enabled(&self, _: &log::Metadata) -> bool {
            true
        }
        fn log(&self, record: &log::Record) {
            let _guard = LOCK.lock().unwrap();
            eprintln!("logged: {}", record.args());
            IS_LOGGED.store(true, SeqCst);
        }
        fn flush(&self) {}
    }
    let test = "a_stalled_logger_does_not_hinder_the_report";
    if !is_child() {
        let output = child_with("true", test, &[REPORTED]);
        assert_success(&output);
        let text = stderr(&output);
        let (report, logged) = (text.find("ramie: stall: "), text.find("logged: stall: "));
        assert!(
            report.is_some_and(|report| logged.is_some_and(|logged| report < logged)),
            "{text}"
        );
        return;
    }
    log::set_logger(&Log).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    Runtime::builder().workers(1).build().unwrap().run(|| {
        // Once, unless the machine stops for moments: then the looks may come too late to count.
        while !IS_LOGGED.load(SeqCst) {
            let waiter = fiber::spawn(|| fiber::sleep(FIFTY));
            let guard = LOCK.lock().unwrap();
            compute(6 * FIFTY);
            drop(guard);
            waiter.join().unwrap();
        }
    });
}
