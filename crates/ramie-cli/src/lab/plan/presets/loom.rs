//! Nazmul Idris, "Experimenting w/ Fibers in Project Loom preview", 2019: a server with a thread or
//! a fiber of Java for each client.

use ramie_workloads::{Server, server::Order};

use super::{Draft, FIBERS, Post, Published, Quantity, THREADS, ahead, published};
use crate::{
    lab::plan::{
        View,
        draft::{grid_on, small},
        post::Claim,
    },
    workload::{Engine, Workload},
};

const MACHINE: (&str, u32) = ("MacBook Pro 16\", 8 cores, 64 GB, Java", 2019);
const CLIENTS: [u64; 2] = [10_000, 100_000];
const MOST: u64 = CLIENTS[1];

/// The figures of the post: of Java's threads, and of its fibers.
struct ServerFigures {
    seconds: f64,
    /// Mean and longest accept, in seconds.
    accept_s: [f64; 2],
    /// The share of the CPU that the server took.
    cpu: f64,
}

const OF_THREADS: ServerFigures =
    ServerFigures { seconds: 5.0 * 60.0, accept_s: [3e-3, 22.0], cpu: 0.049 };
const OF_FIBERS: ServerFigures =
    ServerFigures { seconds: 3.9 * 60.0, accept_s: [2.3e-3, 19.0], cpu: 0.025 };
/// The time of 10,000 clients, which the post has of threads only.
const OF_FEW_CLIENTS: (u64, f64) = (CLIENTS[0], 17.0);

pub(super) fn experiments() -> Vec<Draft> {
    vec![
        draft(
            Order::Sequential,
            "one after another",
            "A server accepts in a loop and spawns a strand for each connection, which writes a \
             line and closes. The clients are in a process of their own and connect one after \
             another, as in the post. The accept wait is the time from the call of accept until it \
             returns, in which the server waits for a client.",
            [
                of_post("Java fibers", &OF_FIBERS, None),
                of_post("Java threads", &OF_THREADS, Some(OF_FEW_CLIENTS)),
            ]
            .concat(),
        ),
        draft(
            Order::Concurrent,
            "at once",
            "The same with all clients at once, or as many as the queue of the listener \
             (net.core.somaxconn) and the limit on descriptors allow. The post does not have this.",
            Vec::new(),
        ),
    ]
}

fn draft(order: Order, how: &str, about: &'static str, published: Vec<Published>) -> Draft {
    let workload = |clients| Workload::Server(Server { clients: small(clients), order });
    let view = |what: &str, quantity| View::new(&format!("{what} {how}"), quantity);
    Draft {
        name: format!("server-{}", order.name()),
        title: format!("A server that greets clients {how}"),
        about,
        x_noun: "clients",
        points: grid_on(&Engine::STRANDS, CLIENTS, workload),
        views: vec![
            view("Time for all clients", Quantity::Seconds),
            view("Mean accept wait with clients", Quantity::Accept),
            view("Longest accept wait with clients", Quantity::LongestAccept),
            view("CPU time of the server for one of the clients", Quantity::Cpu),
        ],
        published,
    }
}

/// The figures of one of the servers of the post.
fn of_post(name: &str, figures: &ServerFigures, few_clients: Option<(u64, f64)>) -> Vec<Published> {
    let ServerFigures { seconds, accept_s: [mean, longest], cpu } = *figures;
    let series = |quantity, value| published(name, MACHINE, quantity, [(MOST, value)]);
    let times = few_clients.into_iter().chain([(MOST, seconds)]);
    vec![
        published(name, MACHINE, Quantity::Seconds, times),
        series(Quantity::Accept, mean * 1e9),
        series(Quantity::LongestAccept, longest * 1e9),
        series(Quantity::Cpu, cpu * seconds * 1e9 / MOST as f64),
    ]
}

pub(super) fn post() -> Post {
    let claim = |quantity, place: &str, threads: f64, fibers: f64| Claim {
        experiment: "server-sequential".to_owned(),
        quantity,
        place: place.to_owned(),
        x: MOST,
        relation: ahead(FIBERS, THREADS, Some(threads / fibers)),
    };
    let (threads, fibers) = (OF_THREADS, OF_FIBERS);
    let cpu = |of: &ServerFigures| of.cpu * of.seconds;
    Post {
        name: "loom".to_owned(),
        author: "Nazmul Idris".to_owned(),
        title: "Experimenting w/ Fibers in Project Loom preview".to_owned(),
        year: MACHINE.1,
        machine: MACHINE.0.to_owned(),
        claims: vec![
            claim(
                Quantity::Seconds,
                "in the time for 100,000 clients",
                threads.seconds,
                fibers.seconds,
            ),
            claim(
                Quantity::Accept,
                "in the mean accept wait",
                threads.accept_s[0],
                fibers.accept_s[0],
            ),
            claim(
                Quantity::LongestAccept,
                "in the longest accept wait",
                threads.accept_s[1],
                fibers.accept_s[1],
            ),
            claim(Quantity::Cpu, "in the CPU time of the server", cpu(&threads), cpu(&fibers)),
        ],
        cut: vec![
            "The server of the post took 4.9 % of the CPU with threads and 2.5 % with fibers; the \
             CPU time for a client is computed from that and the time."
                .to_owned(),
        ],
    }
}
