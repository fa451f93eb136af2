//! The clock that timers, sleeps and deadlines go by.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    primitive::{AtomicU64, Ordering},
    time::Instant,
    worker::Shared,
};

/// Where a worker reads the time.
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

    /// How long the kernel may keep a worker asleep that has nothing due before `deadline_ns`;
    /// `None`: until it is woken, because time moves only by [`ManualClock::advance`], which wakes.
    pub(crate) fn sleep_bound(&self, deadline_ns: u64) -> Option<Duration> {
        match self {
            Clock::System if deadline_ns != u64::MAX => {
                Some(Duration::from_nanos(deadline_ns.saturating_sub(self.now_ns())))
            }
            _ => None,
        }
    }
}

/// A clock that stands still until a test moves it.
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
    /// The workers that may sleep on this clock.
    workers: Mutex<Vec<&'static Shared>>,
}

impl ManualClock {
    /// Makes a clock that shows its origin.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock on and wakes the workers, which then run all that has come due.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        // SeqCst: a worker that is about to sleep sees this, or the notification sees it asleep.
        self.state.now_ns.fetch_add(by, Ordering::SeqCst);
        for shared in self.lock().iter() {
            shared.wake();
        }
    }

    /// Returns what the clock shows.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_ns(self.state.now_ns.load(Ordering::Acquire))
    }

    pub(crate) fn add_worker(&self, shared: &'static Shared) {
        self.lock().push(shared);
    }

    pub(crate) fn remove_worker(&self, shared: &'static Shared) {
        self.lock().retain(|other| !std::ptr::eq(*other, shared));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<&'static Shared>> {
        self.state.workers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl std::fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish()
    }
}
