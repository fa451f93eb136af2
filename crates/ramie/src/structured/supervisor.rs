//! Children that are restarted when they fail.

use std::{
    collections::VecDeque,
    fmt,
    panic::Location,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::{AsFailure, Failure, Failures};
use super::{TryScope, try_scope};
use crate::{
    core::{
        cancel::{self, CancelHandle, check_cancelled},
        panic::{catch, drop_quietly, message},
        time::Instant,
    },
    fiber,
};

/// Selects after which ends a child is started again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Restart {
    /// After the child has returned an error or panicked.
    #[default]
    OnFailure,
    /// After every end.
    Always,
    /// Never; if the child fails, the supervisor fails.
    Never,
}

/// Selects which children are started again when one fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strategy {
    /// Only the child that failed.
    #[default]
    OneForOne,
    /// All children: the others are cancelled, and when all have ended, all are started.
    OneForAll,
}

/// The pauses before restarts. The pause doubles with each restart up to a limit, and starts at the
/// first value again if a child has run for longer than that limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackOff {
    /// The pause before the first restart.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Default for BackOff {
    /// From 10 ms up to 10 s.
    fn default() -> Self {
        BackOff { first: Duration::from_millis(10), longest: Duration::from_secs(10) }
    }
}

impl BackOff {
    pub(crate) fn after(self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

/// Runs children and starts them again when they fail.
///
/// | option | default |
/// |---|---|
/// | `restart` | [`Restart::OnFailure`] |
/// | `strategy` | [`Strategy::OneForOne`] |
/// | `back_off` | 10 ms, doubled up to 10 s |
/// | `limit` | 5 restarts within 60 s |
///
/// # Examples
/// ```
/// use std::{sync::atomic::{AtomicU32, Ordering::SeqCst}, time::Duration};
/// use ramie::structured::{BackOff, Supervisor};
///
/// ramie::run(|| {
///     let tries = AtomicU32::new(0);
///     let at_once = BackOff { first: Duration::ZERO, longest: Duration::ZERO };
///     let ended = Supervisor::new().back_off(at_once).run(|children| {
///         children.add("flaky", || match tries.fetch_add(1, SeqCst) {
///             0 | 1 => Err("not yet"),
///             _ => Ok(()),
///         });
///     });
///     assert!(ended.is_ok() && tries.into_inner() == 3);
/// });
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a supervisor does nothing until run is called"]
pub struct Supervisor {
    restart: Restart,
    strategy: Strategy,
    back_off: BackOff,
    restarts: usize,
    within: Duration,
}

impl Default for Supervisor {
    fn default() -> Self {
        Supervisor {
            restart: Restart::default(),
            strategy: Strategy::default(),
            back_off: BackOff::default(),
            restarts: 5,
            within: Duration::from_secs(60),
        }
    }
}

type ChildFn<'env, E> = Box<dyn Fn() -> Result<(), E> + Sync + 'env>;

/// The list to which the closure of [`Supervisor::run`] adds children.
pub struct Supervised<'env, E> {
    children: Vec<Supervisee<'env, E>>,
}

struct Supervisee<'env, E> {
    name: String,
    run: ChildFn<'env, E>,
    added_at: &'static Location<'static>,
}

impl<'env, E> Supervised<'env, E> {
    /// Adds a child. The closure is called once for each start.
    #[track_caller]
    pub fn add(&mut self, name: &str, child: impl Fn() -> Result<(), E> + Sync + 'env) {
        let (name, added_at) = (name.to_owned(), Location::caller());
        self.children.push(Supervisee { name, run: Box::new(child), added_at });
    }
}

impl<E> fmt::Debug for Supervised<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.children.iter().map(|child| &child.name)).finish()
    }
}

/// The error of a supervisor: a child failed more often than the limit allows.
#[derive(Debug)]
pub struct GaveUp<E> {
    child: String,
    last: Last<E>,
    /// The number of restarts, of all children together, and the time within which they happened.
    restarts: usize,
    within: Duration,
}

/// How the last run of a child ended.
#[derive(Debug)]
enum Last<E> {
    Returned,
    Failed(E),
    /// By a panic with this message.
    Panicked(String),
}

impl<E> GaveUp<E> {
    /// Returns the name of the child.
    #[must_use]
    pub fn child(&self) -> &str {
        &self.child
    }

    /// Returns the child's last error; `None` if the child panicked, or if it returned `Ok` under
    /// [`Restart::Always`].
    pub fn error(&self) -> Option<&E> {
        match &self.last {
            Last::Failed(error) => Some(error),
            Last::Returned | Last::Panicked(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the supervisor gave up on '{}'", self.child)?;
        if self.restarts > 0 {
            let s = if self.restarts == 1 { "" } else { "s" };
            write!(f, " after {} restart{s} within {:?}", self.restarts, self.within)?;
        }
        match &self.last {
            Last::Returned => f.write_str(": it returned"),
            Last::Failed(error) => write!(f, ": {error}"),
            Last::Panicked(message) => write!(f, ": it panicked: {message}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for GaveUp<E> {}

/// How a run of a child ended.
enum ChildEnd<E> {
    Cancelled,
    Last(Last<E>),
}

impl Supervisor {
    /// Makes a supervisor with the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets after which ends a child is started again.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// Sets which children are started again when one fails.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the pauses before restarts.
    pub fn back_off(mut self, back_off: BackOff) -> Self {
        self.back_off = back_off;
        self
    }

    /// Sets the largest number of restarts, of all children together, within `within`.
    pub fn limit(mut self, restarts: usize, within: Duration) -> Self {
        self.restarts = restarts;
        self.within = within;
        self
    }

    /// Runs the children that `add` adds, until all have ended and none is to be restarted.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until every child has ended.
    ///
    /// # Cancellation
    /// Not a cancel point itself. Cancelling a scope around it cancels the children, which are then
    /// not restarted.
    ///
    /// # Errors
    /// Children failed, or ended, more often than the limit allows. All other children were
    /// cancelled.
    #[track_caller]
    pub fn run<'env, E, Via>(
        self,
        add: impl FnOnce(&mut Supervised<'env, E>),
    ) -> Result<(), GaveUp<E>>
    where
        E: AsFailure<Via> + Send,
    {
        let mut supervised = Supervised { children: Vec::new() };
        add(&mut supervised);
        let history = Mutex::new(VecDeque::new());
        match self.strategy {
            Strategy::OneForOne => self.run_each(&supervised, &history),
            Strategy::OneForAll => self.run_together(&supervised, &history),
        }
    }

    #[track_caller]
    fn run_each<E, Via>(
        &self,
        supervised: &Supervised<'_, E>,
        history: &Mutex<VecDeque<Instant>>,
    ) -> Result<(), GaveUp<E>>
    where
        E: AsFailure<Via> + Send,
    {
        let outcome = try_scope(|scope: &TryScope<'_, '_, GaveUp<E>>| {
            for child in &supervised.children {
                scope.spawn_at(child.added_at, || self.keep_alive(child, history));
            }
            Ok(())
        });
        outcome.map_err(Failures::into_cause)
    }

    /// Runs one child, and restarts it until it ends for good.
    fn keep_alive<E: AsFailure<Via>, Via>(
        &self,
        child: &Supervisee<'_, E>,
        history: &Mutex<VecDeque<Instant>>,
    ) -> Result<(), GaveUp<E>> {
        let mut failures = 0;
        loop {
            let start = Instant::now();
            let end = run_once(&child.run);
            if start.elapsed() > self.back_off.longest {
                failures = 0;
            }
            failures += 1;
            let Some(last) = self.wants_restart(end) else { return Ok(()) };
            self.allow(&child.name, last, history)?;
            self.pause(failures);
        }
    }

    /// Runs all children, and restarts all when one is to be started again.
    #[track_caller]
    fn run_together<E, Via>(
        &self,
        supervised: &Supervised<'_, E>,
        history: &Mutex<VecDeque<Instant>>,
    ) -> Result<(), GaveUp<E>>
    where
        E: AsFailure<Via> + Send,
    {
        let called_at = Location::caller();
        let mut failures = 0;
        loop {
            let start = Instant::now();
            let ended = Mutex::new(None);
            cancel::scope(|cancel_scope| {
                let handle = cancel_scope.handle();
                fiber::scope_at(called_at, |scope| {
                    for child in &supervised.children {
                        scope.spawn_at(child.added_at, || self.run_as_one(child, &handle, &ended));
                    }
                });
            });
            if start.elapsed() > self.back_off.longest {
                failures = 0;
            }
            failures += 1;
            let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
            let Some((name, last)) = ended else { return Ok(()) };
            self.allow(name, last, history)?;
            self.pause(failures);
        }
    }

    fn run_as_one<'a, E: AsFailure<Via>, Via>(
        &self,
        child: &'a Supervisee<'_, E>,
        others: &CancelHandle,
        ended: &Mutex<Option<(&'a String, Last<E>)>>,
    ) {
        let Some(last) = self.wants_restart(run_once(&child.run)) else { return };
        let mut first = ended.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some((&child.name, last));
        }
        drop(first);
        others.cancel_because("another child is restarted");
    }

    /// Returns how a run ended if the child is to be restarted; otherwise `None`.
    fn wants_restart<E>(&self, end: ChildEnd<E>) -> Option<Last<E>> {
        match (end, self.restart) {
            (ChildEnd::Cancelled, _) => None,
            (ChildEnd::Last(Last::Returned), Restart::OnFailure | Restart::Never) => None,
            (ChildEnd::Last(last), _) => Some(last),
        }
    }

    /// Records a restart; fails if there were too many.
    fn allow<E>(
        &self,
        name: &str,
        last: Last<E>,
        history: &Mutex<VecDeque<Instant>>,
    ) -> Result<(), GaveUp<E>> {
        let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while history.front().is_some_and(|then| now.duration_since(*then) > self.within) {
            history.pop_front();
        }
        let restarts = history.len();
        if self.restart == Restart::Never || restarts >= self.restarts {
            return Err(GaveUp { child: name.to_owned(), last, restarts, within: self.within });
        }
        history.push_back(now);
        Ok(())
    }

    fn pause(&self, failures: u32) {
        let pause = self.back_off.after(failures);
        if !pause.is_zero() {
            fiber::sleep(pause);
        }
    }
}

impl<E> Failure for GaveUp<E> {}

fn run_once<E: AsFailure<Via>, Via>(child: &ChildFn<'_, E>) -> ChildEnd<E> {
    if check_cancelled().is_err() {
        return ChildEnd::Cancelled;
    }
    match catch(child) {
        Ok(Ok(())) => ChildEnd::Last(Last::Returned),
        Ok(Err(error)) if error.tells_of_cancellation() && check_cancelled().is_err() => {
            ChildEnd::Cancelled
        }
        Ok(Err(error)) => ChildEnd::Last(Last::Failed(error)),
        // The panic hook has reported the panic already, so only its message is kept.
        Err(payload) => {
            let message = message(&*payload).unwrap_or("(no message)").to_owned();
            drop_quietly(payload);
            ChildEnd::Last(Last::Panicked(message))
        }
    }
}
