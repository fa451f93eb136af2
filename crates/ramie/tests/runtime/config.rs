//! The options of a runtime: their ranges, the environment, and refusals of the kernel.

use std::{io::ErrorKind, time::Duration};

use crate::common;
use crate::common::{assert_success, child, child_with, is_child, panic_text};
use ramie::{Builder, Driver, Runtime};

#[track_caller]
fn assert_refused(builder: Builder, sentence: &str) {
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains(sentence), "{error}");
}

#[test]
fn options_out_of_range_are_refused() {
    let new = Runtime::builder;
    assert_refused(new().workers(0), "workers is 0, but must be between 1 and 1024");
    assert_refused(new().workers(5000), "workers is 5000, but must be between 1 and 1024");
    assert_refused(new().stack_size(1), "stack_size is 1, but must be between 32768 (32 KiB)");
    assert_refused(new().stack_size(usize::MAX), "bytes");
    let sentence = "blocking_threads is 0, but must be between 1 and 16384";
    assert_refused(new().blocking_threads(0), sentence);
    assert_refused(new().thread_name("nul\0"), "thread_name contains a NUL byte; leave it out");
    for limit in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(3601)] {
        assert_refused(new().stall_limit(Some(limit)), "but must be between 1 ms and 1 hour");
    }
}

#[test]
fn options_in_range_are_taken() {
    let builder = Runtime::builder().workers(3).stack_size(100_000).blocking_threads(2);
    let runtime = builder.thread_name("mine").build().unwrap();
    assert_eq!(runtime.workers(), 3);
    let name = || {
        std::thread::yield_now();
        std::thread::current().name().unwrap_or_default().to_owned()
    };
    let names: Vec<_> = runtime.run(|| {
        let strands: Vec<_> = (0..100).map(|_| ramie::fiber::spawn(name)).collect();
        strands.into_iter().map(|strand| strand.join().unwrap()).collect()
    });
    let here = std::thread::current().name().unwrap().to_owned();
    let is_known = |name: &String| *name == here || name == "mine-1" || name == "mine-2";
    assert!(names.iter().all(is_known), "{names:?}");
    assert!(!format!("{:?} {runtime:?}", Runtime::builder()).is_empty());
    assert!(Runtime::builder().build().unwrap().workers() >= 1);
}

#[test]
fn an_environment_that_does_not_parse_is_refused() {
    if is_child() {
        let error = Runtime::builder().build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let sentence = error.to_string();
        assert_eq!(panic_text(|| ramie::run(|| ())), sentence);
        let given = ["STACK", "DRIVER", "CAPS", "SUBMIT", "STALL_MS", "INSPECT", "DUMP_FILE"]
            .map(|name| format!("RAMIE_{name}"));
        let given = given.into_iter().find_map(|name| std::env::var(name).ok()).unwrap();
        assert!(sentence.contains("RAMIE_") || sentence.contains(&given), "{sentence}");
        return;
    }
    let name = "an_environment_that_does_not_parse_is_refused";
    for (variable, value) in [
        ("RAMIE_STACK", "large"),
        ("RAMIE_STACK", "-1"),
        ("RAMIE_STACK", "1"),
        ("RAMIE_DRIVER", "kqueue"),
        ("RAMIE_CAPS", "-multishto"),
        ("RAMIE_SUBMIT", "sqpoll"),
        ("RAMIE_STALL_MS", "25ms"),
        ("RAMIE_STALL_MS", "3600001"),
        ("RAMIE_INSPECT", "yes"),
        ("RAMIE_DUMP_FILE", "dumps"),
    ] {
        assert_success(&child_with("true", name, &[(variable, value)]));
    }
}

/// Prints each line that is logged.
struct Print;

impl log::Log for Print {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        eprintln!("{} {}", record.level(), record.args());
    }

    fn flush(&self) {}
}

#[test]
fn an_unknown_variable_is_logged_once_at_the_start() {
    if is_child() {
        // Without a logger the warning would be lost, so it waits for one.
        ramie::run(|| ());
        log::set_logger(&Print).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
        ramie::run(|| ());
        ramie::run(|| ());
        return;
    }
    let name = "an_unknown_variable_is_logged_once_at_the_start";
    let lines = |variables: &[(&str, &str)]| {
        let output = child_with("true", name, variables);
        assert_success(&output);
        let text = common::stderr(&output);
        let lines = text.lines().filter(|line| line.contains("unknown environment variable"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = "WARN ignoring unknown environment variable RAMIE_ENTER: expected RAMIE_CAPS, \
                    RAMIE_DRIVER, RAMIE_DUMP_FILE, RAMIE_FLIGHT_RECORDER, RAMIE_INSPECT, \
                    RAMIE_STACK, RAMIE_STALL_MS, RAMIE_STRANDS, RAMIE_SUBMIT";
    assert_eq!(lines(&[("RAMIE_ENTER", "sidecar")]), [expected]);
    assert!(lines(&[("RAMIE_STACK", "65536"), ("RAMIE_CAPS", "")]).is_empty());
}

#[test]
fn a_value_that_is_not_utf_8_is_refused() {
    if is_child() {
        let text = panic_text(|| ramie::run(|| ()));
        assert!(text.contains("invalid value `6\u{fffd}` for RAMIE_ST"), "{text}");
        return;
    }
    let name = "a_value_that_is_not_utf_8_is_refused";
    for variable in ["RAMIE_STACK", "RAMIE_STALL_MS", "RAMIE_STRANDS"] {
        let export = format!("export {variable}=$(printf '6\\377')");
        assert_success(&child_with(&export, name, &[]));
    }
}

#[test]
fn the_environment_is_heeded_unless_overridden() {
    if is_child() {
        ramie::run(|| ramie::fiber::spawn(|| ()).join().unwrap());
        Runtime::builder().driver(Driver::Auto).stack_size(65536).build().unwrap().run(|| ());
        return;
    }
    let name = "the_environment_is_heeded_unless_overridden";
    let variables = [("RAMIE_STACK", " 131072 "), ("RAMIE_DRIVER", "poll")];
    assert_success(&child_with("true", name, &variables));
}

/// Answers io_uring's first call with EPERM from now on, in this thread.
fn forbid_io_uring() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
    let filter = SeccompFilter::new(
        [(libc::SYS_io_uring_setup, Vec::new())].into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        TargetArch::try_from(std::env::consts::ARCH).unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn io_uring_that_is_forbidden_and_demanded_is_an_error() {
    if is_child() {
        forbid_io_uring();
        let error = Runtime::builder().driver(Driver::Uring).build().unwrap_err();
        assert!(error.to_string().contains("seccomp"), "{error}");
        assert!(error.to_string().contains("RAMIE_DRIVER=poll"), "{error}");
        if std::env::var_os("RAMIE_DRIVER").is_some() {
            assert_eq!(panic_text(|| ramie::run(|| ())), error.to_string());
        } else {
            // Nobody demanded it: polling does.
            assert_eq!(ramie::run(|| 5), 5);
        }
        return;
    }
    let name = "io_uring_that_is_forbidden_and_demanded_is_an_error";
    assert_success(&child(name));
    assert_success(&child_with("true", name, &[("RAMIE_DRIVER", "uring")]));
}

#[test]
fn without_descriptors_no_runtime_starts() {
    if is_child() {
        let text = panic_text(|| Runtime::builder().workers(64).build().unwrap().run(|| ()));
        assert!(text.contains("Too many open files") || text.contains("descriptors"), "{text}");
        return;
    }
    let name = "without_descriptors_no_runtime_starts";
    assert_success(&child_with("ulimit -n 20", name, &[("RAMIE_DRIVER", "poll")]));
}
