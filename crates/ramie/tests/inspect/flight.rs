//! The flight recorder: what makes it write, its options, its files.

use std::{
    env, fs,
    io::{self, Read},
    os::unix::{fs::MetadataExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::Output,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ramie::{
    Reaction, Runtime, fiber,
    inspect::{self, FlightRecorder, Trace, TraceEventKind},
    sync::Mutex,
};

use crate::{
    common::{
        Limit, assert_success, child_with, full_name, is_child, program::Program, stderr,
        wait_until,
    },
    has_thread,
    recorded::{events_of, is_alone, recorded_in, strand},
    served::Folder,
    spawned_in,
};

const VARIABLE: &str = "RAMIE_FLIGHT_RECORDER";

/// Runs a test of this file in a process of its own, whose recorder is set by the variable.
#[track_caller]
fn alone(test: &str) -> (Folder, Output) {
    let folder = Folder::new();
    let directory = folder.0.join("traces");
    let variables = [(VARIABLE, directory.to_str().unwrap())];
    let output = child_with("true", &full_name(test), &variables);
    (folder, output)
}

fn directory() -> PathBuf {
    PathBuf::from(env::var_os(VARIABLE).unwrap())
}

/// The traces in the directory that are whole, in the order of their numbers.
fn traces_in(directory: &Path) -> Vec<Trace> {
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    let read = |path: PathBuf| {
        let found = path.metadata().ok()?;
        assert_eq!(found.mode() & 0o777, 0o600);
        Trace::read(&fs::read(path).ok()?).ok().filter(|trace| trace.is_complete)
    };
    paths.into_iter().filter_map(read).collect()
}

fn reasons_in(directory: &Path) -> Vec<String> {
    traces_in(directory).into_iter().map(|trace| trace.why).collect()
}

/// In the child: waits until there are these traces.
fn await_reasons(expected: &[&str]) {
    wait_until(|| reasons_in(&directory()) == expected);
}

fn one_worker() -> ramie::Builder {
    Runtime::builder().workers(1)
}

fn send_quit() {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::QUIT).unwrap();
}

#[test]
fn sigquit_writes_a_trace_each_time_and_the_program_continues() {
    let name = "sigquit_writes_a_trace_each_time_and_the_program_continues";
    if !is_child() {
        let (folder, output) = alone(name);
        assert_success(&output);
        let text = stderr(&output);
        let line = text.lines().find(|line| line.contains("ramie: flight recorder: "));
        let line = line.expect(&text);
        let path = folder.0.join("traces");
        assert!(line.contains(path.to_str().unwrap()) && line.contains("`ramie trace`"), "{text}");
        return;
    }
    let _limit = Limit::of_this_test();
    one_worker().build().unwrap().run(|| {
        send_quit();
        await_reasons(&["SIGQUIT"]);
        send_quit();
        await_reasons(&["SIGQUIT", "SIGQUIT"]);
        assert!(has_thread("ramie-recorder"));
    });
    wait_until(|| !has_thread("ramie-recorder"));
    let none = inspect::write_trace().unwrap_err();
    assert_eq!(none.kind(), io::ErrorKind::NotFound);
    assert!(none.to_string().contains(VARIABLE), "{none}");
}

#[test]
fn a_panic_writes_a_trace_and_the_next_one_soon_after_does_not() {
    let name = "a_panic_writes_a_trace_and_the_next_one_soon_after_does_not";
    if !is_child() {
        let (folder, output) = alone(name);
        assert_success(&output);
        let traces = traces_in(&folder.0.join("traces"));
        let reasons: Vec<_> = traces.iter().map(|trace| &*trace.why).collect();
        assert_eq!(reasons, ["a panic", "SIGQUIT"]);
        let first = strand(&traces[0], "panics 0").id;
        let is_panic = |event: &&ramie::inspect::TraceEvent| {
            matches!(event.kind, TraceEventKind::Panics { .. })
        };
        assert!(events_of(&traces[0], first).iter().any(is_panic));
        return;
    }
    let _limit = Limit::of_this_test();
    one_worker().build().unwrap().run(|| {
        for number in 0..5 {
            let builder = fiber::Builder::new().name(format!("panics {number}"));
            builder.spawn(|| panic!("on purpose")).unwrap().join().unwrap_err();
            await_reasons(&["a panic"]);
        }
        // Written behind those of the panics, if there were any.
        send_quit();
        wait_until(|| reasons_in(&directory()).contains(&"SIGQUIT".to_owned()));
    });
}

/// `run` returns when the file is written.
#[test]
fn a_panic_of_the_closure_of_run_is_written_before_the_end() {
    let name = "a_panic_of_the_closure_of_run_is_written_before_the_end";
    if !is_child() {
        let (folder, output) = alone(name);
        assert_success(&output);
        assert_eq!(reasons_in(&folder.0.join("traces")), ["a panic"]);
        return;
    }
    let runtime = one_worker().build().unwrap();
    let ended = crate::common::panic_text(|| runtime.run(|| panic!("on purpose")));
    assert_eq!(ended, "on purpose");
    assert_eq!(reasons_in(&directory()), ["a panic"]);
}

#[test]
fn a_stall_writes_a_trace() {
    let name = "a_stall_writes_a_trace";
    if !is_child() {
        let (folder, output) = alone(name);
        assert_success(&output);
        let traces = traces_in(&folder.0.join("traces"));
        assert_eq!(traces[0].why, "a stall");
        // The one that stalls was the last to run.
        let hog = events_of(&traces[0], strand(&traces[0], "hog").id);
        assert!(matches!(hog[hog.len() - 1].kind, TraceEventKind::Started), "{hog:?}");
        return;
    }
    let _limit = Limit::of_this_test();
    let runtime = one_worker().stall_limit(Some(Duration::from_millis(20))).build().unwrap();
    runtime.run(|| {
        fiber::scope(|s| {
            spawned_in(s, "hog", || {
                while reasons_in(&directory()).is_empty() {
                    thread::yield_now();
                }
            });
            spawned_in(s, "waits for its turn", || ());
        });
    });
}

fn deadlock() {
    let (left, right) = (Mutex::new(()), Mutex::new(()));
    fiber::scope(|s| {
        let lock = |first: &Mutex<()>, second: &Mutex<()>| {
            let _first = first.lock().unwrap();
            fiber::yield_now();
            let _second = second.lock().unwrap();
        };
        let (left, right) = (&left, &right);
        spawned_in(s, "left", move || lock(left, right));
        spawned_in(s, "right", move || lock(right, left));
    });
}

#[test]
fn a_deadlock_writes_a_trace_also_before_an_abort() {
    let name = "a_deadlock_writes_a_trace_also_before_an_abort";
    if !is_child() {
        let (folder, output) = alone(name);
        let is_aborted = output.status.signal() == Some(6) || output.status.code() == Some(128 + 6);
        assert!(is_aborted, "{}: {}", output.status, stderr(&output));
        let traces = traces_in(&folder.0.join("traces"));
        assert_eq!(traces.len(), 1, "{}", stderr(&output));
        assert_eq!(traces[0].why, "a deadlock");
        for name in ["left", "right"] {
            let wait = strand(&traces[0], name).wait.as_ref().expect(name);
            assert_eq!(wait.purpose.as_deref(), Some("a Mutex"));
        }
        return;
    }
    let _limit = Limit::of_this_test();
    one_worker().on_deadlock(Reaction::Abort).build().unwrap().run(deadlock);
}

#[test]
fn a_directory_that_cannot_be_written_is_named_at_the_start() {
    let name = "a_directory_that_cannot_be_written_is_named_at_the_start";
    if !is_child() {
        let output = child_with("true", &full_name(name), &[(VARIABLE, "/proc/traces")]);
        assert_success(&output);
        let text = stderr(&output);
        assert!(text.contains("no flight recorder: /proc/traces"), "{text}");
        return;
    }
    one_worker().build().unwrap().run(|| {
        fiber::spawn(|| panic!("on purpose")).join().unwrap_err();
        assert_eq!(inspect::write_trace().unwrap_err().kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_the_program_continues() {
    let name = "a_file_that_cannot_be_written_is_named_and_the_program_continues";
    if !is_child() {
        let (_folder, output) = alone(name);
        assert_success(&output);
        let text = stderr(&output);
        assert!(text.contains("flight recorder: no trace on a panic: "), "{text}");
        return;
    }
    one_worker().build().unwrap().run(|| {
        // It was made, and is empty. Now nothing can be made in it.
        fs::remove_dir(directory()).unwrap();
        fs::write(directory(), "").unwrap();
        fiber::spawn(|| panic!("on purpose")).join().unwrap_err();
        let error = inspect::write_trace().unwrap_err().to_string();
        assert!(error.contains(directory().to_str().unwrap()), "{error}");
    });
}

/// Of a limit of the size of files, which acts as a full disk does.
#[test]
fn a_full_disk_leaves_no_part_of_a_trace() {
    let name = "a_full_disk_leaves_no_part_of_a_trace";
    if !is_child() {
        let folder = Folder::new();
        let directory = folder.0.join("traces");
        let limits = "trap '' XFSZ; ulimit -f 1";
        let variables = [(VARIABLE, directory.to_str().unwrap())];
        let output = child_with(limits, &full_name(name), &variables);
        assert_success(&output);
        let text = stderr(&output);
        assert!(text.contains("flight recorder: no trace on a panic: "), "{text}");
        assert_eq!(text.matches("free some space there").count(), 1, "{text}");
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "{text}");
        return;
    }
    one_worker().build().unwrap().run(|| {
        let long = fiber::Builder::new().name("a long name ".repeat(100));
        let event = ramie::sync::Event::new();
        fiber::scope(|s| {
            drop(long.spawn_scoped(s, || event.wait()).unwrap());
            fiber::yield_now();
            fiber::spawn(|| panic!("on purpose")).join().unwrap_err();
            let error = inspect::write_trace().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
            assert!(error.to_string().contains(directory().to_str().unwrap()), "{error}");
            event.set();
        });
    });
}

/// Each may have one file, and those of processes that have ended count, too.
#[test]
fn processes_that_share_a_directory_keep_their_own_files() {
    let name = "processes_that_share_a_directory_keep_their_own_files";
    if is_child() {
        let recorder = FlightRecorder::new(directory()).files(1);
        let runtime = one_worker().flight_recorder(recorder).build().unwrap();
        return runtime.run(|| {
            while ramie::blocking(|| io::stdin().read(&mut [0]).unwrap()) > 0 {
                eprintln!("wrote {}", inspect::write_trace().unwrap().display());
            }
        });
    }
    let folder = Folder::new();
    let variables = [(VARIABLE, folder.0.to_str().unwrap())];
    let [mut long, mut short] = [(); 2].map(|()| Program::start_with(name, &variables));
    let write = |program: &mut Program| {
        program.write(b".");
        let line = program.read_to("wrote ");
        PathBuf::from(line.trim_end().rsplit_once("wrote ").unwrap().1)
    };
    let first = write(&mut long);
    let others = [(); 3].map(|()| write(&mut short));
    assert!(first.exists() && others[2].exists());
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
    short.end();
    let last = write(&mut long);
    assert!(last.exists() && !first.exists());
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    long.end();
}

#[test]
fn options_out_of_range_are_refused() {
    if is_child() {
        let error = one_worker().build().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("invalid value `traces` for RAMIE_FLIGHT_RECORDER"));
        // The builder decides.
        let recorder = FlightRecorder::new("/var/tmp/unused");
        assert!(one_worker().flight_recorder(recorder).build().is_ok());
        return;
    }
    assert_success(&child_with(
        "true",
        "options_out_of_range_are_refused",
        &[(VARIABLE, "traces")],
    ));
    let new = || FlightRecorder::new("/var/tmp/unused");
    for (recorder, name) in [
        (new().bytes_per_worker(4095), "bytes_per_worker is 4095"),
        (new().bytes_per_worker((64 << 20) + 1), "bytes_per_worker is"),
        (new().files(0), "files is 0, but must be between 1 and 1000"),
        (new().files(1001), "files is 1001"),
    ] {
        let error = one_worker().flight_recorder(recorder).build().unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn several_runtimes_have_one_recorder_until_the_last_one_ends() {
    if !is_alone("several_runtimes_have_one_recorder_until_the_last_one_ends") {
        return;
    }
    let folder = Folder::new();
    let other = Folder::new();
    let events = |path: PathBuf| Trace::read(&fs::read(path).unwrap()).unwrap();
    let is_over = AtomicBool::new(false);
    recorded_in(&folder, 1).build().unwrap().run(|| {
        let runs = || recorded_in(&other, 1).build().unwrap().run(|| inspect::write_trace());
        let path = ramie::blocking(|| thread::scope(|s| s.spawn(runs).join().unwrap())).unwrap();
        // The options are those of the first one.
        assert_eq!(path.parent(), Some(&*folder.0));
        let trace = events(path);
        let mains = trace.strands.iter().filter(|strand| strand.name.as_deref() == Some("main"));
        assert_eq!(mains.count(), 2);
        // The worker of the other one has ended, and its events are kept.
        let trace = events(inspect::write_trace().unwrap());
        let workers = trace.workers.iter().filter(|worker| worker.index == Some(0));
        assert_eq!(workers.count(), 2, "{:?}", trace.workers);
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(is_over.load(Ordering::SeqCst));
}
