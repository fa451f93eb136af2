//! A dump and a summary of a million fibers:
//! `cargo test --release -p ramie --test inspect million -- --ignored --nocapture`.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use ramie::{Runtime, fiber, inspect, sync::Event};
use rustix::time::{ClockId, clock_gettime};

const FIBERS: usize = 1_000_000;

/// Asks for a dump as another process does; returns the time until the answer begins, the time
/// until its end, and its length.
fn ask(request: &[u8]) -> (Duration, Duration, usize) {
    let path = inspect::socket_path().expect("the runtime is inspected");
    let start = Instant::now();
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = BufReader::with_capacity(1 << 20, stream);
    let mut head = String::new();
    answer.read_line(&mut head).unwrap();
    let begins = start.elapsed();
    let len = io::copy(&mut answer, &mut io::sink()).unwrap();
    assert_eq!(head, format!("ok {len}\n"));
    (begins, start.elapsed(), len as usize)
}

/// The CPU time of this thread.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The longest times between two turns of a fiber that yields all the time.
#[derive(Default)]
struct Pauses {
    wall_ns: AtomicU64,
    /// Without the time in which the worker's thread waited for a CPU: the test has more threads
    /// that compute than this machine may have CPUs.
    cpu_ns: AtomicU64,
}

impl Pauses {
    fn measure_until(&self, stop: &AtomicBool) {
        let mut last = (Instant::now(), cpu_ns());
        while !stop.load(Ordering::Relaxed) {
            fiber::yield_now();
            let now = (Instant::now(), cpu_ns());
            let wall_ns = (now.0 - last.0).as_nanos() as u64;
            self.wall_ns.fetch_max(wall_ns, Ordering::Relaxed);
            self.cpu_ns.fetch_max(now.1 - last.1, Ordering::Relaxed);
            last = now;
        }
    }

    /// The longest times since the last call.
    fn take(&self) -> String {
        // So that the other fiber has noted a pause that this one has made.
        fiber::yield_now();
        let take = |ns: &AtomicU64| Duration::from_nanos(ns.swap(0, Ordering::Relaxed));
        format!("{:?}, {:?} of it on a CPU", take(&self.wall_ns), take(&self.cpu_ns))
    }
}

/// Prints how long summaries take, and a dump of one strand, each with the pauses of the worker.
fn summaries(pauses: &Pauses) {
    for request in ["summary text\n", "summary json\n", "strand json 100.1\n"] {
        for _ in 0..3 {
            pauses.take();
            let (begins, _, len) = ramie::blocking(|| ask(request.as_bytes()));
            let pause = pauses.take();
            let request = request.trim();
            println!(
                "{request}: {len} bytes after {begins:?}; longest pause of the worker: {pause}"
            );
            assert!(len < 100_000);
        }
    }
}

/// The strands that wait for the event; each of them once, or there would be more.
fn waiting(dump: &inspect::Dump) -> usize {
    let purpose = |strand: &inspect::StrandDump| Some(strand.wait.as_ref()?.purpose);
    dump.strands.iter().filter(|strand| purpose(strand) == Some("an Event")).count()
}

/// Prints the CPU time of the conversions of a dump.
fn conversions(dump: &inspect::Dump) {
    for (name, convert, wait) in [
        ("text", <inspect::Dump as ToString>::to_string as fn(&_) -> _, " waits for an Event ("),
        ("JSON", inspect::Dump::to_json, "\"purpose\":\"an Event\""),
    ] {
        let start = cpu_ns();
        let converted = convert(dump);
        let took = Duration::from_nanos(cpu_ns() - start);
        println!("conversion to {name}: {} bytes, {took:?} of CPU time", converted.len());
        assert_eq!(converted.matches(wait).count(), FIBERS);
    }
}

/// Prints how long dumps take, and the longest time in which a worker did not run a fiber that
/// yields all the time.
fn dumps(pauses: &Pauses) {
    let dump = || {
        let start = Instant::now();
        (inspect::dump(), start.elapsed())
    };
    pauses.take();
    let (from_fiber, took) = dump();
    println!("dump from a fiber: {took:?}; longest pause of the worker: {}", pauses.take());
    assert_eq!(waiting(&from_fiber), FIBERS);
    pauses.take();
    let start = Instant::now();
    drop(from_fiber);
    println!(
        "drop in a fiber: {:?}; longest pause of the worker: {}",
        start.elapsed(),
        pauses.take()
    );
    let (from_thread, took) = ramie::blocking(|| thread::spawn(dump).join().unwrap());
    println!("dump from a thread: {took:?}; longest pause of the worker: {}", pauses.take());
    assert_eq!(waiting(&from_thread), FIBERS);
    ramie::blocking(|| conversions(&from_thread));
    ramie::blocking(|| drop(from_thread));
    for request in ["dump text", "dump json"] {
        pauses.take();
        let (begins, took, len) = ramie::blocking(|| ask(format!("{request}\n").as_bytes()));
        let pause = pauses.take();
        println!(
            "{request} from outside: begins after {begins:?}, {len} bytes after {took:?}; longest \
             pause of the worker: {pause}"
        );
        assert!(len > FIBERS * 100);
    }
}

/// Ends all fibers when it is dropped: also if a check fails, because otherwise the scope would
/// wait for ever.
struct Released<'a> {
    event: &'a Event,
    stop: &'a AtomicBool,
}

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.event.set();
    }
}

/// Prints the times; only the counts are asserted.
#[test]
#[ignore = "takes 6 GB of memory, and measures times"]
fn a_million_parked_fibers_are_dumped_in_two_seconds() {
    let runtime = Runtime::builder().workers(1).inspect(true).build().unwrap();
    runtime.run(|| {
        let (event, stop) = (Event::new(), AtomicBool::new(false));
        let pauses = Pauses::default();
        fiber::scope(|s| {
            let _released = Released { event: &event, stop: &stop };
            (0..FIBERS).for_each(|_| drop(s.spawn(|| event.wait())));
            while ramie::metrics::metrics().unstarted() > 0 {
                fiber::yield_now();
            }
            fiber::sleep(Duration::from_millis(100));
            s.spawn(|| pauses.measure_until(&stop));
            dumps(&pauses);
            summaries(&pauses);
        });
    });
}
