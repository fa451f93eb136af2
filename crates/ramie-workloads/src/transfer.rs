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

    pub(crate) fn cost_of_pipes<S: StrandKind>(
        &self,
        workers: usize,
    ) -> Result<Cost, WorkloadError> {
        cost::<S, _, _>("pipe", self, self.make(S::pipe)?, workers)
    }

    pub(crate) fn cost_of_sockets<S: StrandKind>(
        &self,
        workers: usize,
    ) -> Result<Cost, WorkloadError> {
        cost::<S, _, _>("socketpair", self, self.make(S::socketpair)?, workers)
    }

    /// Makes a pipe or a socket pair for each pair, before the clock starts.
    fn make<T>(&self, make: impl Fn() -> io::Result<T>) -> Result<Vec<T>, WorkloadError> {
        (0..self.pairs).map(|_| make()).collect::<io::Result<_>>().map_err(|error| {
            WorkloadError::new(format!(
                "cannot create {} pairs ({error}); ask for fewer, or raise the limits on \
                 descriptors (ulimit -n, fs.file-max)",
                self.pairs
            ))
        })
    }
}

/// A pair's number and its two ends.
type Ends<R, W> = (u64, (R, W));

fn cost<S, R, W>(
    name: &'static str,
    load: &Load,
    ends: Vec<(R, W)>,
    workers: usize,
) -> Result<Cost, WorkloadError>
where
    S: StrandKind,
    R: io::Read + Send + 'static,
    W: io::Write + Send + 'static,
{
    let mut shares: Vec<Vec<Ends<R, W>>> = Vec::new();
    shares.resize_with(workers, Vec::new);
    for (pair, ends) in ends.into_iter().enumerate() {
        shares[pair % workers].push((pair as u64, ends));
    }
    let watch = Stopwatch::start();
    let barrier =
        Arc::new(StartBarrier { missing: Mutex::new(workers), is_complete: Condvar::new() });
    let own = (shares.swap_remove(0), barrier.ticket());
    let others: Vec<_> = shares.into_iter().map(|share| (share, barrier.ticket())).collect();
    let mut others = others.into_iter();
    let spawned = spawn_all::<S, _, _>(workers - 1, |_| {
        let (load, other) = (*load, others.next());
        move || match other {
            Some((share, ticket)) => move_share::<S, _, _>(name, &load, share, ticket),
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
    let mut outcome = move_share::<S, _, _>(name, load, own.0, own.1);
    join_all::<S, _>(strands, |of_share| {
        outcome = mem::replace(&mut outcome, Ok(())).and(of_share)
    })?;
    outcome.map(|()| watch.stop())
}

/// Runs the strands of a worker's share of the pairs, on this worker.
fn move_share<S, R, W>(
    name: &'static str,
    load: &Load,
    share: Vec<Ends<R, W>>,
    ticket: BarrierTicket,
) -> Result<(), WorkloadError>
where
    S: StrandKind,
    R: io::Read + Send + 'static,
    W: io::Write + Send + 'static,
{
    ticket.meet();
    let both = |(pair, (reader, writer))| {
        let plan = load.plan(pair);
        [End::Read(reader, plan), End::Write(writer, plan)]
    };
    let ends: Vec<_> = share.into_iter().flat_map(both).collect();
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
