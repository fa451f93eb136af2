//! Dropping a driver with ops in flight, leaving its thread, forking.

use std::cell::RefCell;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

use crate::support::{self, both, submit};
use ramie_driver::{Choice, Config, Driver, Feature, FeatureSet, Op, OpFrame, Wait, Waker};

/// Drops a driver with a receive in flight, and sends afterwards: the buffer stays as it was.
fn memory_is_left_alone(choice: Choice, config: &Config) {
    let pairs: Vec<_> = (0..50).map(|_| UnixStream::pair().unwrap()).collect();
    let mut buffers = vec![[0xa5u8; 64]; pairs.len()];
    let frames: Vec<_> = pairs
        .iter()
        .zip(&mut buffers)
        .map(|((ours, _), buf)| {
            let (fd, buf) = (ours.as_raw_fd(), buf.as_mut_ptr());
            OpFrame::new(Op::Recv { fd, buf, len: 64, flags: 0 })
        })
        .collect();
    let mut driver = Driver::open(choice, config).unwrap();
    for (at, frame) in frames.iter().enumerate() {
        assert!(submit(&mut driver, frame));
        if at == pairs.len() / 2 {
            driver.turn(Wait::Never).unwrap();
        }
    }
    drop(driver);
    assert!(frames.iter().all(|frame| frame.result() == -libc::ECANCELED));
    for (_, theirs) in &pairs {
        let mut theirs = theirs;
        theirs.write_all(&[1; 64]).unwrap();
    }
    thread::yield_now();
    assert!(buffers.iter().all(|buf| *buf == [0xa5; 64]));
}

#[test]
fn ring_torn_down_with_ops_in_flight() {
    for choice in support::choices() {
        memory_is_left_alone(choice, &Config::default());
        let masked = FeatureSet::EMPTY.with(Feature::DeferTaskrun);
        memory_is_left_alone(choice, &Config { masked, ..Config::small() });
        memory_is_left_alone(choice, &Config { masked: FeatureSet::all(), ..Config::small() });
    }
}

#[test]
fn drivers_come_and_go_with_their_threads() {
    // In a process of its own, where no other test opens descriptors.
    support::in_child("child_drivers_come_and_go", None);
}

#[test]
#[ignore = "run in a child by drivers_come_and_go_with_their_threads"]
fn child_drivers_come_and_go() {
    for choice in support::choices() {
        drop(Driver::open(choice, &Config::small()).unwrap());
        let before = open_descriptors();
        for _ in 0..100 {
            thread::spawn(move || drop(Driver::open(choice, &Config::small()).unwrap()))
                .join()
                .unwrap();
        }
        assert_eq!(open_descriptors(), before, "descriptors leak");
    }
}

/// A thread's table has 16 entries, and a ring stays open as long as it has one.
#[test]
fn entries_of_rings_in_their_threads_table_are_given_back() {
    if !support::has_ring() {
        return;
    }
    let feature = Feature::RegisteredRing;
    let open = || Driver::open(Choice::Uring, &Config::small()).unwrap();
    if !open().caps().features.has(feature) {
        return support::skipped("this kernel has no such table");
    }
    for _ in 0..40 {
        assert!(open().caps().features.has(feature));
    }
    // Those beyond are entered by their descriptors.
    let mut drivers: Vec<_> = (0..20).map(|_| open()).collect();
    let entries = drivers.iter().filter(|driver| driver.caps().features.has(feature)).count();
    assert!((1..=16).contains(&entries), "{entries}");
    for driver in &mut drivers {
        assert_eq!(support::run(driver, Op::Nop), 0);
    }
    drop(drivers);
    assert!(open().caps().features.has(feature));
}

#[test]
fn thread_exit_with_ops_in_flight() {
    thread_local! {
        static DRIVER: RefCell<Option<Driver>> = const { RefCell::new(None) };
    }
    for choice in support::choices() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let fd = ours.as_raw_fd();
        let thread = thread::spawn(move || {
            // Leaked: it has to outlive the thread's destructors.
            let buf: &'static mut [u8; 4] = Box::leak(Box::new([0; 4]));
            let op = Op::Recv { fd, buf: buf.as_mut_ptr(), len: 4, flags: 0 };
            let frame: &'static OpFrame = Box::leak(Box::new(OpFrame::new(op)));
            let mut driver = Driver::open(choice, &Config::small()).unwrap();
            assert!(submit(&mut driver, frame));
            driver.turn(Wait::Never).unwrap();
            DRIVER.set(Some(driver));
            std::ptr::from_ref(frame) as usize
        });
        let frame = thread.join().unwrap() as *const OpFrame;
        // SAFETY: leaked, and its thread is gone.
        assert_eq!(unsafe { &*frame }.result(), -libc::ECANCELED);
    }
}

/// Rings with ops in flight, one for each thread of many; each thread reports when it has its ops.
fn rings_of_threads(threads: usize, barrier: &std::sync::Barrier, end: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (ours, _theirs) = UnixStream::pair().unwrap();
                let poll = Op::Poll { fd: ours.as_raw_fd(), events: ramie_driver::sys::POLL_IN };
                let frames: Vec<_> = (0..200).map(|_| OpFrame::new(poll)).collect();
                let mut driver = Driver::open(Choice::Uring, &Config::small()).unwrap();
                assert!(frames.iter().all(|frame| submit(&mut driver, frame)));
                driver.turn(Wait::Never).unwrap();
                barrier.wait();
                end();
                drop(driver);
                assert!(frames.iter().all(OpFrame::is_complete));
            });
        }
    });
}

/// The hazard: a kernel that takes its time to tear down rings, while the process waits for it.
#[test]
fn many_rings_are_torn_down_in_a_moment() {
    if !support::has_ring() {
        return;
    }
    let begun = std::sync::OnceLock::new();
    rings_of_threads(64, &std::sync::Barrier::new(64), || {
        begun.get_or_init(Instant::now);
    });
    let took = begun.get().unwrap().elapsed();
    eprintln!("64 rings with 200 ops in flight each were drained and closed in {took:?}");
    assert!(took < support::PATIENCE, "{took:?}");
}

#[test]
fn a_process_that_exits_with_many_rings_is_gone_in_a_moment() {
    if !support::has_ring() {
        return;
    }
    let begun = Instant::now();
    support::in_child("child_exits_with_many_rings", None);
    let took = begun.elapsed();
    eprintln!("with 64 rings a process took {took:?} from its start to its end");
    assert!(took < support::PATIENCE, "{took:?}");
}

/// Ends without dropping anything, as `exit` on a fiber does.
#[test]
#[ignore = "run in a child by a_process_that_exits_with_many_rings_is_gone_in_a_moment"]
fn child_exits_with_many_rings() {
    rings_of_threads(64, &std::sync::Barrier::new(64), || {
        // The text that the parent looks for.
        println!("1 passed");
        std::process::exit(0);
    });
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn wakes_to_a_driver_that_is_being_dropped_are_harmless() {
    for choice in support::choices() {
        for _ in 0..30 {
            let driver = Driver::open(choice, &Config::small()).unwrap();
            let waker = driver.waker();
            let thread = thread::spawn(move || wake_often(&waker));
            drop(driver);
            thread.join().unwrap();
        }
    }
}

fn wake_often(waker: &Waker) {
    let mut driver = Driver::open(Choice::Auto, &Config::small()).unwrap();
    for _ in 0..50 {
        waker.wake();
        driver.wake(waker);
    }
}

#[test]
fn fork() {
    if std::env::var("RAMIE_FAULTS").is_ok_and(|seed| !seed.is_empty()) {
        return support::skipped("the driver with faults drains in the child, which may not");
    }
    // Alone in its process: a fork copies locks that other threads hold.
    support::in_child("child_a_forked_child_gets_a_panic_and_the_parent_continues", None);
}

#[test]
#[ignore = "run in a child by fork"]
fn child_a_forked_child_gets_a_panic_and_the_parent_continues() {
    both(|driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut buf = [0u8; 4];
        let (fd, len) = (ours.as_raw_fd(), 4);
        let frame = OpFrame::new(Op::Recv { fd, buf: buf.as_mut_ptr(), len, flags: 0 });
        assert!(submit(driver, &frame));
        driver.turn(Wait::Never).unwrap();
        // SAFETY: the child only uses the driver and leaves by _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _ = driver.needs_turn();
                let _ = driver.turn(Wait::Never);
            }));
            let told = refused.is_err_and(|payload| {
                payload.downcast_ref::<&str>().is_some_and(|text| text.contains("fork"))
            });
            // A drop in the child leaves the parent's ops alone.
            // SAFETY: the memory is not used again in the child.
            drop(unsafe { std::ptr::read(driver) });
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if told { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: our child; the status is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        theirs.write_all(b"data").unwrap();
        assert_eq!(support::finish(driver, &frame), 4);
    });
}
