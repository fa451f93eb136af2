//! The processes of `server`: the one that serves, and the clients in a process of their own.
//!
//! | the server's process | the clients' process |
//! |---|---|
//! | listens, starts the clients' process | starts its runtime, prints `ready` |
//! | starts the clock, writes a byte to its standard input | runs the clients |
//! | serves, stops the clock when the last connection is closed | prints its report and ends |

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use clap::Args;
use ramie_workloads::{
    Cost, Figure, OnFibers, OnThreads, count,
    server::{MOST_CONNECTIONS, ServedClients, Server, ServerSetup, Visits, visit},
};

use super::{
    Engine, Requirements, descriptors,
    load_generator::end_with_parent,
    many_threads,
    processes::{self, Member},
};
use crate::{
    arguments::RunOptions,
    failure::Failure,
    output,
    runtime::{self, RuntimePlan},
};

/// The command of the program that runs the clients.
const COMMAND: &str = "clients";
/// The stack of a client's fiber, which calls little.
const STACK_BYTES: usize = 64 * 1024;
/// The length of the queue of connections that the server has not accepted; the kernel cuts it to
/// net.core.somaxconn.
const BACKLOG: i32 = i32::MAX;

/// The limits of a server on this machine.
#[derive(Debug)]
pub(super) struct ServerLimits {
    clients_at_once: u32,
    connections_at_once: usize,
}

impl ServerLimits {
    /// Raises the soft limit on descriptors, which the clients' process inherits.
    pub(super) fn new(server: &Server, options: &RunOptions) -> Result<Self, Failure> {
        let workers = options.workers.map_or(options.on.default_workers(), |n| n as usize);
        let wanted = server.clients_at_once();
        let (room, limit) = room(workers);
        let clients_at_once = wanted.min(room);
        descriptors::raise_limit("clients", clients_at_once.into(), 1, workers)?;
        if clients_at_once < wanted {
            output::warn(&format!(
                "at most {clients_at_once} of {wanted} clients are connected at once, because of \
                 {limit}"
            ));
        }
        let safe = match options.on {
            Engine::Threads => many_threads::safe_threads(),
            _ => u64::MAX,
        };
        let connections_at_once = u64::from(MOST_CONNECTIONS).min(safe) as usize;
        Ok(ServerLimits { clients_at_once, connections_at_once })
    }

    pub(super) fn cost_on_threads(&self, server: &Server) -> Result<Cost, Failure> {
        self.cost(server, |setup| Ok(server.serve::<OnThreads>(setup)?))
    }

    pub(super) fn cost_on_fibers(
        &self,
        server: &Server,
        runtime: &ramie::Runtime,
    ) -> Result<Cost, Failure> {
        self.cost(server, |setup| Ok(runtime::run(runtime, || server.serve::<OnFibers>(setup))??))
    }

    fn cost(
        &self,
        server: &Server,
        serve: impl FnOnce(ServerSetup<'_>) -> Result<Option<ServedClients>, Failure>,
    ) -> Result<Cost, Failure> {
        let (listener, address) = listen()?;
        let numbers = [server.clients, self.clients_at_once].map(|number| number.to_string());
        let arguments = [vec![COMMAND.to_owned(), address.to_string()], numbers.into()].concat();
        let mut process = Member::start("the clients' process", &arguments, "try again")?;
        process.await_ready()?;
        let [report, _] = process.pipes().map_err(|error| {
            Failure::other(format!("cannot read from the clients ({error}); raise `ulimit -n`"))
        })?;
        let setup = ServerSetup {
            listener,
            connections_at_once: self.connections_at_once,
            start: &mut || process.begin(),
            report,
        };
        let Some(ServedClients { mut cost, report }) = serve(setup)? else {
            return Err(process.failure());
        };
        let Ok(visits) = serde_json::from_str::<Visits>(&report) else {
            return Err(process.failure());
        };
        check(server, &visits)?;
        let mean = visits.sum_us / visits.clients as f64;
        let wait = Figure::Group(vec![("mean", mean), ("max", visits.max_us)]);
        let at_once = Figure::Count(self.clients_at_once.into());
        cost.figures.extend([("client_wait_us", wait), ("clients_at_once", at_once)]);
        Ok(cost)
    }
}

/// The number of clients that may be connected at once, 1 or more, and the limit that sets it.
fn room(workers: usize) -> (u32, &'static str) {
    let descriptors = descriptors::room(workers);
    let room = descriptors.min(accept_queue());
    let limit = match room == descriptors {
        true => "the hard limit on descriptors; raise it to have more (ulimit -Hn as root)",
        false => "net.core.somaxconn, beyond which the kernel drops connections",
    };
    // A server without a descriptor for one connection fails later.
    (u32::try_from(room).unwrap_or(u32::MAX).max(1), limit)
}

/// The longest queue of connections that a server has not accepted.
///
/// With more clients the kernel drops connections and their clients wait for a second or more until
/// they try again, or forever if the last packet of a handshake was dropped.
fn accept_queue() -> u64 {
    const ORDINARY: u64 = 4096;
    let text = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    text.trim().parse().unwrap_or(ORDINARY)
}

fn check(server: &Server, visits: &Visits) -> Result<(), Failure> {
    if visits.clients == u64::from(server.clients) {
        return Ok(());
    }
    Err(Failure::other(format!(
        "server went wrong: {} clients read the greeting, not {}; please report this",
        visits.clients, server.clients
    )))
}

/// Listens on a free port of this machine.
fn listen() -> Result<(TcpListener, SocketAddr), Failure> {
    let listen = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        // std's own queue is short, so clients would have to try again after a second.
        rustix::net::listen(&listener, BACKLOG)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|error: std::io::Error| {
        Failure::other(format!("cannot listen on 127.0.0.1 ({error}); try again"))
    })
}

/// The arguments of the process that runs the clients.
#[derive(Args, Debug)]
pub(crate) struct Clients {
    server: SocketAddr,
    #[arg(value_parser = count::<u32>)]
    clients: u32,
    #[arg(value_parser = count::<u32>)]
    at_once: u32,
}

/// Runs the clients in this process and prints their report.
pub(crate) fn run_clients(clients: &Clients) -> Result<(), Failure> {
    end_with_parent();
    let Clients { server, clients, at_once } = *clients;
    let fibers = u64::from(at_once);
    Requirements::of(Engine::Fibers, fibers, fibers, STACK_BYTES).check(Engine::Fibers)?;
    let plan = RuntimePlan { stack_bytes: STACK_BYTES, ..RuntimePlan::of(1) };
    let runtime = plan.build()?;
    let visits = runtime::run(&runtime, || {
        processes::await_start()?;
        visit(server, clients, at_once)
    });
    processes::print(&visits??)
}
