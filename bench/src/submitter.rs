//! Measures when it pays that a thread other than the worker submits its ops. Fibers of one
//! worker move messages through socket pairs, and compute between them or not; an ordinary thread
//! asks one of them for an answer while the others compute.
//!
//! Each figure comes from a process of its own, because a kernel thread lives on for a while. The
//! submitters take turns. CPU time is that of the whole process, the kernel thread included.

use std::{
    hint::black_box,
    io::{Read, Write},
    os::unix::net::UnixStream as StdStream,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ::ramie::{Runtime, Submitter, fiber, os::unix::net::UnixStream};

#[derive(clap::Args)]
pub struct Options {
    /// Runs of each submitter, in turn; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// Runs one measurement in this process, with the submitter named; used by the bench itself.
    #[arg(long, hide = true, num_args = 2)]
    sample: Option<Vec<String>>,
}

struct Scenario {
    name: &'static str,
    pairs: usize,
    messages: usize,
    bytes: usize,
    /// How long the writer computes before each message.
    compute: Duration,
}

const SCENARIOS: [Scenario; 4] = [
    Scenario { name: "1 KiB, no computing", pairs: 48, messages: 4000, bytes: 1024, compute: NONE },
    Scenario { name: "1 KiB, after 50 us", pairs: 16, messages: 600, bytes: 1024, compute: LONG },
    Scenario {
        name: "16 KiB, after 50 us",
        pairs: 16,
        messages: 600,
        bytes: 16 * 1024,
        compute: LONG,
    },
    Scenario {
        name: "64 KiB, after 50 us",
        pairs: 16,
        messages: 400,
        bytes: 64 * 1024,
        compute: LONG,
    },
];
/// An answer to a thread, while 16 fibers compute for 50 us in turn.
const ANSWERS: &str = "answer among 16 x 50 us";
const NONE: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_micros(50);
const QUESTIONS: usize = 300;
const WAYS: [&str; 3] = ["worker", "sidecar", "kernel-thread"];

/// Prints a table; returns false if a child failed.
pub fn compare(options: &Options) -> Result<bool, String> {
    if let Some(sample) = &options.sample {
        return run_sample(&sample[0], &sample[1]).map(|()| true);
    }
    println!("{:<26}{:>22}{:>22}{:>22}", "us each: wall (CPU)", WAYS[0], WAYS[1], WAYS[2]);
    for name in SCENARIOS.iter().map(|case| case.name).chain([ANSWERS]) {
        let mut figures = [const { Vec::new() }; WAYS.len()];
        for _ in 0..options.rounds {
            for (way, figures) in WAYS.iter().zip(&mut figures) {
                figures.push(in_child(name, way)?);
            }
        }
        print!("{name:<26}");
        for mut figures in figures {
            figures.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (wall, cpu) = figures[figures.len() / 2];
            print!("{:>22}", format!("{wall:.2} ({cpu:.2})"));
        }
        println!();
    }
    Ok(true)
}

fn in_child(name: &str, way: &str) -> Result<(f64, f64), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let child = Command::new(program).args(["submitter", "--sample", name, way]).output();
    let child = child.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&child.stdout);
    let mut numbers = text.split_whitespace().map(str::parse);
    match (child.status.success(), numbers.next(), numbers.next()) {
        (true, Some(Ok(wall)), Some(Ok(cpu))) => Ok((wall, cpu)),
        _ => Err(format!("{name} by {way}: {}", String::from_utf8_lossy(&child.stderr))),
    }
}

fn run_sample(name: &str, way: &str) -> Result<(), String> {
    let submitter = match way {
        "sidecar" => Submitter::Sidecar,
        "kernel-thread" => Submitter::KERNEL_THREAD,
        _ => Submitter::Worker,
    };
    let runtime = Runtime::builder().workers(1).submitter(submitter).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let calibrated = Calibrated::found();
    let before = cpu_seconds();
    let (wall, ops) = match SCENARIOS.iter().find(|case| case.name == name) {
        Some(case) => {
            let wall = runtime.run(|| transfer(case, calibrated));
            (wall, (case.pairs * case.messages) as f64)
        }
        None => (answers(&runtime, calibrated), 1.0),
    };
    let ops_of_cpu = if name == ANSWERS { QUESTIONS as f64 } else { ops };
    let cpu = cpu_seconds() - before;
    println!("{} {}", wall.as_secs_f64() * 1e6 / ops, cpu * 1e6 / ops_of_cpu);
    Ok(())
}

fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// The number of rounds of computing in a microsecond. This is work rather than waiting, so that
/// interruptions and the loss of the CPU show.
#[derive(Clone, Copy)]
struct Calibrated(f64);

impl Calibrated {
    fn found() -> Self {
        const ROUNDS: u64 = 2_000_000;
        let fastest = (0..7)
            .map(|_| {
                let start = Instant::now();
                spin(ROUNDS);
                start.elapsed()
            })
            .min();
        Calibrated(ROUNDS as f64 / (fastest.unwrap_or(LONG).as_secs_f64() * 1e6))
    }

    fn compute(self, time: Duration) {
        spin((self.0 * time.as_secs_f64() * 1e6) as u64);
    }
}

fn spin(rounds: u64) {
    let mut x = 1_u64;
    for _ in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

fn transfer(case: &'static Scenario, calibrated: Calibrated) -> Duration {
    let start = Instant::now();
    let mut ends = Vec::new();
    for _ in 0..case.pairs {
        let (mut reader, mut writer) = UnixStream::pair().expect("descriptors");
        ends.push(fiber::spawn_local(move || {
            let message = vec![7; case.bytes];
            for _ in 0..case.messages {
                calibrated.compute(case.compute);
                writer.write_all(&message).expect("a reader");
            }
        }));
        ends.push(fiber::spawn_local(move || {
            let mut message = vec![0; case.bytes];
            for _ in 0..case.messages {
                reader.read_exact(&mut message).expect("a writer");
                assert!(message.iter().all(|byte| *byte == 7), "other bytes than written");
            }
        }));
    }
    for end in ends {
        end.join().expect("no panic");
    }
    start.elapsed()
}

/// The median time that a thread waits for a fiber's answer.
fn answers(runtime: &Runtime, calibrated: Calibrated) -> Duration {
    let (ours, theirs) = StdStream::pair().expect("descriptors");
    let asker = thread::spawn(move || ask(ours));
    runtime.run(|| {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..16 {
            let is_over = Arc::clone(&is_over);
            fiber::spawn_local(move || {
                while !is_over.load(Ordering::Relaxed) {
                    calibrated.compute(LONG);
                    fiber::yield_now();
                }
            });
        }
        let mut stream = UnixStream::from(std::os::fd::OwnedFd::from(theirs));
        let mut byte = [0];
        while stream.read(&mut byte).expect("a question") == 1 {
            stream.write_all(&byte).expect("an asker");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    asker.join().expect("no panic")
}

fn ask(mut stream: StdStream) -> Duration {
    let mut times: Vec<_> = (0..QUESTIONS)
        .map(|_| {
            let start = Instant::now();
            stream.write_all(&[1]).expect("a fiber");
            stream.read_exact(&mut [0]).expect("an answer");
            start.elapsed()
        })
        .collect();
    times.sort();
    times[QUESTIONS / 2]
}
