//! The workloads: their parameters, and which operation each counts.
//!
//! The workloads of many strands are generic over [`StrandKind`]: a strand is a fiber or an OS
//! thread, and the compiler generates a separate loop for each.
//!
//! The workloads of one task ([`task`]) measure calls that suspend. They run on a fiber, on an OS
//! thread, as a bare coroutine, and as futures.

use clap::Subcommand;

use crate::{
    Cost, Task, TaskCall, WorkloadError, alive, feed,
    http::{Http, WriteMode},
    mix::{self, Mix, MixSetup, Seconds},
    ring, server, spawn,
    strands::StrandKind,
    switch,
    task::{self, TaskWait},
    transfer::{self, Setup},
};

/// A workload and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Subcommand)]
#[command(disable_help_subcommand = true)]
// The docs of most variants are those of their parameters, because docs here would replace them in
// the help.
#[allow(missing_docs)]
pub enum Workload {
    Feed(feed::Feed),
    Ring(ring::Ring),
    Spawn(spawn::Spawn),
    Alive(alive::Alive),
    Switch(switch::Switch),
    Basic(task::Basic),
    Recurse(task::Recurse),
    Recurse2(task::Recurse2),
    /// G strands write I messages each into a pipe that another strand reads: the cost of I/O
    ///
    /// One op is one message, written and read. The reader compares every byte with the expected
    /// one. Several workers share the pairs evenly. The soft limit on descriptors is raised if the
    /// hard limit allows it.
    Pipe(transfer::Load),
    /// G strands send I messages each through a socket to another strand: the cost of I/O
    ///
    /// The sockets are connected Unix streams. One op is one message, sent and received. The
    /// receiver compares every byte with the expected one. Several workers share the pairs evenly.
    /// The soft limit on descriptors is raised if the hard limit allows it.
    Socketpair(transfer::Load),
    Mix(Mix),
    Http(Http),
    Server(server::Server),
}

impl Workload {
    /// `feed` with these parameters.
    pub const fn feed(people: u32, nutrients: u32) -> Self {
        Workload::Feed(feed::Feed { people, nutrients, yield_every: None, pass: None })
    }

    /// `ring` with these parameters.
    pub const fn ring(size: u32, hops: u64) -> Self {
        Workload::Ring(ring::Ring { size, hops, preset: None })
    }

    /// `spawn` with these parameters.
    pub const fn spawn(count: u32) -> Self {
        Workload::Spawn(spawn::Spawn { count })
    }

    /// `alive` with these parameters.
    pub const fn alive(count: u32) -> Self {
        Workload::Alive(alive::Alive { count })
    }

    /// `switch` with these parameters.
    pub const fn switch(count: u32) -> Self {
        Workload::Switch(switch::Switch { count })
    }

    /// `basic` with these parameters.
    pub const fn basic(yields: u32, call: TaskCall) -> Self {
        Workload::Basic(task::Basic { yields, wait: TaskWait::by(call) })
    }

    /// `recurse` with these parameters.
    pub const fn recurse(depth: u32) -> Self {
        Workload::Recurse(task::Recurse { depth, wait: TaskWait::by(TaskCall::Medium) })
    }

    /// `recurse2` with these parameters.
    pub const fn recurse2(depth: u32) -> Self {
        Workload::Recurse2(task::Recurse2 { depth, wait: TaskWait::by(TaskCall::Medium) })
    }

    /// `pipe` with these parameters.
    pub const fn pipe(pairs: u32, messages: u32, bytes: u32) -> Self {
        Workload::Pipe(transfer::Load { pairs, messages, bytes })
    }

    /// `socketpair` with these parameters.
    pub const fn socketpair(pairs: u32, messages: u32, bytes: u32) -> Self {
        Workload::Socketpair(transfer::Load { pairs, messages, bytes })
    }

    /// `http` with these parameters.
    pub const fn http(connections: u32, requests: u64, body: u32) -> Self {
        Workload::Http(Http {
            connections,
            requests,
            body,
            work: 0,
            driver: None,
            write: WriteMode::Single,
            port: None,
        })
    }

    /// Its name on a command line.
    pub fn name(&self) -> &'static str {
        match self {
            Workload::Feed(_) => "feed",
            Workload::Ring(_) => "ring",
            Workload::Spawn(_) => "spawn",
            Workload::Alive(_) => "alive",
            Workload::Switch(_) => "switch",
            Workload::Basic(_) => "basic",
            Workload::Recurse(_) => "recurse",
            Workload::Recurse2(_) => "recurse2",
            Workload::Pipe(_) => "pipe",
            Workload::Socketpair(_) => "socketpair",
            Workload::Mix(_) => "mix",
            Workload::Http(_) => "http",
            Workload::Server(_) => "server",
        }
    }

    /// The parameters, by the names of their flags.
    pub fn numbers(&self) -> Vec<(&'static str, u64)> {
        match self {
            Workload::Feed(feed) => feed.numbers(),
            Workload::Ring(ring) => ring.numbers(),
            Workload::Spawn(spawn) => spawn.numbers(),
            Workload::Alive(alive) => alive.numbers(),
            Workload::Switch(switch) => switch.numbers(),
            Workload::Basic(task::Basic { yields, wait }) => task_numbers("yields", *yields, wait),
            Workload::Recurse(task::Recurse { depth, wait })
            | Workload::Recurse2(task::Recurse2 { depth, wait }) => {
                task_numbers("depth", *depth, wait)
            }
            Workload::Pipe(load) | Workload::Socketpair(load) => load.numbers(),
            Workload::Mix(mix) => mix.numbers(),
            Workload::Http(http) => http.numbers(),
            Workload::Server(server) => server.numbers(),
        }
    }

    /// The parameters that are words, by the names of their flags.
    pub fn words(&self) -> Vec<(&'static str, &'static str)> {
        match (self, self.task()) {
            (_, Some(task)) => vec![("call", task.call.name())],
            (Workload::Mix(mix), _) => vec![("wait", mix.wait.name())],
            (Workload::Http(http), _) => http.words(),
            (Workload::Server(server), _) => vec![("order", server.order.name())],
            _ => Vec::new(),
        }
    }

    /// The call by which the task waits, if its name is part of the workload's: a recursion yields
    /// unless another call is asked for.
    pub fn call(&self) -> Option<TaskCall> {
        let call = self.task()?.call;
        let is_named = matches!(self, Workload::Basic(_)) || call != TaskCall::Medium;
        is_named.then_some(call)
    }

    /// The task, if the workload is one task rather than many strands.
    pub fn task(&self) -> Option<Task> {
        match self {
            Workload::Basic(basic) => Some(basic.task()),
            Workload::Recurse(recurse) => Some(recurse.task()),
            Workload::Recurse2(recurse) => Some(recurse.task()),
            _ => None,
        }
    }

    /// The workload with about a tenth of the work.
    pub fn tenth(self) -> Self {
        let tenth = |number: u32| (number / 10).max(1);
        match self {
            Workload::Feed(feed) => {
                Workload::Feed(feed::Feed { nutrients: tenth(feed.nutrients), ..feed })
            }
            Workload::Ring(ring) => Workload::ring(ring.size, (ring.hops / 10).max(1)),
            Workload::Spawn(spawn) => Workload::spawn(tenth(spawn.count)),
            Workload::Alive(alive) => Workload::alive(tenth(alive.count)),
            Workload::Switch(switch) => Workload::switch(tenth(switch.count)),
            Workload::Basic(basic) => {
                Workload::Basic(task::Basic { yields: tenth(basic.yields), ..basic })
            }
            Workload::Recurse(recurse) => {
                Workload::Recurse(task::Recurse { depth: tenth(recurse.depth), ..recurse })
            }
            Workload::Recurse2(recurse) => {
                Workload::Recurse2(task::Recurse2 { depth: tenth(recurse.depth), ..recurse })
            }
            Workload::Pipe(load) => {
                Workload::Pipe(transfer::Load { messages: tenth(load.messages), ..load })
            }
            Workload::Socketpair(load) => {
                Workload::Socketpair(transfer::Load { messages: tenth(load.messages), ..load })
            }
            Workload::Mix(mix) => {
                Workload::Mix(Mix { seconds: Seconds::nearest(mix.seconds.duration() / 10), ..mix })
            }
            Workload::Http(http) => {
                Workload::Http(Http { requests: (http.requests / 10).max(1), ..http })
            }
            Workload::Server(server) => {
                Workload::Server(server::Server { clients: tenth(server.clients), ..server })
            }
        }
    }

    /// The command line arguments that ask for this workload.
    pub fn arguments(&self) -> Vec<String> {
        let numbers = self.numbers().into_iter();
        let flags = numbers.flat_map(|(flag, value)| [format!("--{flag}"), value.to_string()]);
        let call = self.call().map(|call| format!("--call={}", call.name()));
        let others = match self {
            Workload::Mix(mix) => mix.other_arguments(),
            Workload::Http(http) => http.other_arguments(),
            Workload::Server(server) => vec![format!("--order={}", server.order.name())],
            Workload::Feed(feed) => {
                feed.pass.iter().map(|pass| format!("--pass={}", pass.name())).collect()
            }
            _ => Vec::new(),
        };
        std::iter::once(self.name().to_owned()).chain(flags).chain(call).chain(others).collect()
    }

    /// The number of operations in one repetition; of a workload that runs for a time, an upper
    /// bound.
    pub fn ops(&self) -> u64 {
        match self {
            Workload::Feed(feed) => feed.ops(),
            Workload::Ring(ring) => ring.hops,
            Workload::Spawn(spawn) => spawn.count.into(),
            Workload::Alive(alive) => alive.count.into(),
            Workload::Switch(switch) => 2 * u64::from(switch.count),
            Workload::Basic(basic) => basic.task().ops(),
            Workload::Recurse(recurse) => recurse.task().ops(),
            Workload::Recurse2(recurse) => recurse.task().ops(),
            Workload::Pipe(load) | Workload::Socketpair(load) => load.ops(),
            Workload::Mix(mix) => mix.ops(),
            Workload::Http(http) => http.requests,
            Workload::Server(server) => server.clients.into(),
        }
    }

    /// The number of strands.
    pub fn strands(&self) -> u64 {
        match self {
            Workload::Feed(feed) => feed.people.into(),
            Workload::Ring(ring) => ring.size.into(),
            Workload::Spawn(spawn) => spawn.count.into(),
            Workload::Alive(alive) => alive.count.into(),
            Workload::Switch(_) => 2,
            Workload::Basic(_) | Workload::Recurse(_) | Workload::Recurse2(_) => 1,
            Workload::Pipe(load) | Workload::Socketpair(load) => load.strands(),
            Workload::Mix(mix) => mix.strands(),
            Workload::Http(http) => http.strands(),
            Workload::Server(server) => server.strands(),
        }
    }

    /// How many processes can share the work at most, and the noun for one share.
    pub fn shares(&self) -> (u64, &'static str) {
        match self {
            Workload::Http(http) => (http.connections.into(), "connection"),
            _ => (self.strands(), "strand"),
        }
    }

    /// How many strands need a stack at the same time, if they are fibers.
    pub fn stacks(&self) -> u64 {
        match self {
            // A strand that no hop reaches ends at once.
            Workload::Ring(ring) => ring.hops.saturating_add(1).min(ring.size.into()),
            // Each ends before the next one starts.
            Workload::Spawn(_) => 1,
            _ => self.strands(),
        }
    }

    /// Whether each repetition has to run in a process that has run no workload before.
    pub fn wants_fresh_process(&self) -> bool {
        matches!(self, Workload::Alive(_))
    }

    /// Whether other processes take part, whose CPU time is not in the figures.
    pub fn has_other_processes(&self) -> bool {
        match self {
            Workload::Mix(mix) => mix.wait.has_responder(),
            Workload::Http(_) | Workload::Server(_) => true,
            _ => false,
        }
    }

    /// Runs the workload on `workers` workers and checks its result; OS threads have no workers and
    /// pass 1.
    pub fn cost_on<S: StrandKind>(&self, workers: usize) -> Result<Cost, WorkloadError> {
        match self {
            Workload::Feed(feed) => feed.cost::<S>(),
            Workload::Ring(ring) => ring.cost::<S>(workers),
            Workload::Spawn(spawn) => spawn.cost::<S>(),
            Workload::Alive(alive) => alive.cost::<S>(),
            Workload::Switch(switch) => switch.cost::<S>(),
            Workload::Basic(basic) => basic.task().cost::<S>(),
            Workload::Recurse(recurse) => recurse.task().cost::<S>(),
            Workload::Recurse2(recurse) => recurse.task().cost::<S>(),
            Workload::Pipe(load) => load.cost_of_pipes::<S>(workers, Setup::Before),
            Workload::Socketpair(load) => load.cost_of_sockets::<S>(workers, Setup::Before),
            Workload::Mix(mix) => mix.cost::<S>(&MixSetup {
                iterations_per_ms: mix::iterations_per_ms(),
                responder: None,
                on_ready: &|| Ok(()),
            }),
            Workload::Http(_) => Err(WorkloadError::new(
                "http needs a load generator in another process; use `ramie run http`",
            )),
            Workload::Server(_) => Err(WorkloadError::new(
                "a server needs clients in another process; use `ramie run server`",
            )),
        }
    }
}

/// The parameters of a workload of one task. The number of rounds is one if it is given.
fn task_numbers(name: &'static str, number: u32, wait: &TaskWait) -> Vec<(&'static str, u64)> {
    let rounds = wait.rounds.map(|rounds| ("rounds", rounds.into()));
    [(name, number.into())].into_iter().chain(rounds).collect()
}
