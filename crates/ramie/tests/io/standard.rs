//! The standard streams, in processes whose streams are pipes, files, closed or terminals.

use std::{
    fs::File,
    io::{BufRead, Read, Seek, Write},
    os::fd::{AsFd, AsRawFd},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::common::{self, is_child};
use ramie::{
    Driver, Runtime, fiber,
    io::{self, IsTerminal},
};
use ramie_driver::sys;

const DRIVER: &str = "RAMIE_TEST_DRIVER";

/// This very test in a process of its own, on a driver.
#[track_caller]
fn child(test: &str, driver: &str) -> Command {
    let mut command = Command::new("timeout");
    command
        .arg("60")
        .arg(std::env::current_exe().unwrap())
        .args([&*common::full_name(test), "--exact", "--nocapture", "--test-threads=1"])
        .env("RAMIE_TEST_CHILD", "1")
        .env(DRIVER, driver)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn in_child<R>(f: impl FnOnce() -> R) -> R {
    match std::env::var(DRIVER).unwrap().as_str() {
        "thread" => f(),
        "poll" => Runtime::builder().driver(Driver::Poll).workers(1).build().unwrap().run(f),
        _ => Runtime::builder().driver(Driver::Uring).workers(1).build().unwrap().run(f),
    }
}

/// On each driver that this machine has, and on a plain thread.
fn ways() -> Vec<&'static str> {
    [common::driver_names(), vec!["thread"]].concat()
}

/// The output of the child between the lines of the test harness.
fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", common::stderr(&output));
    text
}

#[test]
fn input_from_a_pipe_parks_the_fiber_only() {
    if is_child() {
        in_child(|| {
            static TURNS: AtomicUsize = AtomicUsize::new(0);
            let other = fiber::spawn(|| {
                for _ in 0..10 {
                    TURNS.fetch_add(1, Ordering::Relaxed);
                    fiber::yield_now();
                }
                // The parent answers only now.
                io::stdout().write_all(b"ready\n").unwrap();
            });
            let mut line = String::new();
            assert_eq!(io::stdin().read_line(&mut line).unwrap(), 6);
            assert_eq!((line.as_str(), TURNS.load(Ordering::Relaxed)), ("first\n", 10));
            let rest: Vec<_> = io::stdin().lines().map(Result::unwrap).collect();
            assert_eq!(rest, ["second", "third"]);
            assert_eq!(io::stdin().read(&mut [0; 8]).unwrap(), 0);
            assert!(!sys::is_nonblocking(io::stdin()).unwrap());
            other.join().unwrap();
        });
        return;
    }
    for way in ways() {
        let mut child = child("input_from_a_pipe_parks_the_fiber_only", way)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready")), "{way}");
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"first\nsecond\nthird").unwrap();
        drop(stdin);
        for _ in lines {}
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{way}: {}", common::stderr(&output));
    }
}

#[test]
fn local_fibers_of_a_thread_run_while_it_reads() {
    if is_child() {
        let other = fiber::spawn_local(|| ramie::println!("ready"));
        let mut line = String::new();
        io::stdin().read_line(&mut line).unwrap();
        assert_eq!(line, "answer");
        return other.join().unwrap();
    }
    let mut child = child("local_fibers_of_a_thread_run_while_it_reads", "thread")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("ready")));
    child.stdin.take().unwrap().write_all(b"answer").unwrap();
    for _ in lines {}
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", common::stderr(&output));
}

#[test]
fn input_from_a_file_and_from_nothing() {
    if is_child() {
        in_child(|| {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).unwrap();
            ramie::println!("[{text}]");
        });
        return;
    }
    let path = std::env::temp_dir().join(format!("ramie-test-stdin-{}", std::process::id()));
    std::fs::write(&path, "from a file").unwrap();
    for way in ways() {
        let mut command = child("input_from_a_file_and_from_nothing", way);
        let file = File::open(&path).unwrap();
        assert!(output_of(command.stdin(file)).contains("[from a file]"), "{way}");
        assert!(output_of(command.stdin(Stdio::null())).contains("[]"), "{way}");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_unfinished_line_is_written_at_exit() {
    if is_child() {
        in_child(|| {
            ramie::print!("un");
            ramie::print!("{}", "finished");
        });
        return;
    }
    for way in ways() {
        let mut command = child("an_unfinished_line_is_written_at_exit", way);
        let text = output_of(&mut command);
        assert!(text.ends_with("unfinished"), "{way}: {text}");
    }
}

#[test]
fn exit_on_a_fiber_writes_the_unfinished_line() {
    if is_child() {
        in_child(|| {
            ramie::print!("last words");
            std::process::exit(0);
        });
    }
    for way in ways() {
        let text = output_of(&mut child("exit_on_a_fiber_writes_the_unfinished_line", way));
        assert!(text.ends_with("last words"), "{way}: {text}");
    }
}

#[test]
fn lines_of_many_fibers_stay_whole_though_the_reader_is_slow() {
    const LINES: usize = 200;
    if is_child() {
        in_child(|| {
            ramie::println!();
            fiber::scope(|s| {
                for name in ["a", "b", "c"] {
                    s.spawn(move || {
                        for _ in 0..LINES {
                            let mut out = io::stdout().lock();
                            // Reentrant, and let go in any order.
                            let again = io::stdout().lock();
                            write!(out, "{}", name.repeat(300)).unwrap();
                            drop(out);
                            { again }.write_all(b"\n").unwrap();
                        }
                    });
                }
            });
            assert!(!sys::is_nonblocking(io::stdout()).unwrap());
        });
        return;
    }
    for way in ways() {
        let mut command = child("lines_of_many_fibers_stay_whole_though_the_reader_is_slow", way);
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let (mut text, mut part) = (Vec::new(), [0; 8192]);
        loop {
            // The pipe of 64 KiB is full most of the time.
            std::thread::sleep(std::time::Duration::from_micros(200));
            match out.read(&mut part).unwrap() {
                0 => break,
                count => text.extend_from_slice(&part[..count]),
            }
        }
        assert!(child.wait().unwrap().success());
        let text = String::from_utf8(text).unwrap();
        for name in ["a", "b", "c"] {
            let line = name.repeat(300);
            assert_eq!(text.lines().filter(|found| *found == line).count(), LINES, "{way}");
        }
    }
}

/// A fiber with two guards may lend one to another fiber of its worker.
#[test]
fn a_lent_guard_writes_not_while_another_call_waits() {
    if is_child() {
        in_child(|| {
            fiber::scope(|s| {
                let (mut own, mut lent) = (io::stdout().lock(), io::stdout().lock());
                let said = s.spawn_local(move || {
                    let write = AssertUnwindSafe(|| lent.write_all(b"lent"));
                    let payload = catch_unwind(write).unwrap_err();
                    let said = common::text(&*payload).to_owned();
                    ramie::eprintln!("said: {said}");
                });
                // More than the pipe takes, so this waits, and the other fiber runs.
                own.write_all(&[b'x'; 1 << 20]).unwrap();
                said.join().unwrap();
            });
        });
        return;
    }
    for way in common::driver_names() {
        let test = "a_lent_guard_writes_not_while_another_call_waits";
        let mut child = child(test, way).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        let told = stderr.lines().map(Result::unwrap).find(|line| line.starts_with("said: "));
        let told = told.unwrap_or_else(|| panic!("{way}: nothing was said"));
        assert!(told.contains("was lent a guard of a standard stream"), "{way}: {told}");
        let mut out = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
        assert!(child.wait().unwrap().success(), "{way}");
    }
}

/// A write that the pipe takes only in part leaves the end of the line to a second one.
#[test]
fn a_line_longer_than_the_pipe_is_out_before_the_write_returns() {
    const PIPE: usize = 64 << 10;
    // The rest is less than the line buffer's 1 KiB.
    const LENGTH: usize = PIPE + 500;
    if is_child() {
        in_child(|| {
            ramie::println!("ready");
            io::stdin().read_exact(&mut [0; 1]).unwrap();
            io::stdout().write_all(("x".repeat(LENGTH) + "\n").as_bytes()).unwrap();
            assert_eq!(io::stdin().read(&mut [0; 1]).unwrap(), 0);
        });
        return;
    }
    for way in ways() {
        let test = "a_line_longer_than_the_pipe_is_out_before_the_write_returns";
        let mut child = child(test, way).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let output = child.stdout.take().unwrap();
        let again = output.as_fd().try_clone_to_owned().unwrap();
        let mut lines = std::io::BufReader::new(output).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready")), "{way}");
        input.write_all(b"g").unwrap();
        // Only then is the first write a short one.
        common::wait_until(|| bytes_waiting(&again) == PIPE);
        assert!(lines.any(|line| line.unwrap() == "x".repeat(LENGTH)), "{way}");
        drop(input);
        for _ in lines {}
        assert!(child.wait().unwrap().success(), "{way}");
    }
}

/// A strand that unwinds cannot wait for the one that has the lock.
#[test]
fn a_destructor_prints_though_another_has_the_lock() {
    struct Farewell;
    impl Drop for Farewell {
        fn drop(&mut self) {
            ramie::println!("farewell");
            ramie::eprintln!("farewell");
        }
    }
    if is_child() {
        in_child(|| {
            let stdout = io::stdout().lock();
            let stderr = io::stderr().lock();
            let panicking = fiber::spawn(|| {
                let _farewell = Farewell;
                panic!("on purpose");
            });
            if std::env::var(DRIVER).unwrap() == "thread" {
                // A thread that unwinds, too, does not wait.
                while !panicking.is_finished() {
                    std::thread::yield_now();
                }
            }
            assert!(panicking.join().is_err());
            drop((stdout, stderr));
        });
        return;
    }
    for way in ways() {
        let mut command = child("a_destructor_prints_though_another_has_the_lock", way);
        let output = command.output().unwrap();
        let errors = common::stderr(&output);
        assert!(output.status.success(), "{way}: {errors}");
        assert!(errors.contains("farewell") && errors.contains("on purpose"), "{way}: {errors}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("farewell"), "{way}");
    }
}

#[test]
fn output_to_a_file_and_errors_at_once() {
    if is_child() {
        in_child(|| {
            ramie::eprint!("at once");
            let mut stderr = io::stderr().lock();
            write!(stderr, ", {}", io::stderr().is_terminal()).unwrap();
            ramie::eprintln!();
            writeln!(io::stdout(), "to the file").unwrap();
            assert!(!io::stdout().is_terminal());
        });
        return;
    }
    let path = std::env::temp_dir().join(format!("ramie-test-stdout-{}", std::process::id()));
    for way in ways() {
        let mut file =
            File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        let mut command = child("output_to_a_file_and_errors_at_once", way);
        let output = command.stdout(file.try_clone().unwrap()).output().unwrap();
        assert!(common::stderr(&output).contains("at once, false\n"), "{way}");
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert!(text.contains("to the file\n"), "{way}: {text}");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn closed_streams_are_empty_and_take_everything() {
    if is_child() {
        in_child(|| {
            // So that this thread's driver is open, and does not take the numbers for itself.
            io::pipe().unwrap().1.write_all(b"x").unwrap();
            // Nobody else uses them in this child but the harness, which is done with them.
            let [stdin, stdout] = [0, 1].map(|fd| sys::dup_cloexec(borrow(fd)).unwrap());
            // SAFETY: closing by number; nothing here uses the numbers before they are back.
            unsafe { libc::close(0) };
            // SAFETY: as above.
            unsafe { libc::close(1) };
            assert_eq!(io::stdin().read(&mut [0; 8]).unwrap(), 0);
            io::stdout().write_all(b"into nothing\n").unwrap();
            // SAFETY: both numbers are closed, and now refer to their earlier files.
            unsafe { libc::dup2(stdin.as_raw_fd(), 0) };
            // SAFETY: as above.
            unsafe { libc::dup2(stdout.as_raw_fd(), 1) };
        });
        return;
    }
    for way in ways() {
        let text = output_of(&mut child("closed_streams_are_empty_and_take_everything", way));
        assert!(!text.contains("into nothing"), "{way}");
    }
}

fn borrow(fd: i32) -> std::os::fd::BorrowedFd<'static> {
    // SAFETY: the standard streams of a child process that was started with them.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
}

#[test]
fn a_terminal_is_read_line_by_line() {
    if is_child() {
        in_child(|| {
            assert!(io::stdin().is_terminal());
            let other = fiber::spawn(|| 7);
            let mut line = String::new();
            ramie::println!("ready");
            io::stdin().read_line(&mut line).unwrap();
            assert_eq!((line.as_str(), other.join().unwrap()), ("typed\n", 7));
            assert!(!sys::is_nonblocking(io::stdin().as_fd()).unwrap());
        });
        return;
    }
    for way in ways() {
        let (mut master, slave) = terminal();
        let mut command = child("a_terminal_is_read_line_by_line", way);
        let mut child = command.stdin(slave).spawn().unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready")), "{way}");
        master.write_all(b"typed\n").unwrap();
        for _ in lines {}
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{way}: {}", common::stderr(&output));
    }
}

fn bytes_waiting(pipe: &impl AsFd) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: writes one int through a pointer to one.
    let told = unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut count) };
    assert_eq!(told, 0);
    count as usize
}

/// A terminal that nobody sits at.
fn terminal() -> (File, File) {
    let master = File::options().read(true).write(true).open("/dev/ptmx").unwrap();
    // SAFETY: calls on an open descriptor.
    assert_eq!(unsafe { libc::grantpt(master.as_raw_fd()) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::unlockpt(master.as_raw_fd()) }, 0);
    let mut name = [0; 64];
    // SAFETY: the buffer has the length that is given.
    let named = unsafe { libc::ptsname_r(master.as_raw_fd(), name.as_mut_ptr(), name.len()) };
    assert_eq!(named, 0);
    // SAFETY: ptsname_r has written a string that ends with a zero.
    let name = unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) };
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (master, slave)
}
