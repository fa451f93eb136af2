//! The workers of a runtime on fibers, from their start to their end.
//!
//! 1. The threads of the further workers start ([`worker_threads`](super::worker_threads)). Then
//!    each worker, the first on the calling thread, calls the program's function for its start and
//!    opens its driver; the others report the result. If one fails, all workers stop, and the start
//!    fails with the reason.
//! 2. The loops run: that of worker 0 is called by `run`, by the thread of a runtime in the
//!    background, or turn by turn by another program's loop.
//! 3. When the loops have ended, each worker abandons its remaining fibers and is dropped. Each
//!    thread calls the program's function for the end of its worker, and the threads are joined.
//!    Then the runtime has ended.

use std::{io, panic::resume_unwind, sync::Arc};

use ramie_driver::{
    say,
    sys::{HandedOut, Lent, fork::ForkMark},
};

use super::{AbandonedFibers, builder::Config, hooks::OnDuty, worker_threads::Threads};
use crate::{
    core::{
        panic,
        worker::{AbandonedFiber, Membership, Pool, Worker, Workers, outlive},
    },
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
        match guest {
            true => workers.entrance.roster.enter_loop(),
            false => workers.entrance.roster.enter(),
        }
        let mut duty = OnDuty::new(&config.hooks, 0);
        if !guest {
            duty.pin()?;
        }
        let mut threads = Threads::start(config, members, &watching);
        // Caught, because the other workers have to be stopped.
        let made = panic::catch(|| {
            threads.begin()?;
            duty.begin()?;
            make_worker(config, own, &watching, guest)
        });
        let begun = threads.wait_until_begun();
        let others = OtherWorkers { threads, pool, duty, _watchdog: watchdog };
        match (made, begun) {
            (Ok(Ok(first)), Ok(())) => Ok(Workforce { workers, first, watching, others }),
            (made, begun) => {
                workers.stop();
                others.dismiss();
                let made = made.unwrap_or_else(|payload| resume_unwind(payload));
                Err(made.err().or(begun.err()).expect("one of the two has failed"))
            }
        }
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
    pub(super) fn dismiss(mut self) {
        self.threads.release();
        drop(self.duty);
        self.threads.join(&self.pool.loans);
    }

    /// Ends the runtime, when worker 0, `first`, has abandoned its fibers.
    pub(super) fn end(
        mut self,
        workers: &Workers,
        first: impl Sized,
        fibers: HandedOut<Fibers>,
        mut abandoned: Vec<AbandonedFiber>,
    ) -> AbandonedFibers {
        abandoned.extend(self.threads.release());
        drop(first);
        fibers.settle();
        self.pool.close();
        drop(self.duty);
        self.threads.join(&self.pool.loans);
        let abandoned = AbandonedFibers::of(&abandoned);
        workers.entrance.end(Arc::clone(&abandoned.lines));
        // Last, because this blocks a thread that ends, and a job may end only when another thread
        // has waited for the end of the runtime.
        outlive(&self.pool.loans);
        abandoned
    }
}

pub(super) fn make_worker(
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
