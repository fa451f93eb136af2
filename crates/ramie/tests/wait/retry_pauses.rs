//! Calls that try again after a pause of their own: they end on a clock that stands still, and do
//! not move one that jumps.

use std::{
    io::{self, ErrorKind, Write},
    process::{Command, Stdio},
    sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use crate::common;
use ramie::{
    Driver, Runtime, Strands, cancel, fiber, fs,
    io::Async,
    os::unix::net::{UnixDatagram, UnixStream},
    ring::{self, Pid, WaitId, WaitIdOptions},
    sync::{Condvar, Mutex},
    time::{Instant, ManualClock},
};

/// Runs `f` on a clock that stands still, and on one that jumps and must not; fails if that takes a
/// minute. `f` is called inside a scope that nobody cancels before it ends.
fn on_manual_clocks(f: impl Fn() + Send + Sync + Copy + 'static) {
    let drivers = common::drivers().into_iter().map(|driver| (driver, Strands::Fibers));
    for (driver, strands) in drivers.chain([(Driver::Poll, Strands::Threads)]) {
        for clock in [ManualClock::new(), ManualClock::jumping()] {
            let what = format!("{driver:?}, {strands:?}, {clock:?}");
            let (done, is_done) = mpsc::channel();
            std::thread::spawn(move || {
                let builder = Runtime::builder().driver(driver).strands(strands).workers(1);
                let runtime = builder.clock(clock).blocking_threads(1).build().unwrap();
                let passed = runtime.run(|| {
                    cancel::scope(|scope| {
                        fiber::scope(|s| {
                            // A clock that jumps would jump to its time.
                            s.spawn(|| fiber::sleep(Duration::from_millis(1)));
                            let start = Instant::now();
                            f();
                            let passed = start.elapsed();
                            scope.cancel();
                            passed
                        })
                    })
                });
                let _ = done.send(passed);
            });
            let passed = is_done.recv_timeout(Duration::from_secs(60));
            assert_eq!(passed, Ok(Duration::ZERO), "{what}");
        }
    }
}

/// A path of its own for each call.
fn path(name: &str) -> std::path::PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, SeqCst);
    std::env::temp_dir().join(format!("ramie-{name}-{}-{number}", std::process::id()))
}

#[test]
fn a_call_that_a_ready_descriptor_refuses() {
    on_manual_clocks(|| {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        (&theirs).write_all(b"x").unwrap();
        let mut calls = 0;
        let read = Async::from_fd(ours).unwrap().with_read(|_| -> io::Result<()> {
            calls += 1;
            if calls < 12 { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        read.unwrap();
    });
}

#[test]
fn a_condvar_in_a_cancelled_scope() {
    on_manual_clocks(|| {
        cancel::scope(|scope| {
            scope.cancel();
            let (waits, condvar) = (Mutex::new(0), Condvar::new());
            let mut waits = waits.lock().unwrap();
            while *waits < 12 {
                waits = condvar.wait(waits).unwrap();
                *waits += 1;
            }
        });
    });
}

#[test]
fn a_datagram_for_a_full_queue() {
    on_manual_clocks(|| {
        let path = path("full");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        // More than any queue holds by default.
        let count = 2000;
        fiber::scope(|s| {
            s.spawn(|| {
                (0..count).for_each(|_| assert_eq!(sender.send_to(b"x", &path).unwrap(), 1))
            });
            (0..count).for_each(|_| assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 1));
        });
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn a_wait_for_a_process_to_stop() {
    on_manual_clocks(|| {
        let mut child = Command::new("sh")
            .args(["-c", "read line; kill -STOP $$; exit 3"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let id = Pid::from_child(&child);
        fiber::scope(|s| {
            let stopped = s.spawn(move || ring::waitid(WaitId::Pid(id), WaitIdOptions::STOPPED));
            fiber::yield_now();
            child.stdin.take().unwrap().write_all(b"\n").unwrap();
            assert!(stopped.join().unwrap().unwrap().is_some());
        });
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn a_lock_that_another_holds() {
    on_manual_clocks(|| {
        let path = path("locked");
        let holder = std::fs::File::create(&path).unwrap();
        holder.lock().unwrap();
        fiber::scope(|s| {
            let locked = s.spawn(|| fs::File::open(&path)?.lock());
            fiber::yield_now();
            // After the first attempt, where the pool has one thread and takes jobs in order.
            ramie::blocking(|| holder.unlock().unwrap());
            locked.join().unwrap().unwrap();
        });
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn a_connect_to_a_listener_whose_queue_is_full() {
    on_manual_clocks(|| {
        let path = path("queue");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // SAFETY: it points to nothing, and the socket is open.
        let listens = unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) };
        assert_eq!(listens, 0);
        let _first = std::os::unix::net::UnixStream::connect(&path).unwrap();
        fiber::scope(|s| {
            let connected = s.spawn(|| UnixStream::connect(&path));
            fiber::yield_now();
            drop(listener.accept().unwrap());
            connected.join().unwrap().unwrap();
        });
        std::fs::remove_file(&path).unwrap();
    });
}
