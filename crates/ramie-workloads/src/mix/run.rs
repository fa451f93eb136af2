//! The loop of a strand, and the run as a whole.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use super::{
    Mix, WaitFor,
    blocks::{self, BlockFile},
    exchange::{self, Pipes, Socket},
    lock::{self, Client},
    tally::Tally,
    work::{Steps, compute, jump},
};
use crate::{
    Cost, OnThreads, StrandKind, WorkloadError,
    durations::{Samples, Shards},
    gate::Gate,
    messages::Buffer,
    strands::{join_all, spawn_all},
    usage::{Stopwatch, peak_resident_bytes},
};

/// Everything that a mix needs beside its parameters.
pub struct MixSetup<'a> {
    /// The speed of this CPU; see [`iterations_per_ms`](super::iterations_per_ms).
    pub iterations_per_ms: u64,
    /// The name of the responder, for waits that need one.
    pub responder: Option<&'a str>,
    /// Called when all strands are spawned and wait for the start, for example to wait for other
    /// processes.
    pub on_ready: &'a dyn Fn() -> Result<(), WorkloadError>,
}

impl Mix {
    /// Runs the mix on strands and checks the results.
    ///
    /// # Errors
    /// If the system refuses a strand or a descriptor, or if a result is wrong.
    pub fn tally<S: StrandKind>(&self, setting: &MixSetup<'_>) -> Result<Tally, WorkloadError> {
        match self.blocking {
            true => self.tally_by::<S, OnThreads>(setting),
            false => self.tally_by::<S, S>(setting),
        }
    }

    /// As [`tally`](Self::tally), as the cost of one repetition.
    ///
    /// # Errors
    /// As of [`tally`](Self::tally); or if no step was complete in time.
    pub fn cost<S: StrandKind>(&self, setting: &MixSetup<'_>) -> Result<Cost, WorkloadError> {
        self.tally::<S>(setting)?.into_cost(self)
    }

    /// On strands of kind `S` that wait by the calls of kind `W`.
    fn tally_by<S: StrandKind, W: StrandKind>(
        &self,
        setting: &MixSetup<'_>,
    ) -> Result<Tally, WorkloadError> {
        let count = self.concurrency as usize;
        let (waiters, after) = self.waiters::<W>(count, setting.responder)?;
        let course = Arc::new(Course {
            steps: self.steps(setting.iterations_per_ms),
            yields: self.blocking && S::IS_COOPERATIVE,
            end: OnceLock::new(),
            counted: self.counted(),
            shards: Shards::new(),
        });
        let gate = Gate::<S>::new(count);
        let mut waiters = waiters.into_iter();
        let spawned = spawn_all::<S, _, _>(count, |number| {
            let (mut ticket, course) = (gate.ticket(), Arc::clone(&course));
            let waiter = waiters.next();
            move || {
                ticket.arrive();
                ticket.pass();
                waiter.map_or_else(Life::default, |waiter| live::<S, W>(&course, number, waiter))
            }
        });
        let strands = spawned.map_err(|failure| {
            gate.open(failure.peers());
            failure.give_up()
        })?;
        drop(waiters);
        gate.wait();
        let is_ready = (setting.on_ready)();
        let watch = Stopwatch::start();
        if is_ready.is_ok() {
            // Nobody else sets it.
            let _ = course.end.set(Instant::now() + self.seconds.duration());
        }
        gate.open(strands.iter().map(S::peer));
        let mut lives = Vec::with_capacity(count);
        join_all::<S, Life>(strands, |life| lives.push(life))?;
        let Cost { time, cpu_s, .. } = watch.stop();
        is_ready?;
        let steps = course.check(lives)?;
        let rss_bytes = peak_resident_bytes().unwrap_or(0);
        after.check(steps.all)?;
        let lateness = course.shards.merged();
        Ok(Tally {
            steps: steps.all,
            steps_in_time: steps.in_time,
            time,
            cpu_s,
            rss_bytes,
            lateness,
        })
    }

    /// The time in which steps count: all but the first quarter.
    pub(super) fn counted(&self) -> Duration {
        self.seconds.duration().mul_f64(0.75)
    }

    fn steps(&self, iterations_per_ms: u64) -> Steps {
        Steps {
            cpu_us: self.cpu_us,
            wait_us: self.wait_us,
            jitter_percent: self.jitter,
            iterations_per_ms,
        }
    }

    fn waiters<W: StrandKind>(
        &self,
        count: usize,
        responder: Option<&str>,
    ) -> Result<(Vec<Waiter<W>>, After<W>), WorkloadError> {
        let of_responder = |error: io::Error| {
            WorkloadError::new(format!(
                "cannot connect {count} strands to the responder ({error}); ask for fewer, or \
                 raise the limits on descriptors (ulimit -n, fs.file-max)"
            ))
        };
        let responder = || {
            responder.ok_or_else(|| {
                WorkloadError::new(
                    "a mix over sockets or pipes needs a responder; use `ramie run mix`",
                )
            })
        };
        Ok(match self.wait {
            WaitFor::Timer => ((0..count).map(|_| Waiter::Timer).collect(), After::Nothing),
            WaitFor::Socket => {
                let sockets = exchange::sockets::<W>(count, responder()?).map_err(of_responder)?;
                (sockets.into_iter().map(Waiter::Socket).collect(), After::Nothing)
            }
            WaitFor::Pipe => {
                let pipes = exchange::pipes::<W>(count, responder()?).map_err(of_responder)?;
                (pipes.into_iter().map(Waiter::Pipes).collect(), After::Nothing)
            }
            WaitFor::File => {
                let file = BlockFile::<W>::make(count)?;
                let waiter = |_| Waiter::File(Arc::clone(&file), blocks::buffer());
                ((0..count).map(waiter).collect(), After::File(Arc::clone(&file)))
            }
            WaitFor::Lock => {
                let (clients, holders) = lock::pairs::<W>(count)?;
                (clients.into_iter().map(Waiter::Lock).collect(), After::Join(holders))
            }
        })
    }
}

/// The waits of one strand.
enum Waiter<W: StrandKind> {
    Timer,
    Socket(Socket<W>),
    Pipes(Pipes<W>),
    File(Arc<BlockFile<W>>, Buffer),
    Lock(Client<W>),
}

impl<W: StrandKind> Waiter<W> {
    #[inline]
    fn wait(&mut self, number: u64, time: Duration) -> io::Result<()> {
        match self {
            Waiter::Timer => {
                W::sleep(time);
                Ok(())
            }
            Waiter::Socket(socket) => socket.ask(number, time),
            Waiter::Pipes(pipes) => pipes.ask(number, time),
            Waiter::File(file, buffer) => file.read(buffer, number, time),
            Waiter::Lock(client) => client.wait(time),
        }
    }
}

/// The checks and joins after the strands have ended.
enum After<W: StrandKind> {
    Nothing,
    File(Arc<BlockFile<W>>),
    Join(Vec<W::Handle<()>>),
}

impl<W: StrandKind> After<W> {
    fn check(self, steps: u64) -> Result<(), WorkloadError> {
        match self {
            After::Nothing => Ok(()),
            After::File(file) => file.check(steps),
            After::Join(holders) => join_all::<W, ()>(holders, |()| ()),
        }
    }
}

/// The parts that all strands share.
struct Course {
    steps: Steps,
    /// Whether strands yield after each step, because their waits do not let others run.
    yields: bool,
    /// When the strands stop. Not set if they shall not begin.
    end: OnceLock<Instant>,
    /// How long before the end steps begin to count.
    counted: Duration,
    shards: Shards,
}

/// The result of one strand.
#[derive(Default)]
struct Life {
    steps: u64,
    in_time: f64,
    /// The result of all its computing.
    state: u64,
    failed: Option<io::Error>,
}

/// The steps of all strands.
struct Made {
    all: u64,
    in_time: f64,
}

fn live<S: StrandKind, W: StrandKind>(
    course: &Course,
    strand: usize,
    mut waiter: Waiter<W>,
) -> Life {
    let mut life = Life { state: strand as u64, ..Life::default() };
    let Some(end) = course.end.get().copied() else { return life };
    let mut samples = Samples::new(&course.shards, strand);
    loop {
        let begin = Instant::now();
        if begin >= end {
            return life;
        }
        let step = course.steps.step(strand as u64, life.steps);
        life.state = compute(life.state, step.iterations);
        let before = Instant::now();
        if let Err(error) = waiter.wait(step.random, step.wait) {
            life.failed = Some(error);
            return life;
        }
        let now = Instant::now();
        samples.record((now - before).saturating_sub(step.wait));
        life.steps += 1;
        life.in_time += counted_share(course.counted(end), begin, now);
        if course.yields {
            S::yield_now();
        }
    }
}

/// The share of a step, from `begin` to `now`, that lies in the counted time. Without parts of
/// steps, the figure of a run of few steps would jump by a whole step of each strand.
fn counted_share([from, end]: [Instant; 2], begin: Instant, now: Instant) -> f64 {
    if from <= begin && now <= end {
        return 1.0;
    }
    let counted = now.min(end).saturating_duration_since(begin.max(from));
    counted.as_secs_f64() / (now - begin).as_secs_f64()
}

impl Course {
    /// The counted time: without the first part, in which the strands touch their stacks for the
    /// first time and begin in step.
    fn counted(&self, end: Instant) -> [Instant; 2] {
        [end.checked_sub(self.counted).unwrap_or(end), end]
    }

    /// Checks the numbers that the strands computed.
    fn check(&self, lives: Vec<Life>) -> Result<Made, WorkloadError> {
        let mut made = Made { all: 0, in_time: 0.0 };
        for (strand, life) in lives.into_iter().enumerate() {
            if let Some(error) = life.failed {
                return Err(WorkloadError::new(format!(
                    "strand {strand} could not wait ({error}); perhaps the responder was killed, \
                     or a limit is too low: ask for fewer strands"
                )));
            }
            let iterations = self.steps.iterations(strand as u64, life.steps);
            if jump(strand as u64, iterations) != life.state {
                return Err(WorkloadError::wrong(format!(
                    "mix went wrong: strand {strand} computed something else in {} steps",
                    life.steps
                )));
            }
            made.all += life.steps;
            made.in_time += life.in_time;
        }
        Ok(made)
    }
}
