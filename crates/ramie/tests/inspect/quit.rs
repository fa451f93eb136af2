//! Dumps on SIGQUIT: to stderr, to a file, beside other listeners, and the end.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{fs::MetadataExt, process::ExitStatusExt},
    },
    path::PathBuf,
    process::Output,
    sync::{Arc, Mutex},
    thread,
};

use ramie::{
    Runtime, fiber,
    signal::{Signal, Signals},
    sync::Event,
};

use crate::{
    common::{Limit, assert_success, child_with, full_name, is_child, stderr, wait_until},
    has_thread,
};

fn send_quit() {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::QUIT)
        .unwrap();
}

fn with_dumps() -> Runtime {
    Runtime::builder().workers(1).dump_on_quit(true).build().unwrap()
}

/// A file for the dumps of one test, which removes itself.
struct DumpFile(PathBuf);

impl DumpFile {
    fn new(test: &str) -> DumpFile {
        let name = format!("ramie-quit-{test}-{}", std::process::id());
        DumpFile(std::env::temp_dir().join(name))
    }

    /// In the child: the number of dumps that were written to the end.
    fn count() -> usize {
        let path = std::env::var_os("RAMIE_DUMP_FILE").unwrap();
        let text = fs::read_to_string(path).unwrap_or_default();
        text.matches("ramie: dump of process ").count()
    }
}

impl Drop for DumpFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs a test of this file in a process of its own, with a file for dumps.
#[track_caller]
fn alone(limits: &str, test: &str) -> (DumpFile, Output) {
    let file = DumpFile::new(test);
    let variables = [("RAMIE_DUMP_FILE", file.0.to_str().unwrap())];
    let output = child_with(limits, &full_name(test), &variables);
    (file, output)
}

/// Collects what the process writes to stderr while `f` runs.
fn stderr_during<T>(f: impl FnOnce(&dyn Fn() -> String) -> T) -> T {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let original = std::io::stderr();
    let kept: OwnedFd = std::os::fd::AsFd::as_fd(&original).try_clone_to_owned().unwrap();
    let redirect = |to: i32| {
        // SAFETY: the call has no pointers.
        assert_eq!(unsafe { libc::dup2(to, 2) }, 2);
    };
    redirect(writer.as_raw_fd());
    drop(writer);
    let text = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&text);
    let collecting = thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(len @ 1..) = reader.read(&mut part) {
            theirs.lock().unwrap().write_all(&part[..len]).unwrap();
        }
    });
    let value = f(&|| String::from_utf8_lossy(&text.lock().unwrap()).into_owned());
    redirect(kept.as_raw_fd());
    collecting.join().unwrap();
    value
}

#[test]
fn sigquit_prints_a_dump_and_the_program_continues() {
    let name = "sigquit_prints_a_dump_and_the_program_continues";
    if !is_child() {
        for file in ["", "/nonexistent/dumps"] {
            assert_success(&child_with("true", name, &[("RAMIE_DUMP_FILE", file)]));
        }
        return;
    }
    let _limit = Limit::of_this_test();
    let text = with_dumps().run(|| {
        let event = Event::new();
        fiber::scope(|s| {
            let builder = fiber::Builder::new().name("sleeper".to_owned());
            builder.spawn_scoped(s, || event.wait().unwrap()).unwrap();
            fiber::yield_now();
            let text = stderr_during(|text| {
                send_quit();
                // The dump is written in one piece, which fits into the pipe.
                wait_until(|| text().contains("fiber 'sleeper'"));
                text()
            });
            event.set();
            text
        })
    });
    let head = format!("ramie: dump of process {}, on SIGQUIT\n", std::process::id());
    assert!(text.contains(&head), "{text}");
    let is_file_wrong = std::env::var_os("RAMIE_DUMP_FILE").is_some_and(|file| !file.is_empty());
    assert_eq!(text.contains("cannot write the dump to /nonexistent/dumps"), is_file_wrong);
}

#[test]
fn each_sigquit_adds_a_dump_to_the_file() {
    let name = "each_sigquit_adds_a_dump_to_the_file";
    if !is_child() {
        let (file, output) = alone("true", name);
        assert_success(&output);
        assert!(!stderr(&output).contains("dump of process"), "{}", stderr(&output));
        assert_eq!(file.0.metadata().unwrap().mode() & 0o777, 0o600);
        return;
    }
    // Two runtimes have one handler and one thread.
    with_dumps().run(|| {
        ramie::blocking(|| {
            let other = || with_dumps().run(send_quit_and_wait);
            thread::spawn(other).join().unwrap();
        });
        send_quit_and_wait();
        assert!(has_thread("ramie-quit"));
    });
    wait_until(|| !has_thread("ramie-quit"));
}

fn send_quit_and_wait() {
    let before = DumpFile::count();
    send_quit();
    wait_until(|| DumpFile::count() > before);
}

#[test]
fn without_a_runtime_that_asks_for_it_sigquit_ends_the_process() {
    let name = "without_a_runtime_that_asks_for_it_sigquit_ends_the_process";
    if !is_child() {
        let (_file, output) = alone("true", name);
        // `timeout` passes its child's signal on, in one way or the other.
        let status = output.status;
        let is_quit = status.signal() == Some(3) || status.code() == Some(128 + 3);
        assert!(is_quit, "{status}: {}", stderr(&output));
        return;
    }
    with_dumps().run(send_quit_and_wait);
    Runtime::builder().workers(1).build().unwrap().run(send_quit);
    unreachable!("the default effect of SIGQUIT is the end");
}

#[test]
fn a_listener_for_sigquit_and_the_dump_do_not_disturb_each_other() {
    let name = "a_listener_for_sigquit_and_the_dump_do_not_disturb_each_other";
    if !is_child() {
        assert_success(&alone("true", name).1);
        return;
    }
    let _limit = Limit::of_this_test();
    for is_listener_first in [false, true] {
        let early = is_listener_first.then(|| Signals::new([Signal::QUIT]).unwrap());
        with_dumps().run(|| {
            let signals = early.unwrap_or_else(|| Signals::new([Signal::QUIT]).unwrap());
            send_quit_and_wait();
            assert_eq!(signals.wait().unwrap(), Signal::QUIT);
            drop(signals);
            send_quit_and_wait();
        });
    }
}

#[test]
fn sigquit_is_answered_if_it_was_ignored_or_is_blocked() {
    let name = "sigquit_is_answered_if_it_was_ignored_or_is_blocked";
    if !is_child() {
        assert_success(&alone("trap '' QUIT", name).1);
        assert_success(&alone("true", name).1);
        return;
    }
    let _limit = Limit::of_this_test();
    // Libtest runs the only test on the main thread, so only the thread of the dumps takes the
    // signal.
    ramie_driver::sys::block_signals();
    with_dumps().run(send_quit_and_wait);
}

#[test]
fn sigquit_is_answered_while_all_workers_hang() {
    let name = "sigquit_is_answered_while_all_workers_hang";
    if !is_child() {
        let (file, output) = alone("true", name);
        assert_success(&output);
        let text = fs::read_to_string(&file.0).unwrap();
        assert!(text.contains("did not answer"), "{text}");
        return;
    }
    let _limit = Limit::of_this_test();
    let lock = Mutex::new(());
    let guard = lock.lock().unwrap();
    thread::scope(|threads| {
        let (begun, has_begun) = std::sync::mpsc::channel();
        let lock = &lock;
        let hangs = threads.spawn(move || {
            let runtime = Runtime::builder().workers(1).stall_limit(None).dump_on_quit(true);
            runtime.build().unwrap().run(|| {
                begun.send(()).unwrap();
                drop(lock.lock().unwrap());
            });
        });
        has_begun.recv().unwrap();
        send_quit();
        wait_until(|| DumpFile::count() > 0);
        drop(guard);
        hangs.join().unwrap();
    });
}

/// The file of dumps is opened for each, and it may have gone.
#[test]
fn a_file_that_was_moved_away_is_made_again() {
    let name = "a_file_that_was_moved_away_is_made_again";
    if !is_child() {
        assert_success(&alone("true", name).1);
        return;
    }
    with_dumps().run(|| {
        send_quit_and_wait();
        let path = std::env::var_os("RAMIE_DUMP_FILE").unwrap();
        fs::remove_file(&path).unwrap();
        send_quit_and_wait();
        assert!(File::open(path).is_ok());
    });
}
