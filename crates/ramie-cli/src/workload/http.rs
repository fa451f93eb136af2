//! `http`: the server in this process or in several ones, and its load generator.

use std::{
    fs, io,
    net::{Ipv4Addr, TcpListener},
    os::fd::AsFd,
    process,
    time::Duration,
};

use ramie_workloads::{
    Cost, Http, OnFibers, OnThreads, Workload, WorkloadError,
    http::{HttpServer, IoDriver, LoadReport, Overseer, ServeError, Served},
    mix::iterations_per_ms,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{
    Engine, descriptors, load_generator, many_threads,
    processes::{self, Member, Members},
};
use crate::{arguments::RunOptions, failure::Failure, output, runtime, signals};

/// How long the end of a server may take to show after its connections have broken off.
const MOMENT: Duration = Duration::from_millis(500);

/// The resources of the server, in addition to its parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerMeans {
    iterations_per_ms: u64,
}

/// The report of a process about its share.
#[derive(Serialize, Deserialize)]
struct ServedShare {
    answers: u64,
    cpu_s: f64,
}

/// Fails if the parameters contradict the engine, or if there are too few ports.
pub(super) fn check(http: &Http, options: &RunOptions) -> Result<(), Failure> {
    let on = options.on;
    match (http.driver, on) {
        (Some(_), Engine::Threads) => {
            return Err(Failure::usage(
                "--driver does not apply to --on threads, which call the kernel themselves; omit \
                 it, or use --on fibers",
            ));
        }
        (Some(IoDriver::Poll), Engine::Sidecar) => {
            return Err(Failure::usage(
                "--driver poll does not apply to --on sidecar, because a sidecar enters the \
                 kernel for a ring; use --driver uring, or --on fibers",
            ));
        }
        _ => {}
    }
    if http.port.is_some() && on == Engine::Processes {
        return Err(Failure::usage(
            "--port does not apply to --on processes, because each process listens on a port of \
             its own; omit it, or use --on hybrid",
        ));
    }
    let servers = if on == Engine::Processes { options.processes.unwrap_or(1) } else { 1 };
    check_ports(http.connections.div_ceil(servers))
}

/// Fails if a server cannot have this number of connections from this machine.
fn check_ports(connections: u32) -> Result<(), Failure> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u32>().ok());
    let (Some(first), Some(last)) = (ends.next(), ends.next()) else { return Ok(()) };
    let ports = (last + 1).saturating_sub(first);
    if connections <= ports {
        return Ok(());
    }
    Err(Failure::other(format!(
        "{connections} connections to one server need as many ports, but \
         net.ipv4.ip_local_port_range has {ports}; ask for {ports} --connections at most, or \
         widen the range"
    )))
}

impl ServerMeans {
    pub(super) fn new(http: &Http, options: &RunOptions) -> Result<Self, Failure> {
        if options.on == Engine::Threads {
            many_threads::check(http.connections.into())?;
        }
        let workers = options.workers.map_or(options.on.default_workers(), |count| count as usize);
        if options.on != Engine::Processes {
            descriptors::raise_limit("connections", http.connections.into(), 1, workers)?;
        }
        if options.member.member {
            load_generator::end_with_parent();
        } else {
            signals::watch(|_| stop())?;
        }
        let iterations_per_ms = match options.member.iterations_per_ms {
            Some(speed) => speed,
            // Nothing is computed.
            None if http.work == 0 => 1,
            None => iterations_per_ms(),
        };
        Ok(ServerMeans { iterations_per_ms })
    }

    pub(super) fn cost_on_threads(self, http: &Http) -> Result<Cost, Failure> {
        self.cost_by(http, |server| Ok(http.serve::<OnThreads>(server)), 1)
    }

    pub(super) fn cost_on_fibers(
        self,
        http: &Http,
        runtime: &ramie::Runtime,
    ) -> Result<Cost, Failure> {
        let serve = |server| runtime::run(runtime, || http.serve::<OnFibers>(server));
        self.cost_by(http, serve, runtime.workers())
    }

    /// Runs the server in this process by `serve`.
    fn cost_by(
        self,
        http: &Http,
        serve: impl FnOnce(HttpServer) -> Result<Result<Served, ServeError>, Failure>,
        workers: usize,
    ) -> Result<Cost, Failure> {
        let (listener, address) = listen(http)?;
        let mut generator = load_generator::start(http, &[address])?;
        let cannot = |error: io::Error| {
            Failure::other(format!(
                "cannot talk to the load generator ({error}); raise `ulimit -n`"
            ))
        };
        let [from, to] = generator.pipes().map_err(cannot)?;
        let overseer = Overseer::Generator(from, to);
        let served = serve(self.server(listener, workers, overseer))?;
        let Served { cost, answers, report } = served.map_err(|error| match error {
            ServeError::OverseerEnded => generator.failure(),
            ServeError::Failed(error) => error.into(),
        })?;
        let report = load_generator::parse_report(&report).ok_or_else(|| generator.failure())?;
        Ok(http.cost(&report, answers, cost.cpu_s)?)
    }

    fn server(self, listener: TcpListener, workers: usize, overseer: Overseer) -> HttpServer {
        HttpServer { listener, iterations_per_ms: self.iterations_per_ms, workers, overseer }
    }

    /// Runs the server in this number of member processes.
    pub(super) fn cost_in_processes(
        self,
        http: &Http,
        processes: u32,
        flags: &[&str],
    ) -> Result<Cost, Failure> {
        let arguments = |number| {
            let share = Workload::Http(http.share(number, processes)).arguments();
            let speed = self.iterations_per_ms.to_string();
            let options = ["--on", "fibers", "--member", "--iterations-per-ms", &speed];
            let options = options.iter().chain(flags).map(|&flag| flag.to_owned());
            ["run".to_owned()].into_iter().chain(share).chain(options).collect()
        };
        let mut members = Members::start(&(0..processes).map(arguments).collect::<Vec<_>>())?;
        let servers: Vec<_> = members.notes().map(str::to_owned).collect();
        let mut generator = load_generator::start(http, &servers)?;
        let report = loaded(&mut generator, &mut members);
        // A server that ends breaks off its connections, so its end is the cause.
        let report = report.map_err(|failure| members.failure_within(MOMENT).unwrap_or(failure))?;
        // Only now may the generator close its connections; without that, no member ends.
        members.stop_clocks()?;
        generator.close_input();
        let shares: Vec<ServedShare> = members.finish()?;
        let answers = shares.iter().map(|share| share.answers).sum();
        let cpu_s = shares.iter().map(|share| share.cpu_s).sum();
        Ok(http.cost(&report, answers, cpu_s)?)
    }

    /// Serves the share of this process, which is a member of the engine `processes`.
    pub(super) fn serve_as_member(
        self,
        http: &Http,
        runtime: &ramie::Runtime,
    ) -> Result<(), Failure> {
        let (listener, address) = listen(http)?;
        let no_pipe =
            |error: io::Error| Failure::other(format!("no pipe to the parent process ({error})"));
        let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(no_pipe)?;
        let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(no_pipe)?;
        let server = self.server(listener, runtime.workers(), Overseer::Parent(stdin, stdout, end));
        let serve = || {
            // Only now, because the runtime may fail to start.
            processes::report_ready(&address)?;
            Ok::<_, Failure>(http.serve::<OnFibers>(server))
        };
        let served = runtime::run(runtime, serve)??;
        let served = served.map_err(|error| match error {
            ServeError::OverseerEnded => {
                Failure::other("the process that started this one has ended")
            }
            ServeError::Failed(error) => error.into(),
        })?;
        processes::report(&ServedShare { answers: served.answers, cpu_s: served.cost.cpu_s })
    }
}

/// Runs the generator against the members.
fn loaded(generator: &mut Member, members: &mut Members) -> Result<LoadReport, Failure> {
    generator.await_ready()?;
    members.begin();
    generator.begin();
    generator.report()
}

/// Ends the program after a Ctrl-C. The kernel kills its children.
fn stop() {
    output::warn("stopped by a signal before the run was complete, so its row is missing");
    process::exit(130);
}

/// Ends this process, which is a member, with an error.
fn end(error: WorkloadError) -> ! {
    process::exit(Failure::from(error).report_as_code().into())
}

/// Listens; returns the address, too.
fn listen(http: &Http) -> Result<(TcpListener, String), Failure> {
    let port = http.port.unwrap_or(0);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let bound = listener.and_then(|listener| {
        let address = listener.local_addr()?.to_string();
        Ok((listener, address))
    });
    bound.map_err(|error| {
        let cure = match error.kind() {
            _ if Errno::from_io_error(&error) == Some(Errno::MFILE) => "raise `ulimit -n`",
            io::ErrorKind::AddrInUse => {
                "another program listens there or has just ended; stop it or try again, or omit \
                 --port to use a free one"
            }
            io::ErrorKind::PermissionDenied => {
                "ports below net.ipv4.ip_unprivileged_port_start (1024) need \
                 CAP_NET_BIND_SERVICE; choose a higher one, or omit --port to use a free one"
            }
            _ => "check the loopback interface",
        };
        Failure::other(format!("cannot listen on 127.0.0.1:{port} ({error}): {cure}"))
    })
}
