//! The submitter of a worker whose fibers compute: the worker itself unless another one is chosen.
//! With another one, I/O continues meanwhile, sleeps cost nothing, and nothing is lost.

use std::{
    io::{Read, Write},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::common;
use crate::common::{assert_success, child, child_with, is_child, wait_until};
use ramie::{Driver, Runtime, Submitter, fiber, os::unix::net::UnixStream};

const OTHERS: [Submitter; 2] = [Submitter::Sidecar, Submitter::KERNEL_THREAD];

fn runtime(submitter: Submitter, workers: usize) -> Runtime {
    Runtime::builder().workers(workers).driver(Driver::Uring).submitter(submitter).build().unwrap()
}

/// How many threads there are that enter the kernel for others.
fn others() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "ramie-sidecar" || name.starts_with("iou-sqp")).count()
}

#[test]
fn nobody_else_submits_by_default() {
    if is_child() {
        ramie::run(|| assert_eq!(others(), 0));
        let builder = || Runtime::builder().workers(2);
        builder().build().unwrap().run(|| assert_eq!(others(), 0));
        builder().submitter(Submitter::Worker).build().unwrap().run(|| assert_eq!(others(), 0));
        // A ring of threads outside `run`.
        let (mut left, mut right) = UnixStream::pair().unwrap();
        left.write_all(b"x").unwrap();
        right.read_exact(&mut [0]).unwrap();
        assert_eq!(others(), 0);
        return;
    }
    assert_success(&child_with("true", "nobody_else_submits_by_default", &[("RAMIE_SUBMIT", "")]));
}

#[test]
fn each_worker_has_one_of_its_own_by_option_or_variable() {
    if !common::has_ring() {
        return;
    }
    let name = "each_worker_has_one_of_its_own_by_option_or_variable";
    if is_child() {
        let wanted = std::env::var("WANTED").unwrap().parse().unwrap();
        let by_variable = Runtime::builder().workers(2).build().unwrap();
        // The second worker may be starting still.
        by_variable.run(|| wait_until(|| others() == wanted));
        runtime(Submitter::Worker, 2).run(|| assert!(others() <= wanted, "the option decides"));
        return;
    }
    for (submitter, wanted) in [("worker", "0"), ("sidecar", "2"), ("kernel-thread", "2")] {
        let variables =
            [("RAMIE_SUBMIT", submitter), ("RAMIE_DRIVER", "uring"), ("WANTED", wanted)];
        assert_success(&child_with("true", name, &variables));
    }
    let variables = [("RAMIE_SUBMIT", "sidecar"), ("RAMIE_DRIVER", "poll"), ("WANTED", "0")];
    assert_success(&child_with("true", name, &variables));
}

/// The worker enters the kernel nowhere between the write and its arrival: a fiber computes.
#[test]
fn an_op_is_done_while_another_fiber_computes() {
    if !common::has_ring() {
        return;
    }
    for submitter in OTHERS {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut theirs = std::os::unix::net::UnixStream::from(std::os::fd::OwnedFd::from(theirs));
        let has_come = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                theirs.read_exact(&mut [0; 3]).unwrap();
                has_come.store(true, Ordering::SeqCst);
            });
            runtime(submitter, 1).run(|| {
                let writer = fiber::spawn_local(move || (&ours).write_all(b"now"));
                fiber::yield_now();
                let start = Instant::now();
                while !has_come.load(Ordering::SeqCst) {
                    assert!(
                        start.elapsed() < Duration::from_secs(20),
                        "{submitter:?}: nobody entered"
                    );
                }
                writer.join().unwrap().unwrap();
            });
        });
    }
}

#[test]
fn while_all_wait_nobody_takes_cpu_time() {
    if !common::has_ring() {
        return;
    }
    if is_child() {
        for submitter in OTHERS {
            runtime(submitter, 2).run(|| {
                let (mut left, right) = UnixStream::pair().unwrap();
                let reader = fiber::spawn_local(move || left.read(&mut [0; 4]));
                // The watches are over, and the workers are quiet.
                fiber::sleep(Duration::from_millis(100));
                let before = cpu_time();
                fiber::sleep(Duration::from_millis(400));
                let spent = cpu_time() - before;
                assert!(spent < Duration::from_millis(40), "{submitter:?}: {spent:?} of 400 ms");
                drop(right);
                assert_eq!(reader.join().unwrap().unwrap(), 0);
            });
        }
        return;
    }
    assert_success(&child("while_all_wait_nobody_takes_cpu_time"));
}

/// User and system time of all threads, in ticks of 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    let fields: Vec<_> = after_name.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

/// Fibers of two workers that answer one another, sleep and compute, so that workers and sidecars
/// fall asleep and wake in all orders; every byte is checked.
#[test]
fn nothing_is_lost_between_workers_that_sleep_and_wake() {
    if !common::has_ring() {
        return;
    }
    for submitter in OTHERS {
        let sum = AtomicU64::new(0);
        runtime(submitter, 2).run(|| {
            fiber::scope(|s| {
                for number in 0..12_u64 {
                    let (left, right) = UnixStream::pair().unwrap();
                    s.spawn(move || play(left, number, true));
                    let sum = &sum;
                    s.spawn(move || sum.fetch_add(play(right, number, false), Ordering::SeqCst));
                }
            });
        });
        assert_eq!(sum.into_inner(), 12 * ROUNDS * (ROUNDS - 1) / 2, "{submitter:?}");
    }
}

const ROUNDS: u64 = 200;

fn play(mut stream: UnixStream, number: u64, begins: bool) -> u64 {
    let mut sum = 0;
    for round in 0..ROUNDS {
        if begins {
            stream.write_all(&round.to_le_bytes()).unwrap();
        }
        let mut bytes = [0; 8];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), round);
        sum += round;
        if !begins {
            stream.write_all(&bytes).unwrap();
        }
        match (round * 7 + number) % 40 {
            0 => fiber::sleep(Duration::from_micros(130)),
            1 => compute(Duration::from_micros(150)),
            2 => fiber::yield_now(),
            _ => {}
        }
    }
    sum
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
