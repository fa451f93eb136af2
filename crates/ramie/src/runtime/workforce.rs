//! The workers of a runtime on fibers, from their start to their end.
//!
//! 1. The driver of worker 0 is opened on the calling thread. Each further worker opens its driver
//!    on its own thread and reports the result. If one fails, all workers stop, and the start fails
//!    with the reason.
//! 2. The loops run: that of worker 0 is called by `run`, by the thread of a runtime in the
//!    background, or turn by turn by another program's loop.
//! 3. When the loops have ended, each worker abandons its remaining fibers, the threads are joined,
//!    and worker 0 is dropped. Then the runtime has ended.
//!
//! No thread ends while another runs fibers: a strand of a scope may refer to a thread-local of the
//! thread whose fiber has opened the scope, and that fiber may have been abandoned.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, mpsc},
    thread,
};

use ramie_driver::{
    say,
    sys::{HandedOut, Lent, fork::ForkMark},
};

use super::{AbandonedFibers, builder::Config, hooks::OnDuty};
use crate::{
    core::worker::{AbandonedFiber, Installed, Membership, Pool, Until, Worker, Workers},
    stall::{Watchdog, Watching},
};

/// Lent to scopes and wakers: the fibers of a worker.
pub(super) enum Fibers {}

impl Lent for Fibers {
    const WHAT: &'static str = "a worker had fibers that were not abandoned";
}

/// The workers of one runtime; the first is on the thread that has this.
pub(super) struct Workforce {
    pub(super) workers: Arc<Workers>,
    pub(super) first: Worker,
    pub(super) watching: Watching,
    pub(super) others: OtherWorkers,
}

/// What a runtime has beside worker 0.
pub(super) struct OtherWorkers {
    threads: Threads,
    pool: Arc<Pool>,
    duty: OnDuty,
    _watchdog: Option<Watchdog>,
}

impl Workforce {
    /// Makes the workers, of which this thread is the first. A `guest` is driven by another loop of
    /// this thread, and not pinned to a CPU.
    ///
    /// # Errors
    /// A driver cannot be opened, a thread cannot be started or pinned, a hook has panicked, or
    /// this is the child of a fork.
    pub(super) fn start(config: &Config, guest: bool) -> io::Result<Workforce> {
        refuse_in_child()?;
        let pool = Arc::new(Pool::on(config.blocking_threads, config.hooks.blocking_cpus()));
        let (workers, members) = Workers::new(config.workers, config.grace, Arc::clone(&pool));
        let mut members = members.into_iter();
        let own = members.next().expect("a runtime has at least one worker");
        let watchdog = Watchdog::start(config.watch.clone());
        let watching = Watchdog::watching(watchdog.as_ref());
        let duty = OnDuty::begin(&config.hooks, 0, !guest)?;
        let first = make_worker(config, own, &watching, guest)?;
        let threads = Threads::start(config, &workers, members, &watching)?;
        let others = OtherWorkers { threads, pool, duty, _watchdog: watchdog };
        Ok(Workforce { workers, first, watching, others })
    }

    /// Ends a runtime that has not begun.
    pub(super) fn dismiss(self) {
        self.workers.stop();
        self.others.dismiss();
    }

    /// Ends the runtime, when the loop of worker 0 has ended. Returns what was abandoned.
    pub(super) fn end(self, fibers: HandedOut<Fibers>) -> AbandonedFibers {
        let Workforce { workers, first, others, .. } = self;
        let abandoned = first.abandon_all();
        others.end(&workers, first, fibers, abandoned)
    }
}

impl OtherWorkers {
    /// Ends a runtime that has not begun, and was stopped.
    pub(super) fn dismiss(self) {
        self.threads.join();
    }

    /// Ends the runtime, when worker 0, `first`, has abandoned its fibers.
    pub(super) fn end(
        self,
        workers: &Workers,
        first: impl Sized,
        fibers: HandedOut<Fibers>,
        mut abandoned: Vec<AbandonedFiber>,
    ) -> AbandonedFibers {
        abandoned.extend(self.threads.join());
        drop(first);
        fibers.settle();
        self.pool.close();
        drop(self.duty);
        let abandoned = AbandonedFibers::of(&abandoned);
        workers.entrance.end(Arc::clone(&abandoned.lines));
        abandoned
    }
}

fn make_worker(
    config: &Config,
    membership: Membership,
    watching: &Watching,
    guest: bool,
) -> io::Result<Worker> {
    // Only such a ring has a descriptor for which another loop can wait.
    let masked = if guest { ramie_driver::UNPOLLABLE } else { ramie_driver::FeatureSet::EMPTY };
    let of_driver = ramie_driver::Config {
        submitter: config.submitter,
        masked,
        ..ramie_driver::Config::default()
    };
    let driver = ramie_driver::Driver::open(config.driver, &of_driver)?;
    let (driver, clock) = (Some(driver), config.clock.clone());
    let mut worker = Worker::new(driver, config.driver, clock, config.stack_size, Some(membership));
    if let Some(policy) = &config.policy {
        worker.plug(policy());
    }
    watching.introduce(&mut worker);
    Ok(worker)
}

/// A worker that met the driver's refusal only when it waits would end the process.
fn refuse_in_child() -> io::Result<()> {
    if ForkMark::get().is_child() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a runtime cannot start in the child of a fork, because the parent had used Ramie; \
             fork before anything of Ramie, or exec in the child",
        ));
    }
    Ok(())
}

/// The threads of workers 1 and up.
struct Threads {
    handles: Vec<thread::JoinHandle<Vec<AbandonedFiber>>>,
    /// Is disconnected when none of them runs fibers any more.
    ran: mpsc::Receiver<Infallible>,
    /// The threads end when these are dropped.
    holds: Vec<mpsc::Sender<Infallible>>,
}

/// The ends of the channels of [`Threads`] that one thread has.
struct Held {
    runs: mpsc::Sender<Infallible>,
    hold: mpsc::Receiver<Infallible>,
}

impl Held {
    /// Waits until no worker runs fibers any more, after this one has abandoned its own.
    fn wait(self) {
        drop(self.runs);
        let _ = self.hold.recv();
    }
}

impl Threads {
    fn start(
        config: &Config,
        workers: &Workers,
        members: impl Iterator<Item = Membership>,
        watching: &Watching,
    ) -> io::Result<Self> {
        let (sender, reports) = mpsc::channel();
        let (runs, ran) = mpsc::channel();
        let mut threads = Threads { handles: Vec::new(), ran, holds: Vec::new() };
        let mut failure = None;
        for member in members {
            let (holds, hold) = mpsc::channel();
            let held = Held { runs: runs.clone(), hold };
            threads.holds.push(holds);
            match start_thread(config, member, watching.clone(), sender.clone(), held) {
                Ok(handle) => threads.handles.push(handle),
                Err(error) => failure = Some(no_thread(&error)),
            }
        }
        drop((sender, runs));
        failure = reports.iter().filter_map(io::Result::err).last().or(failure);
        if let Some(error) = failure {
            workers.stop();
            threads.join();
            let text = format!("a worker could not be started: {error}");
            return Err(io::Error::new(error.kind(), text));
        }
        Ok(threads)
    }

    /// Ends and joins the threads, when worker 0 runs no fibers any more.
    fn join(self) -> Vec<AbandonedFiber> {
        let _ = self.ran.recv();
        drop(self.holds);
        let join = |handle: thread::JoinHandle<_>| {
            handle.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
        };
        self.handles.into_iter().flat_map(join).collect()
    }
}

pub(super) fn no_thread(error: &io::Error) -> io::Error {
    let text = format!(
        "no thread for it ({error}); use fewer workers, or raise the limits on threads and memory \
         (`ulimit -u`, `ulimit -v`)"
    );
    io::Error::new(error.kind(), text)
}

fn start_thread(
    config: &Config,
    membership: Membership,
    watching: Watching,
    report: mpsc::Sender<io::Result<()>>,
    held: Held,
) -> io::Result<thread::JoinHandle<Vec<AbandonedFiber>>> {
    let config = config.clone();
    let name = format!("{}-{}", config.thread_name, membership.index);
    thread::Builder::new().name(name).spawn(move || {
        let made = OnDuty::begin(&config.hooks, membership.index, true).and_then(|duty| {
            // The panic is caught, so that the start can report a policy that cannot be made.
            let made =
                crate::core::panic::catch(|| make_worker(&config, membership, &watching, false));
            let panicked =
                |_| Err(io::Error::other("the function that makes the run-queue policy panicked"));
            Ok((duty, made.unwrap_or_else(panicked)?))
        });
        let (_duty, worker) = match made {
            Ok(made) => made,
            Err(error) => {
                let _ = report.send(Err(error));
                return Vec::new();
            }
        };
        let _ = report.send(Ok(()));
        drop(report);
        let fibers = HandedOut::<Fibers>::new();
        {
            let _installed = Installed::new(&worker);
            watching.while_watched(&worker, || worker.run(Until::Finished));
        }
        let abandoned = worker.abandon_all();
        drop(worker);
        fibers.settle();
        held.wait();
        abandoned
    })
}

/// Reports what was abandoned.
pub(super) fn report(config: &Config, abandoned: &AbandonedFibers) {
    if abandoned.count() == 0 {
        return;
    }
    for line in abandoned.iter() {
        say!(Warn, "abandoned after the grace period: {line}");
    }
    if let Some(on_abandoned) = &config.on_abandoned {
        on_abandoned(abandoned);
    }
}
