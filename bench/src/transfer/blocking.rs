//! Peers with blocking calls: fibers, may's coroutines, threads.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::Instant,
};

use ::may::io::CoIo;
use ::ramie::{fiber, os::unix::net::UnixStream as RamieStream};
use ramie_workloads::{OnFibers, OnThreads, Setup, StrandKind, messages};

use super::{Medium, PairPlan, Plan};
use crate::{peers::sample, workload::Sample};

fn write(writer: impl Write, plan: PairPlan) {
    messages::write(writer, plan).expect("a reader");
}

fn read(reader: impl Read, plan: PairPlan) {
    messages::read(reader, plan).expect("the bytes written");
}

/// Each worker runs its share of the pairs, like a thread in the bare ring's loop.
pub fn run_fibers(plan: Plan) -> Sample {
    let runtime = ::ramie::Runtime::builder().workers(plan.threads).build().expect("a runtime");
    let enters = ramie_driver::ring_totals().enters;
    let sample = runtime.run(|| run::<OnFibers>(plan));
    Sample { enters: ramie_driver::ring_totals().enters - enters, ..sample }
}

/// As for every peer, the pipes are made in the measured time.
fn run<S: StrandKind>(plan: Plan) -> Sample {
    let (load, workers) = (plan.load(), if S::IS_COOPERATIVE { plan.threads } else { 1 });
    sample(match plan.medium {
        Medium::Pipe => load.cost_of_pipes::<S>(workers, Setup::InTime),
        Medium::SocketPair => load.cost_of_sockets::<S>(workers, Setup::InTime),
    })
}

/// One fiber spawns all pairs in a row, and the runtime decides where they run.
pub fn run_spread_fibers(plan: Plan) -> Sample {
    let runtime = ::ramie::Runtime::builder().workers(plan.threads).build().expect("a runtime");
    let enters = ramie_driver::ring_totals().enters;
    let time = runtime.run(|| {
        let start = Instant::now();
        let pairs = (0..plan.pairs).flat_map(|pair| fiber_pair(plan, pair, fiber::spawn));
        let ends: Vec<_> = pairs.collect();
        for end in ends {
            end.join().expect("no panic");
        }
        start.elapsed()
    });
    Sample { enters: ramie_driver::ring_totals().enters - enters, ..Sample::timed(time) }
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
    run::<OnThreads>(plan)
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
