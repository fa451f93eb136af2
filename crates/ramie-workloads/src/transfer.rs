//! Pairs of strands: one writes messages into a pipe or a socket, the other reads them.
//!
//! Several workers share the pairs evenly, and both strands of a pair run on the same worker, as in
//! a program that avoids a wake-up on another CPU for each message.

use std::{
    io, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use clap::Args;

use crate::{
    Cost, WorkloadError,
    count::count,
    messages::{PairPlan, read, write},
    strands::{StrandKind, join_all, spawn_all, spawn_all_here},
    usage::Stopwatch,
};

/// The parameters of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Load {
    /// Number of pairs of strands, each with its own pipe or socket pair
    #[arg(long, value_name = "G", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub pairs: u32,
    /// Number of messages per pair
    #[arg(long, value_name = "I", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub messages: u32,
    /// Length of a message in bytes
    #[arg(long, value_name = "S", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub bytes: u32,
}

/// The capacity of a pipe; that of a socket is similar.
const IN_THE_KERNEL: u64 = 64 * 1024;

impl Load {
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        let Load { pairs, messages, bytes } = self;
        vec![
            ("pairs", (*pairs).into()),
            ("messages", (*messages).into()),
            ("bytes", (*bytes).into()),
        ]
    }

    pub(crate) fn ops(&self) -> u64 {
        u64::from(self.pairs) * u64::from(self.messages)
    }

    pub(crate) fn strands(&self) -> u64 {
        2 * u64::from(self.pairs)
    }

    /// The bytes in use for all pairs at the same time: each pair has one message to write, one to
    /// read into and one to compare with, and the kernel holds bytes that are not read yet.
    pub fn buffers(&self) -> u64 {
        let bytes = u64::from(self.bytes);
        let on_the_way = (u64::from(self.messages) * bytes).min(IN_THE_KERNEL);
        u64::from(self.pairs).saturating_mul(3 * bytes + on_the_way)
    }

    /// The messages of one of the pairs.
    pub fn plan(&self, pair: u64) -> PairPlan {
        PairPlan { pair, messages: self.messages.into(), bytes: self.bytes as usize }
    }

    /// Runs the workload over pipes, on strands of this number of workers, and checks its result.
    pub fn cost_of_pipes<S: StrandKind>(
        &self,
        workers: usize,
        setup: Setup,
    ) -> Result<Cost, WorkloadError> {
        cost::<S, _, _>("pipe", self, workers, setup, S::pipe)
    }

    /// Like [`cost_of_pipes`](Self::cost_of_pipes), over connected Unix streams.
    pub fn cost_of_sockets<S: StrandKind>(
        &self,
        workers: usize,
        setup: Setup,
    ) -> Result<Cost, WorkloadError> {
        cost::<S, _, _>("socketpair", self, workers, setup, S::socketpair)
    }

    fn no_ends(&self, error: &io::Error) -> WorkloadError {
        WorkloadError::new(format!(
            "cannot create {} pairs ({error}); ask for fewer, or raise the limits on descriptors \
             (ulimit -n, fs.file-max)",
            self.pairs
        ))
    }
}

/// When the pipes or sockets are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// Before the clock starts.
    Before,
    /// In the measured time, by the worker whose strands use them.
    InTime,
}

/// The parameters of a share, and the means to make a pair's ends.
struct Means<R, W> {
    name: &'static str,
    load: Load,
    make: fn() -> io::Result<(R, W)>,
}

impl<R, W> Clone for Means<R, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, W> Copy for Means<R, W> {}

/// The number of each pair, with its two ends if they are made before the clock starts.
type PairsOfWorker<R, W> = Vec<(u64, Option<(R, W)>)>;

fn cost<S, R, W>(
    name: &'static str,
    load: &Load,
    workers: usize,
    setup: Setup,
    make: fn() -> io::Result<(R, W)>,
) -> Result<Cost, WorkloadError>
where
    S: StrandKind,
    R: io::Read + Send + 'static,
    W: io::Write + Send + 'static,
{
    let mut shares: Vec<PairsOfWorker<R, W>> = Vec::new();
    shares.resize_with(workers, Vec::new);
    for pair in 0..load.pairs {
        let ends = (setup == Setup::Before).then(make).transpose();
        let ends = ends.map_err(|error| load.no_ends(&error))?;
        shares[pair as usize % workers].push((pair.into(), ends));
    }
    let means = Means { name, load: *load, make };
    let watch = Stopwatch::start();
    let barrier =
        Arc::new(StartBarrier { missing: Mutex::new(workers), is_complete: Condvar::new() });
    let own = (shares.swap_remove(0), barrier.ticket());
    let others: Vec<_> = shares.into_iter().map(|share| (share, barrier.ticket())).collect();
    let mut others = others.into_iter();
    let spawned = spawn_all::<S, _, _>(workers - 1, |_| {
        let other = others.next();
        move || match other {
            Some((share, ticket)) => move_share::<S, _, _>(means, share, ticket),
            None => Ok(()),
        }
    });
    let strands = match spawned {
        Ok(strands) => strands,
        Err(failure) => {
            drop(own);
            return Err(failure.give_up());
        }
    };
    let mut outcome = move_share::<S, _, _>(means, own.0, own.1);
    join_all::<S, _>(strands, |of_share| {
        outcome = mem::replace(&mut outcome, Ok(())).and(of_share)
    })?;
    outcome.map(|()| watch.stop())
}

/// Runs the strands of a worker's share of the pairs, on this worker.
fn move_share<S, R, W>(
    means: Means<R, W>,
    share: PairsOfWorker<R, W>,
    ticket: BarrierTicket,
) -> Result<(), WorkloadError>
where
    S: StrandKind,
    R: io::Read + Send + 'static,
    W: io::Write + Send + 'static,
{
    ticket.meet();
    let Means { name, load, make } = means;
    let mut ends = Vec::with_capacity(2 * share.len());
    for (pair, made) in share {
        let (reader, writer) = made.map_or_else(make, Ok).map_err(|error| load.no_ends(&error))?;
        let plan = load.plan(pair);
        // The writer first, so that there are bytes when the reader starts.
        ends.extend([End::Write(writer, plan), End::Read(reader, plan)]);
    }
    let mut ends = ends.into_iter();
    let spawned = spawn_all_here::<S, _, _>(ends.len(), |_| {
        let end = ends.next();
        move || end.map_or(Ok(()), End::run)
    });
    let mut failed = None;
    let strands = spawned.map_err(|failure| failure.give_up())?;
    join_all::<S, io::Result<()>>(strands, |outcome| failed = failed.take().or(outcome.err()))?;
    match failed {
        None => Ok(()),
        Some(error) => Err(WorkloadError::wrong(format!("{name} went wrong: {error}"))),
    }
}

/// The work of one strand.
enum End<R, W> {
    Read(R, PairPlan),
    Write(W, PairPlan),
}

impl<R: io::Read, W: io::Write> End<R, W> {
    fn run(self) -> io::Result<()> {
        match self {
            End::Read(reader, plan) => read(reader, plan),
            End::Write(writer, plan) => write(writer, plan),
        }
    }
}

/// Makes the strands that start the shares wait for one another. Each of them blocks its worker, so
/// every worker takes one share, because fibers stay on the worker where they start.
struct StartBarrier {
    missing: Mutex<usize>,
    is_complete: Condvar,
}

/// The ticket of one such strand. If the strand cannot start, dropping the ticket releases the
/// others.
struct BarrierTicket(Arc<StartBarrier>);

impl StartBarrier {
    fn ticket(self: &Arc<Self>) -> BarrierTicket {
        BarrierTicket(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BarrierTicket {
    /// Blocks the worker until every strand has arrived or dropped its ticket.
    fn meet(self) {
        let barrier = Arc::clone(&self.0);
        drop(self);
        let mut missing = barrier.lock();
        while *missing > 0 {
            missing = barrier.is_complete.wait(missing).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for BarrierTicket {
    fn drop(&mut self) {
        let mut missing = self.0.lock();
        *missing -= 1;
        if *missing == 0 {
            self.0.is_complete.notify_all();
        }
    }
}
