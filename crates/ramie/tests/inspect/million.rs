//! A dump of a million fibers:
//! `cargo test --release -p ramie --test inspect million -- --ignored --nocapture`.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use ramie::{Runtime, fiber, inspect, sync::Event};

const FIBERS: usize = 1_000_000;

/// Asks for a dump as another process does; returns the time until the answer begins, the time
/// until its end, and its length.
fn ask(request: &[u8]) -> (Duration, Duration, usize) {
    let path = inspect::socket_path().expect("the runtime is inspected");
    let start = Instant::now();
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = vec![0; 1 << 20];
    stream.read_exact(&mut answer[..3]).unwrap();
    assert_eq!(&answer[..3], b"ok ");
    let (begins, mut len) = (start.elapsed(), 3);
    while let Ok(part @ 1..) = stream.read(&mut answer) {
        len += part;
    }
    (begins, start.elapsed(), len)
}

/// Prints how long the dump takes, and the longest time in which a worker did not run a fiber that
/// yields all the time.
#[test]
#[ignore = "takes 6 GB of memory, and measures times"]
fn a_million_parked_fibers_are_dumped_in_two_seconds() {
    let runtime = Runtime::builder().workers(1).inspect(true).build().unwrap();
    runtime.run(|| {
        let (event, stop) = (Event::new(), AtomicBool::new(false));
        let longest_ns = AtomicU64::new(0);
        fiber::scope(|s| {
            (0..FIBERS).for_each(|_| drop(s.spawn(|| event.wait())));
            while ramie::metrics::metrics().unstarted() > 0 {
                fiber::yield_now();
            }
            fiber::sleep(Duration::from_millis(100));
            s.spawn(|| {
                let mut last = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    fiber::yield_now();
                    let now = Instant::now();
                    let ns = (now - last).as_nanos() as u64;
                    longest_ns.fetch_max(ns, Ordering::Relaxed);
                    last = now;
                }
            });
            let dump = || {
                let start = Instant::now();
                let dump = inspect::dump();
                let took = start.elapsed();
                (dump.strands.len(), took)
            };
            let (from_fiber, took) = dump();
            let longest = Duration::from_nanos(longest_ns.swap(0, Ordering::Relaxed));
            println!("from a fiber: {took:?}; longest pause of the worker: {longest:?}");
            assert!(from_fiber >= FIBERS);
            let (count, took) = ramie::blocking(|| thread::spawn(dump).join().unwrap());
            let longest = Duration::from_nanos(longest_ns.swap(0, Ordering::Relaxed));
            println!("from a thread: {took:?}; longest pause of the worker: {longest:?}");
            assert!(count >= FIBERS);
            for request in ["dump text\n", "dump json\n"] {
                longest_ns.store(0, Ordering::Relaxed);
                let (begins, took, len) = ramie::blocking(|| ask(request.as_bytes()));
                let longest = Duration::from_nanos(longest_ns.load(Ordering::Relaxed));
                println!(
                    "{}: begins after {begins:?}, {len} bytes after {took:?}; longest pause of the \
                     worker: {longest:?}",
                    request.trim()
                );
                assert!(len > FIBERS * 100);
            }
            stop.store(true, Ordering::Relaxed);
            event.set();
        });
    });
}
