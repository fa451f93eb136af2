//! The threads of workers 1 and up, from their start to their join.
//!
//! 1. Each is pinned, and waits until all have come so far: the program's functions for the start
//!    of a worker may wait for one another, and would wait for ever for a thread that cannot be
//!    made.
//! 2. Each calls that function, opens its driver, and runs its loop.
//! 3. Each worker abandons its remaining fibers, and its thread waits until no worker runs fibers
//!    any more.
//!
//! No thread ends while another runs fibers: a strand of a scope may refer to a thread-local of the
//! thread whose fiber has opened the scope, and that fiber may have been abandoned. Nor does it end
//! before the jobs of abandoned fibers have (`core/loans.rs`). If there are such jobs, the threads
//! are left alone instead of joined, because a job may take any time.

use std::{
    convert::Infallible,
    io, mem,
    panic::resume_unwind,
    sync::{Arc, mpsc},
    thread,
};

use ramie_driver::sys::HandedOut;

use super::{
    builder::Config,
    hooks::OnDuty,
    workforce::{Fibers, make_worker},
};
use crate::{
    core::{
        loans::Loans,
        panic,
        worker::{AbandonedFiber, Installed, Membership, Until},
    },
    stall::Watching,
};

/// The threads of workers 1 and up.
pub(super) struct Threads {
    handles: Vec<thread::JoinHandle<()>>,
    /// A thread could not be made.
    failure: Option<io::Error>,
    /// Two from each thread: when it waits for the others, and when its worker has begun; and none
    /// after an error.
    reports: mpsc::Receiver<io::Result<()>>,
    /// Lets the threads begin; those that get nothing end.
    gates: Vec<mpsc::Sender<()>>,
    /// Their abandoned fibers. Is disconnected when none of them runs fibers any more.
    ran: mpsc::Receiver<Vec<AbandonedFiber>>,
    /// The threads end when these are dropped.
    holds: Vec<mpsc::Sender<Infallible>>,
    /// Is disconnected when all of them have called the function for the end of a worker.
    stopped: mpsc::Receiver<Infallible>,
}

/// The ends of the channels of [`Threads`] that one thread has.
struct Held {
    report: mpsc::Sender<io::Result<()>>,
    gate: mpsc::Receiver<()>,
    running: WhileRunning,
}

impl Held {
    /// Reports that this thread can begin, and waits until all can. Returns whether they begin.
    fn wait_for_others(&self) -> bool {
        let _ = self.report.send(Ok(()));
        self.gate.recv().is_ok()
    }

    fn report(&self, begun: io::Result<()>) {
        let _ = self.report.send(begun);
    }

    /// Reports no more.
    fn has_begun(self) -> WhileRunning {
        self.report(Ok(()));
        self.running
    }
}

/// The ends that a thread needs whose worker has begun.
struct WhileRunning {
    ran: mpsc::Sender<Vec<AbandonedFiber>>,
    hold: mpsc::Receiver<Infallible>,
    stops: mpsc::Sender<Infallible>,
}

impl WhileRunning {
    /// Hands over the abandoned fibers of this worker. Waits until no worker runs fibers any more,
    /// ends the duty, and waits until all loans have ended.
    fn end(self, abandoned: Vec<AbandonedFiber>, duty: OnDuty, loans: &Loans) {
        let WhileRunning { ran, hold, stops } = self;
        let _ = ran.send(abandoned);
        drop(ran);
        let _ = hold.recv();
        drop(duty);
        drop(stops);
        loans.wait();
    }
}

impl Threads {
    pub(super) fn start(
        config: &Config,
        members: impl Iterator<Item = Membership>,
        watching: &Watching,
    ) -> Self {
        let (report, reports) = mpsc::channel();
        let ((runs, ran), (stops, stopped)) = (mpsc::channel(), mpsc::channel());
        let (handles, gates, holds) = Default::default();
        let mut threads = Threads { handles, failure: None, reports, gates, ran, holds, stopped };
        for member in members {
            let ((gates, gate), (holds, hold)) = (mpsc::channel(), mpsc::channel());
            let running = WhileRunning { ran: runs.clone(), hold, stops: stops.clone() };
            let held = Held { report: report.clone(), gate, running };
            threads.gates.push(gates);
            threads.holds.push(holds);
            match start_thread(config, member, watching.clone(), held) {
                Ok(handle) => threads.handles.push(handle),
                Err(error) => threads.failure = Some(no_thread(&error)),
            }
        }
        threads
    }

    /// Waits until all can begin, and lets them.
    ///
    /// # Errors
    /// One of them cannot begin, so none does.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let mut failure = self.failure.take();
        for _ in &self.handles {
            if let Ok(Err(error)) = self.reports.recv() {
                failure = Some(error);
            }
        }
        let gates = mem::take(&mut self.gates);
        if let Some(error) = failure {
            return Err(not_started(&error));
        }
        gates.iter().for_each(|gate| _ = gate.send(()));
        Ok(())
    }

    /// Waits until their workers have begun, or failed to.
    pub(super) fn wait_until_begun(&self) -> io::Result<()> {
        match self.reports.iter().filter_map(Result::err).last() {
            Some(error) => Err(not_started(&error)),
            None => Ok(()),
        }
    }

    /// Lets the threads end, when no worker runs fibers any more; returns their abandoned fibers.
    pub(super) fn release(&mut self) -> Vec<AbandonedFiber> {
        let abandoned = self.ran.iter().flatten().collect();
        self.holds.clear();
        abandoned
    }

    /// Waits until the threads run no code of the program any more, and joins them, unless they
    /// have to outlive loans.
    pub(super) fn join(self, loans: &Loans) {
        let _ = self.stopped.recv();
        // No fiber is left, so no loan begins any more.
        if loans.have_all_ended() {
            let join = |handle: thread::JoinHandle<_>| {
                handle.join().unwrap_or_else(|payload| resume_unwind(payload))
            };
            self.handles.into_iter().for_each(join);
        }
    }
}

pub(super) fn not_started(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("a worker could not be started: {error}"))
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
    held: Held,
) -> io::Result<thread::JoinHandle<()>> {
    let config = config.clone();
    let name = format!("{}-{}", config.thread_name, membership.index);
    thread::Builder::new().name(name).spawn(move || {
        membership.workers.entrance.roster.enter();
        let mut duty = OnDuty::new(&config.hooks, membership.index);
        if let Err(error) = duty.pin() {
            held.report(Err(error));
            return;
        }
        if !held.wait_for_others() {
            return;
        }
        let made = duty.begin().and_then(|()| {
            // The panic is caught, so that the start can report a policy that cannot be made.
            let made = panic::catch(|| make_worker(&config, membership, &watching, false));
            let panicked =
                |_| Err(io::Error::other("the function that makes the run-queue policy panicked"));
            made.unwrap_or_else(panicked)
        });
        let worker = match made {
            Ok(worker) => worker,
            Err(error) => {
                held.report(Err(error));
                return;
            }
        };
        let running = held.has_begun();
        let fibers = HandedOut::<Fibers>::new();
        {
            let _installed = Installed::new(&worker);
            watching.while_watched(&worker, || worker.run(Until::Finished));
        }
        let abandoned = worker.abandon_all();
        let loans = Arc::clone(&worker.stacks.loans);
        drop(worker);
        fibers.settle();
        running.end(abandoned, duty, &loans);
    })
}
