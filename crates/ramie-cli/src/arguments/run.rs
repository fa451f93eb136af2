//! The arguments of `ramie run`, whose workloads are subcommands.

use clap::Args;
use ramie_workloads::count;

use super::workers;
use crate::workload::{Engine, Workload};

/// Run one workload, check its result and print its cost
///
/// Prints one line per repetition: the workload, its parameters, seconds= (from the first spawn to
/// the last join, without the start of the runtime) and per_op_ns= (this time divided by the number
/// of operations). The time of http is measured by its load generator, from the first request to
/// the last answer; the time of server begins with the first client.
#[derive(Args, Debug, Clone)]
#[command(after_help = RUN_EXAMPLES, subcommand_value_name = "WORKLOAD")]
#[command(subcommand_help_heading = "Workloads")]
pub(crate) struct Run {
    #[command(subcommand)]
    pub(crate) workload: Workload,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

const RUN_EXAMPLES: &str = "\
Examples:
  ramie run switch --count 10000000
  ramie run ring --size 500 --hops 1000000 --repeat 5
  ramie run feed --people 1024 --nutrients 10000 --on hybrid --workers 2 --json
  ramie run pipe --pairs 48 --messages 10000 --bytes 1024 --workers 2
  ramie run recurse --depth 1000 --on futures
  ramie run mix --concurrency 1000 --cpu-us 5 --wait-us 200 --wait socket --on processes
  ramie run http --connections 256 --requests 500000 --body 14 --on hybrid --workers 2
  ramie run server --clients 100000 --order concurrent --on threads
  ramie run feed --people 1,2,4,8 --nutrients 10,100 --on threads --csv

Every parameter of a workload is required and is a whole number of 1 or more, unless its help says
otherwise. A list of numbers, such as 1,2,4, is a sweep: one run for each element, in a process of
its own. Several lists run in all combinations. --workers and --processes take lists, too. Lines
of a sweep name the engine and its workers. A run that fails ends the sweep. If the result of a
workload is wrong, the exit code is 1.

basic, recurse and recurse2 run one task, on a fiber, on a thread, as a coroutine or as futures; a
hybrid runs the task on a fiber and leaves its other workers idle. The other workloads run many
strands: fibers, threads or a hybrid. pipe, socketpair, http and server do I/O, so they also run on
fibers with a sidecar thread. feed, mix and http also run in several processes with fibers.";

/// Options of every workload.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "How to run it")]
pub(crate) struct RunOptions {
    /// Engine that runs the workload. For many strands: fibers on one worker, OS threads, fibers on
    /// several workers (hybrid), or fibers with a sidecar thread that enters the kernel. For one
    /// task: a fiber, a thread, a bare coroutine or a future
    #[arg(long, global = true, value_enum, default_value_t = Engine::Fibers)]
    #[arg(value_name = "ENGINE")]
    pub(crate) on: Engine,

    /// Worker threads that run the fibers, 1 to 1024 [default: 1; with --on hybrid one per CPU, at
    /// least 2]
    #[arg(long, global = true, value_name = "N", value_parser = workers)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) workers: Option<u32>,

    /// Processes, each with one worker of fibers, 1 to 1024; with --on processes [default: one per
    /// CPU, at least 2]
    #[arg(long, global = true, value_name = "N", value_parser = workers)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) processes: Option<u32>,

    /// Number of repetitions; each repetition of `alive` runs in a new process
    #[arg(long, global = true, value_name = "R", value_parser = count::<u32>, default_value = "1")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) repeat: u32,

    /// Print one JSON object per repetition
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Print CSV: a header and one row per repetition; the columns are the fields of --json
    #[arg(long, global = true, conflicts_with = "json")]
    pub(crate) csv: bool,

    /// Count context switches, page faults, ring ops, allocations and CPU events of each repetition
    ///
    /// The counters cover the interval of `seconds`; counters that this machine does not have are
    /// `null`, with the reason. The number of runs of a strand (fewest, median, most) is counted in
    /// an additional repetition, because a counter in each switch would slow down the fibers.
    /// Allocations exclude the stacks of fibers, which are mapped. With --on processes, the
    /// counters are sums over these processes.
    #[arg(long, global = true)]
    pub(crate) counters: bool,

    /// Set by the parent process: this process has run no workload before.
    #[arg(long, global = true, hide = true)]
    pub(crate) fresh: bool,

    #[command(flatten)]
    pub(crate) member: MemberOptions,
}

/// Options that a parent process sets.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct MemberOptions {
    /// This process is a member of the engine `processes`.
    #[arg(long, global = true, hide = true)]
    pub(crate) member: bool,

    /// This process runs one combination of a sweep, so its lines of text name the engine and its
    /// workers.
    #[arg(long, global = true, hide = true)]
    pub(crate) sweep: bool,

    /// This member counts the runs of its strands, and nothing else.
    #[arg(long, global = true, hide = true)]
    pub(crate) count_runs: bool,

    /// The speed of the CPU, so that several processes compute the same.
    #[arg(long, global = true, hide = true, value_parser = count::<u64>)]
    pub(crate) iterations_per_ms: Option<u64>,

    /// The name of a responder that another process has started.
    #[arg(long, global = true, hide = true)]
    pub(crate) responder: Option<String>,
}
