//! The clock of timers, sleeps and deadlines.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::core::{
    primitive::{AtomicU64, Ordering},
    time::Instant,
    worker::Shared,
};

/// The source of a worker's time.
#[derive(Clone, Debug, Default)]
pub(crate) enum Clock {
    #[default]
    System,
    Manual(ManualClock),
}

impl Clock {
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Clock::System => ramie_driver::sys::monotonic_ns(),
            Clock::Manual(clock) => clock.state.now_ns.load(Ordering::SeqCst),
        }
    }

    /// Returns how long the kernel may keep a worker asleep that has nothing due before
    /// `deadline_ns`. `None`: until it is woken, because a call that moves a [`ManualClock`] wakes
    /// the clock's workers.
    pub(crate) fn sleep_bound(&self, deadline_ns: u64) -> Option<Duration> {
        match self {
            Clock::System if deadline_ns != u64::MAX => {
                Some(Duration::from_nanos(deadline_ns.saturating_sub(self.now_ns())))
            }
            _ => None,
        }
    }
}

/// A clock that stands still until a test moves it, or until every strand waits.
///
/// # Examples
/// ```
/// use ramie::{Runtime, fiber, time::{Duration, ManualClock}};
///
/// let clock = ManualClock::new();
/// let runtime = Runtime::builder().clock(clock.clone()).build()?;
/// runtime.run(|| {
///     let hour = Duration::from_secs(3600);
///     let sleeper = fiber::spawn(move || fiber::sleep(hour));
///     fiber::yield_now();
///     assert!(!sleeper.is_finished());
///     clock.advance(hour);
///     sleeper.join().unwrap();
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    state: Arc<ManualState>,
}

#[derive(Default)]
struct ManualState {
    now_ns: AtomicU64,
    /// Whether the clock jumps to the next timer when every worker rests.
    jumps: bool,
    members: Mutex<ClockMembers>,
}

#[derive(Default)]
struct ClockMembers {
    /// The workers that may sleep on this clock.
    workers: Vec<ClockMember>,
    /// Threads that run without a worker on this clock.
    holders: usize,
}

struct ClockMember {
    shared: &'static Shared,
    rest: Option<Rest>,
}

/// The state of a worker that has nothing to run and has announced its sleep.
struct Rest {
    /// The time of the worker's next timer.
    next_ns: u64,
    /// An op of the worker, or a job of the blocking pool, may yet complete.
    is_busy: bool,
}

impl ManualClock {
    /// Makes a clock that shows its origin, and moves only by [`advance`](Self::advance).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a clock that also moves by itself: when every strand of its runtimes waits, it jumps
    /// to the time at which the first of these waits ends. So a program that sleeps for hours takes
    /// no time, and its strands run in the order of their times.
    ///
    /// It jumps only if nothing but time can make progress: each worker is idle, no op is in
    /// flight, no call runs on the blocking pool, and some strand waits for a time. An op in
    /// flight, such as a read from a socket, holds the clock until it has completed, even if the
    /// test waits for a limit around the read: use a channel instead of the socket, or
    /// [`advance`](Self::advance). The clock does not see threads outside the runtime. Finish their
    /// work first, or wait for it in [`blocking`](crate::blocking()).
    ///
    /// [`#[ramie::test(start_paused = true)]`](macro@crate::test) runs a test on such a clock.
    ///
    /// # Examples
    /// ```
    /// use ramie::{Runtime, fiber, time::{Duration, Instant, ManualClock}};
    ///
    /// let runtime = Runtime::builder().clock(ManualClock::jumping()).build()?;
    /// runtime.run(|| {
    ///     let start = Instant::now();
    ///     fiber::sleep(Duration::from_secs(24 * 3600));
    ///     assert_eq!(start.elapsed(), Duration::from_secs(24 * 3600));
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn jumping() -> Self {
        ManualClock { state: Arc::new(ManualState { jumps: true, ..ManualState::default() }) }
    }

    /// Moves the clock forward and wakes the workers, which then run everything that is due.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        // SeqCst: a worker that is about to sleep sees this, or the notification sees it asleep.
        self.state.now_ns.fetch_add(by, Ordering::SeqCst);
        for worker in &self.lock().workers {
            worker.shared.wake();
        }
    }

    /// Returns the time of the clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_ns(self.state.now_ns.load(Ordering::Acquire))
    }

    pub(crate) fn jumps(&self) -> bool {
        self.state.jumps
    }

    pub(crate) fn add_worker(&self, shared: &'static Shared) {
        self.lock().workers.push(ClockMember { shared, rest: None });
    }

    pub(crate) fn remove_worker(&self, shared: &'static Shared) {
        self.lock().workers.retain(|other| !std::ptr::eq(other.shared, shared));
    }

    /// Keeps the clock from jumping until [`release`](Self::release).
    pub(crate) fn hold(&self) {
        self.lock().holders += 1;
    }

    pub(crate) fn release(&self) {
        let mut members = self.lock();
        members.holders -= 1;
        self.jump_if_all_rest(&members, None);
    }

    /// The worker rests, until [`stir`](Self::stir): it has announced its sleep, and runs nothing.
    pub(crate) fn rest(&self, shared: &'static Shared, next_ns: u64, is_busy: bool) {
        let mut members = self.lock();
        members.set_rest(shared, Some(Rest { next_ns, is_busy }));
        self.jump_if_all_rest(&members, Some(shared));
    }

    pub(crate) fn stir(&self, shared: &'static Shared) {
        if self.jumps() {
            self.lock().set_rest(shared, None);
        }
    }

    /// Moves to the first timer if nothing but time can make progress.
    ///
    /// A worker rests and stirs under the lock of `members`, and between the two it runs nothing.
    /// So while all workers rest, only events from outside could wake a strand: ops and jobs, of
    /// which there are none, and other threads. The worker that rests last sees, through the lock,
    /// the writes of the others before they rested; if one of them has woken another, the other's
    /// state shows it. The caller looks at its own timers next, so its worker `own` is not woken.
    fn jump_if_all_rest(&self, members: &ClockMembers, own: Option<&Shared>) {
        if !self.jumps() || members.holders > 0 {
            return;
        }
        let mut first_ns = u64::MAX;
        for worker in &members.workers {
            let is_notified = worker.shared.is_notified() || worker.shared.has_mail();
            match &worker.rest {
                Some(rest) if !rest.is_busy && !is_notified => {
                    first_ns = first_ns.min(rest.next_ns);
                }
                _ => return,
            }
        }
        if first_ns == u64::MAX {
            return;
        }
        // SeqCst: as in `advance`.
        self.state.now_ns.fetch_max(first_ns, Ordering::SeqCst);
        for worker in &members.workers {
            let is_own = own.is_some_and(|own| std::ptr::eq(own, worker.shared));
            if !is_own && worker.rest.as_ref().is_some_and(|rest| rest.next_ns <= first_ns) {
                worker.shared.wake();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ClockMembers> {
        self.state.members.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl ClockMembers {
    fn set_rest(&mut self, shared: &'static Shared, rest: Option<Rest>) {
        let member = self.workers.iter_mut().find(|other| std::ptr::eq(other.shared, shared));
        if let Some(member) = member {
            member.rest = rest;
        }
    }
}

impl std::fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish()
    }
}
