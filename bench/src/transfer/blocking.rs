//! Peers with blocking calls: fibers, may's coroutines, threads.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    sync::{Arc, Barrier},
    thread,
    time::Instant,
};

use ::may::io::CoIo;
use ::ramie::{fiber, os::unix::net::UnixStream as RamieStream};
use ramie_workloads::messages;

use super::{Medium, PairPlan, Plan};
use crate::workload::Sample;

fn write(writer: impl Write, plan: PairPlan) {
    messages::write(writer, plan).expect("a reader");
}

fn read(reader: impl Read, plan: PairPlan) {
    messages::read(reader, plan).expect("the bytes written");
}

pub fn run_fibers(plan: Plan) -> Sample {
    let runtime = ::ramie::Runtime::builder().workers(plan.threads).build().expect("a runtime");
    let enters = ramie_driver::enters();
    let time = runtime.run(|| {
        let start = Instant::now();
        let all_have_one = Arc::new(Barrier::new(plan.threads));
        let share = |worker: usize| {
            let all_have_one = Arc::clone(&all_have_one);
            move || fiber_pairs(plan, worker, &all_have_one)
        };
        let shares: Vec<_> = (0..plan.threads).map(|worker| fiber::spawn(share(worker))).collect();
        for share in shares {
            share.join().expect("no panic");
        }
        start.elapsed()
    });
    Sample { enters: ramie_driver::enters() - enters, ..Sample::timed(time) }
}

/// Runs a worker's share of the pairs, like a thread's share in the bare ring's loop.
/// `all_have_one` blocks the worker, so each worker takes one share, because fibers stay where they
/// were started.
fn fiber_pairs(plan: Plan, worker: usize, all_have_one: &Barrier) {
    all_have_one.wait();
    let mut ends = Vec::new();
    for pair in (worker as u64..plan.pairs).step_by(plan.threads) {
        ends.extend(fiber_pair(plan, pair, fiber::spawn_local));
    }
    for end in ends {
        end.join().expect("no panic");
    }
}

/// One fiber spawns all pairs in a row, and the runtime decides where they run.
pub fn run_spread_fibers(plan: Plan) -> Sample {
    let runtime = ::ramie::Runtime::builder().workers(plan.threads).build().expect("a runtime");
    let enters = ramie_driver::enters();
    let time = runtime.run(|| {
        let start = Instant::now();
        let pairs = (0..plan.pairs).flat_map(|pair| fiber_pair(plan, pair, fiber::spawn));
        let ends: Vec<_> = pairs.collect();
        for end in ends {
            end.join().expect("no panic");
        }
        start.elapsed()
    });
    Sample { enters: ramie_driver::enters() - enters, ..Sample::timed(time) }
}

/// Spawns the two fibers of a pair.
fn fiber_pair<H>(plan: Plan, pair: u64, spawn: impl Fn(Box<dyn FnOnce() + Send>) -> H) -> [H; 2] {
    match plan.medium {
        Medium::Pipe => {
            let (reader, writer) = ::ramie::io::pipe().expect("descriptors");
            [
                spawn(Box::new(move || write(writer, plan.of(pair)))),
                spawn(Box::new(move || read(reader, plan.of(pair)))),
            ]
        }
        Medium::SocketPair => {
            let (reader, writer) = RamieStream::pair().expect("descriptors");
            [
                spawn(Box::new(move || write(writer, plan.of(pair)))),
                spawn(Box::new(move || read(reader, plan.of(pair)))),
            ]
        }
    }
}

pub fn run_threads(plan: Plan) -> Sample {
    let start = Instant::now();
    thread::scope(|s| {
        for pair in 0..plan.pairs {
            match plan.medium {
                Medium::Pipe => {
                    let (reader, writer) = io::pipe().expect("descriptors");
                    s.spawn(move || read(reader, plan.of(pair)));
                    s.spawn(move || write(writer, plan.of(pair)));
                }
                Medium::SocketPair => {
                    let (reader, writer) = UnixStream::pair().expect("descriptors");
                    s.spawn(move || read(reader, plan.of(pair)));
                    s.spawn(move || write(writer, plan.of(pair)));
                }
            }
        }
    });
    Sample::timed(start.elapsed())
}

pub fn run_coroutines(plan: Plan) -> Sample {
    ::may::config().set_workers(plan.threads).set_worker_pin(false);
    // The first coroutine starts the threads.
    ::may::go!(|| ()).join().expect("no panic");
    let start = Instant::now();
    let mut coroutines = Vec::new();
    for pair in 0..plan.pairs {
        match plan.medium {
            Medium::Pipe => {
                let (reader, writer) = io::pipe().expect("descriptors");
                let (reader, writer) = (polled(reader), polled(writer));
                coroutines.push(::may::go!(move || read(reader, plan.of(pair))));
                coroutines.push(::may::go!(move || write(writer, plan.of(pair))));
            }
            Medium::SocketPair => {
                let (reader, writer) = UnixStream::pair().expect("descriptors");
                let (reader, writer) = (polled(reader), polled(writer));
                coroutines.push(::may::go!(move || read(reader, plan.of(pair))));
                coroutines.push(::may::go!(move || write(writer, plan.of(pair))));
            }
        }
    }
    for coroutine in coroutines {
        coroutine.join().expect("no panic");
    }
    Sample::timed(start.elapsed())
}

/// may's own types are made this way, too.
fn polled<T: std::os::fd::AsRawFd + std::fmt::Debug>(end: T) -> CoIo<T> {
    CoIo::new(end).expect("a descriptor that epoll takes")
}
