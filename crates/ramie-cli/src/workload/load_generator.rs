//! The load generator of `http`: a process of its own that opens the connections and sends the
//! requests. It is a process of its own so that its CPU time is not in the figures of the server.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
};

use clap::Args;
use ramie_workloads::{
    Http, count,
    http::{LoadPlan, LoadReport},
};
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use super::{
    descriptors,
    processes::{self, Member},
    responder::half_of_the_cpus,
};
use crate::{
    failure::Failure,
    runtime::{self, RuntimePlan},
};

/// The command of the program that is the load generator.
const COMMAND: &str = "load-generator";

/// The arguments of the load generator.
#[derive(Args, Debug)]
pub(crate) struct LoadArguments {
    #[arg(long, value_parser = count::<u32>)]
    connections: u32,
    #[arg(long, value_parser = count::<u64>)]
    requests: u64,
    #[arg(long, value_parser = count::<u32>)]
    body: u32,
    /// The servers, which get the connections in turn.
    #[arg(required = true)]
    servers: Vec<SocketAddr>,
}

/// Starts a load generator that connects to these servers.
pub(super) fn start(http: &Http, servers: &[String]) -> Result<Member, Failure> {
    let numbers = [
        ("--connections", u64::from(http.connections)),
        ("--requests", http.requests),
        ("--body", http.body.into()),
    ];
    let flags =
        numbers.into_iter().flat_map(|(flag, number)| [flag.to_owned(), number.to_string()]);
    let arguments: Vec<_> =
        std::iter::once(COMMAND.to_owned()).chain(flags).chain(servers.iter().cloned()).collect();
    Member::start("the load generator", &arguments, "try again")
}

/// The report of a line that the load generator printed.
pub(super) fn parse_report(line: &str) -> Option<LoadReport> {
    serde_json::from_str(line).ok()
}

/// Runs the load generator in this process: prints `ready` when all connections are open, begins
/// when it reads a byte, and prints its report. The connections stay open until it reads one more
/// byte or its input ends, because the servers would pay for their end while their clocks run.
pub(crate) fn generate(arguments: &LoadArguments) -> Result<(), Failure> {
    end_with_parent();
    descriptors::raise_to_hard_limit();
    let plan = LoadPlan {
        connections: arguments.connections,
        requests: arguments.requests,
        body: arguments.body,
        servers: arguments.servers.clone(),
    };
    let runtime = RuntimePlan::of(half_of_the_cpus()).build()?;
    let loaded = runtime::run(&runtime, || plan.run(processes::await_start))??;
    processes::print(&loaded.report)?;
    processes::await_byte();
    Ok(())
}

/// Lets the parent process decide when this one ends: it is killed if the parent ends, and a Ctrl-C
/// in the terminal, which reaches both, ends the parent only.
pub(super) fn end_with_parent() {
    // Without these this process would outlive the parent or end before it, which is no harm.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    for signal in [SIGINT, SIGTERM] {
        let _ = flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}
