//! The driver of a worker: opening it, its turns, and the wake-ups that follow.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use ramie_driver::{Choice, Config, Driver, OpenError, Submitter, Wait, logging};

use super::{RunningStrand, Scheduler, Shared, ThreadWaker, at_once};
use crate::core::{
    strand::Wake,
    wait::word::{Waiting, WakeWord},
};

/// A worker polls at least once in this number of switches: it looks at completions, timers and its
/// inbox.
pub(crate) const SWITCHES_PER_POLL: u32 = 61;

/// The same if another thread submits the worker's ops, so that completions may come at any time.
/// Then a poll costs little, and fibers that compute in between may take long.
const SWITCHES_PER_POLL_BESIDE_SUBMITTER: u32 = 4;

/// The driver of a worker, and how often it is polled.
pub(crate) struct WorkerIo {
    driver: RefCell<Option<Driver>>,
    choice: Choice,
    pub(super) switches_per_poll: u32,
    /// Calls that may still complete at once before the next poll (at_once.rs).
    at_once_left: Cell<u32>,
    shared: &'static Shared,
}

impl WorkerIo {
    pub(super) fn new(driver: Option<Driver>, choice: Choice, shared: &'static Shared) -> Self {
        let submitter = driver.as_ref().map_or(Submitter::Worker, |driver| driver.caps().submitter);
        let switches_per_poll = match submitter {
            Submitter::Worker => SWITCHES_PER_POLL,
            _ => SWITCHES_PER_POLL_BESIDE_SUBMITTER,
        };
        let driver = RefCell::new(driver);
        let at_once_left = Cell::new(at_once::MOST);
        WorkerIo { driver, choice, switches_per_poll, at_once_left, shared }
    }

    /// Runs `f` with the driver, which a thread outside `run` opens when it first needs it.
    ///
    /// # Errors
    /// When the driver cannot be opened: no descriptors left, or the forced one is unavailable.
    pub(crate) fn with_driver<R>(&self, f: impl FnOnce(&mut Driver) -> R) -> Result<R, OpenError> {
        if let Some(driver) = self.driver.borrow_mut().as_mut() {
            return Ok(f(driver));
        }
        self.open_driver()?;
        let mut driver = self.driver.borrow_mut();
        Ok(f(driver.as_mut().expect("it was opened by this call or before")))
    }

    /// Opens the driver of a thread outside `run`.
    #[cold]
    fn open_driver(&self) -> Result<(), OpenError> {
        // Opening writes to the log, and this may be a call of the program's logger.
        let open = || Driver::open(self.choice, &Config::small());
        let opened = logging::on_another_thread(open)?;
        // The program's logger may have opened the driver meanwhile; then this one is closed.
        self.driver.borrow_mut().get_or_insert_with(|| {
            self.shared.set_waker(Some(ThreadWaker::Driver(opened.waker())));
            opened
        });
        Ok(())
    }

    /// Runs `f` with the driver, if there is one.
    #[inline(always)]
    pub(crate) fn with_open_driver<R>(&self, f: impl FnOnce(&mut Driver) -> R) -> Option<R> {
        self.driver.borrow_mut().as_mut().map(f)
    }

    /// Runs `f` with the driver, unless there is none or it is in use.
    pub(crate) fn with_idle_driver<R>(&self, f: impl FnOnce(&mut Driver) -> R) -> Option<R> {
        self.driver.try_borrow_mut().ok()?.as_mut().map(f)
    }

    /// Counts a call that completed at once; returns whether it was the last before the strand has
    /// to give way.
    #[inline(always)]
    pub(super) fn count_complete_at_once(&self) -> bool {
        let left = self.at_once_left.get() - 1;
        self.at_once_left.set(left);
        left == 0
    }

    #[inline(always)]
    pub(super) fn restart_complete_at_once(&self) {
        self.at_once_left.set(at_once::MOST);
    }

    /// Restarts both counts of the worker, because it polls now.
    #[inline(always)]
    pub(super) fn restart_counts(&self, scheduler: &Scheduler) {
        scheduler.poll_after(self.switches_per_poll);
        self.restart_complete_at_once();
    }

    /// Makes a turn of the driver without waiting, if it needs one.
    pub(super) fn poll(&self, scheduler: &Scheduler, running: &RunningStrand) {
        let mut driver = self.driver.borrow_mut();
        if let Some(driver) = driver.as_mut().filter(|driver| driver.needs_turn()) {
            turn(driver, Wait::Never, scheduler, running);
        }
    }

    /// Makes a turn of the driver before the thread waits in another program's loop. Returns
    /// whether it may: all ops are with the kernel, and the driver has nothing more to report.
    pub(super) fn turn_to_poll(&self, scheduler: &Scheduler, running: &RunningStrand) -> bool {
        let mut driver = self.driver.borrow_mut();
        let Some(driver) = driver.as_mut() else { return true };
        let is_settled = driver.turn_to_poll().unwrap_or_else(|error| fail(&error));
        scheduler.wake_completed(driver, running);
        is_settled
    }

    /// Makes one turn of the driver for a strand that awaits its op without suspending.
    pub(crate) fn turn(&self, wait: Wait, scheduler: &Scheduler, running: &RunningStrand) {
        if let Some(driver) = self.driver.borrow_mut().as_mut() {
            turn(driver, wait, scheduler, running);
        }
    }

    /// Sleeps in the kernel, until an event or for `bound`.
    pub(super) fn wait(
        &self,
        bound: Option<Duration>,
        scheduler: &Scheduler,
        running: &RunningStrand,
    ) {
        let mut driver = self.driver.borrow_mut();
        match driver.as_mut() {
            Some(driver) => {
                let wait = match bound {
                    // Some kernels wait for their next tick if they are given a limit of zero.
                    Some(Duration::ZERO) => Wait::Never,
                    bound => Wait::Until(bound),
                };
                turn(driver, wait, scheduler, running);
            }
            None => {
                drop(driver);
                match bound {
                    Some(bound) => std::thread::park_timeout(bound),
                    None => std::thread::park(),
                }
            }
        }
    }

    /// Cancels all ops and awaits their last completions. No strand of this worker runs any more;
    /// strands of other workers that wait for an op of the driver are woken.
    pub(super) fn drain(&self) {
        let mut driver = self.driver.borrow_mut();
        let Some(driver) = driver.as_mut() else { return };
        driver.drain();
        while driver.pop_complete().is_some() {}
        while let Some(word) = driver.pop_notice() {
            if let Waiting::Full(wait) = WakeWord::from_bits(word).decode() {
                wait.wake(Wake::Woken);
            }
        }
    }
}

fn turn(driver: &mut Driver, wait: Wait, scheduler: &Scheduler, running: &RunningStrand) {
    if let Err(error) = driver.turn(wait) {
        fail(&error);
    }
    scheduler.wake_completed(driver, running);
}

/// The driver handles all that can be handled; the rest is a broken invariant.
#[cold]
fn fail(error: &std::io::Error) -> ! {
    let text = format!("the driver failed: {error}; please report this. Aborting.");
    ramie_driver::sys::fatal(&text)
}
