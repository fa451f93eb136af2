//! Sharon Rosner, "Threads vs Fibers - Can't We Be Friends?", 2025: UringMachine, fibers of Ruby on
//! io_uring, on one thread and on several.

use super::{
    Claim, Draft, FIBERS, Post, Published, Quantity, THREADS, ahead, claim, hybrid, published,
};
use crate::{
    lab::plan::{Arm, Point, View, draft::grid_of},
    workload::{Engine, Workload},
};

const MACHINE: (&str, u32) = ("a machine that the post does not name, Ruby 4.0", 2025);
const PAIRS: u32 = 48;
const MESSAGES: u32 = 10_000;

/// Name, seconds of CPU time, and seconds of the clock.
type Times = (&'static str, f64, f64);

const PIPE: [Times; 9] = [
    ("Ruby threads", 10.362_342, 9.306_601),
    ("Async", 3.298_192, 3.298_313),
    ("Async ×2", 3.658_302, 3.654_717),
    ("UringMachine's fiber scheduler", 1.835_642, 1.835_746),
    ("UringMachine's fiber scheduler ×2", 1.895_831, 1.208_773),
    ("UringMachine", 1.096_574, 1.096_809),
    ("UringMachine ×2", 1.171_840, 0.622_890),
    ("UringMachine ×4", 1.584_939, 0.795_669),
    ("UringMachine ×8", 2.099_765, 1.251_179),
];

const SOCKETPAIR: [Times; 9] = [
    ("Ruby threads", 7.482_430, 5.518_199),
    ("Async", 3.284_785, 3.285_159),
    ("Async ×2", 6.382_351, 4.233_598),
    ("UringMachine's fiber scheduler", 2.913_265, 2.913_601),
    ("UringMachine's fiber scheduler ×2", 6.119_325, 3.984_509),
    ("UringMachine", 1.937_594, 1.937_892),
    ("UringMachine ×2", 2.068_480, 1.114_170),
    ("UringMachine ×4", 2.313_373, 0.768_043),
    ("UringMachine ×8", 2.784_456, 0.831_759),
];

const CONNECTIONS: u32 = 256;
const REQUESTS: u64 = 100_000;

/// Name, requests a second, and mean latency in seconds.
type Rates = (&'static str, f64, f64);

const HTTP: [Rates; 5] = [
    ("UringMachine", 103_917.0, 2.46e-3),
    ("UringMachine ×2", 184_753.0, 1.38e-3),
    ("UringMachine ×4", 216_203.0, 1.18e-3),
    ("UringMachine ×6", 208_420.0, 1.23e-3),
    ("UringMachine ×8", 205_969.0, 1.24e-3),
];

pub(super) fn experiments() -> Vec<Draft> {
    vec![
        Draft {
            name: "pipe-48".to_owned(),
            title: "48 pipes, on one thread and on several".to_owned(),
            about: "48 pairs of strands send 10,000 messages of 1,024 bytes each through pipes; \
                    the reader checks every byte.",
            x_noun: "pairs of strands",
            points: points(Workload::pipe(PAIRS, MESSAGES, 1024)),
            views: views("through pipes"),
            published: figures(&PIPE),
        },
        Draft {
            name: "socketpair-48".to_owned(),
            title: "48 pairs of sockets, on one thread and on several".to_owned(),
            about: "The same through pairs of connected Unix sockets.",
            x_noun: "pairs of strands",
            points: points(Workload::socketpair(PAIRS, MESSAGES, 1024)),
            views: views("through sockets"),
            published: figures(&SOCKETPAIR),
        },
        http(),
    ]
}

fn http() -> Draft {
    let sidecar = Arm::of(Engine::Sidecar);
    let two_sidecars = Arm { workers: Some(2), ..sidecar };
    let arms = [FIBERS, THREADS, hybrid(2), sidecar, two_sidecars];
    let workload = Workload::http(CONNECTIONS, REQUESTS, 14);
    let rates = HTTP.iter().map(|(name, rate, _)| {
        published(name, MACHINE, Quantity::Requests, [(CONNECTIONS.into(), *rate)])
    });
    let latencies = HTTP.iter().map(|(name, _, latency)| {
        published(name, MACHINE, Quantity::Latency, [(CONNECTIONS.into(), *latency)])
    });
    Draft {
        name: "http-256".to_owned(),
        title: "An HTTP server with 256 connections, on one thread and on two".to_owned(),
        about: "256 connections send 100,000 requests, each after the answer to the one before. \
                The load generator is a process beside the server, so a server on several threads \
                shares the CPUs with it; every answer is checked.",
        x_noun: "connections",
        points: grid_of(&arms, [CONNECTIONS.into()], |_| workload),
        views: vec![
            View::new("Requests per second of an HTTP server", Quantity::Requests),
            View::new("Mean latency of a request", Quantity::Latency),
            View::new("CPU time of the server for one request", Quantity::Cpu),
        ],
        published: rates.chain(latencies).collect(),
    }
}

fn points(workload: Workload) -> Vec<Point> {
    let sidecar = Arm::of(Engine::Sidecar);
    let arms = [FIBERS, THREADS, hybrid(2), hybrid(4), hybrid(8), sidecar];
    grid_of(&arms, [PAIRS.into()], |_| workload)
}

fn views(through: &str) -> Vec<View> {
    vec![
        View::new(&format!("Time for all messages {through}"), Quantity::Seconds),
        View::new(&format!("CPU time for one message {through}, of all CPUs"), Quantity::Cpu),
    ]
}

fn figures(rows: &[Times]) -> Vec<Published> {
    let messages = f64::from(PAIRS * MESSAGES);
    let seconds = rows.iter().map(|(name, _, real)| {
        published(name, MACHINE, Quantity::Seconds, [(PAIRS.into(), *real)])
    });
    let cpu = rows.iter().map(|(name, cpu, _)| {
        published(name, MACHINE, Quantity::Cpu, [(PAIRS.into(), cpu * 1e9 / messages)])
    });
    seconds.chain(cpu).collect()
}

pub(super) fn post() -> Post {
    let of = |experiment, place, winner, loser, rows: &[Times; 9], [best, other]: [usize; 2]| {
        let factor = rows[other].2 / rows[best].2;
        claim(experiment, place, PAIRS.into(), ahead(winner, loser, Some(factor)))
    };
    let served = |quantity, place, factor| {
        let relation = ahead(hybrid(2), FIBERS, Some(factor));
        Claim { quantity, ..claim("http-256", place, CONNECTIONS.into(), relation) }
    };
    Post {
        name: "uringmachine".to_owned(),
        author: "Sharon Rosner".to_owned(),
        title: "Threads vs Fibers - Can't We Be Friends?".to_owned(),
        year: 2025,
        machine: MACHINE.0.to_owned(),
        claims: vec![
            of("pipe-48", "through pipes", FIBERS, THREADS, &PIPE, [5, 0]),
            of("pipe-48", "through pipes", hybrid(2), FIBERS, &PIPE, [6, 5]),
            of("pipe-48", "through pipes", hybrid(2), hybrid(8), &PIPE, [6, 8]),
            of("socketpair-48", "through sockets", FIBERS, THREADS, &SOCKETPAIR, [5, 0]),
            of("socketpair-48", "through sockets", hybrid(2), FIBERS, &SOCKETPAIR, [6, 5]),
            of("socketpair-48", "through sockets", hybrid(4), hybrid(2), &SOCKETPAIR, [7, 6]),
            served(Quantity::Requests, "by requests/s", HTTP[1].1 / HTTP[0].1),
            served(Quantity::Latency, "by latency", HTTP[0].2 / HTTP[1].2),
        ],
        cut: vec![
            "The web server of the post also ran on 4, 6 and 8 threads; here it runs on 1 and 2, \
             because the load generator needs a CPU, too."
                .to_owned(),
            "The post only sketches a sidecar thread that enters the kernel; here it is measured."
                .to_owned(),
        ],
    }
}
