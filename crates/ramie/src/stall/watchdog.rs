//! The watchdog of a runtime: the thread that looks at the workers.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use ramie_driver::{
    logging, say,
    sys::{self, RuntimeThread, monotonic_ns, thread_id},
};

use super::{
    Reaction, Stall, StallCause,
    examine::{Examination, examine, frames_of},
    places::Places,
    suspicion::{Look, Now, Suspicion, Times},
    thread_state::usage,
};
use crate::{
    core::{
        primitive::{AtomicBool, Ordering},
        trace::{self, Trouble},
        worker::{RunningFiber, StackCopy, Turn, WatchdogRest, Worker, WorkerView},
    },
    deadlock::{Activity, Deadlock, DeadlockSearch},
    inspect,
    unwind::Backtrace,
};

/// The looks in each limit. A stall that begins after a look is suspected two looks later, and
/// reported at the latest another limit and a look later: within twice the limit.
const LOOKS: u32 = 4;
/// The least time between two looks.
const LEAST_TICK: Duration = Duration::from_millis(1);
/// The thread's stack; a function of the program may run there ([`Reaction::Call`]).
const STACK: usize = 256 * 1024;

/// The time between two looks if stalls are not reported.
const TICK_WITHOUT_LIMIT: Duration = Duration::from_millis(10);

/// The options of a watchdog.
#[derive(Clone)]
pub(crate) struct Settings {
    /// None: stalls are not reported.
    pub(crate) limit: Option<Duration>,
    pub(crate) on_stall: Reaction<Stall>,
    pub(crate) on_deadlock: Reaction<Deadlock>,
    /// The name of the test that the runtime runs; a deadlock ends its process.
    pub(crate) test: Option<&'static str>,
}

impl Settings {
    fn searches_deadlocks(&self) -> bool {
        !matches!(self.on_deadlock, Reaction::Ignore)
    }

    fn tick(&self) -> Duration {
        self.limit.map_or(TICK_WITHOUT_LIMIT, |limit| (limit / LOOKS).max(LEAST_TICK))
    }
}

/// The thread of a watchdog, which ends when this is dropped.
pub(crate) struct Watchdog {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// What a worker needs in order to be watched.
#[derive(Clone, Default)]
pub(crate) struct Watching(Option<Arc<State>>);

struct State {
    settings: Settings,
    rest: Arc<WatchdogRest>,
    entries: Mutex<Vec<WatchedWorker>>,
    is_over: AtomicBool,
}

/// A worker that is watched.
struct WatchedWorker {
    index: usize,
    thread: i32,
    view: WorkerView,
    suspicion: Suspicion,
    /// The fiber whose stall was reported last.
    reported: String,
}

/// Something to report.
enum Finding {
    /// A stall, with the frames of its fiber, which are walked when no worker waits for this.
    Stall(Stall, Option<StackCopy>),
    End(String),
    Deadlock(Deadlock),
}

impl Watchdog {
    /// Starts a watchdog, if it has something to report. Without memory for its thread there is
    /// none.
    pub(crate) fn start(settings: Settings) -> Option<Watchdog> {
        if settings.limit.is_none() && !settings.searches_deadlocks() {
            return None;
        }
        let state = Arc::new(State {
            settings,
            rest: Arc::default(),
            entries: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&state);
        let builder = thread::Builder::new().name("ramie-watchdog".to_owned()).stack_size(STACK);
        match builder.spawn(move || theirs.run()) {
            Ok(thread) => Some(Watchdog { state, thread: Some(thread) }),
            Err(error) => {
                say!(
                    Debug,
                    "stalls and deadlocks are not reported, because there is no thread for it: \
                     {error}"
                );
                None
            }
        }
    }

    pub(crate) fn watching(watchdog: Option<&Watchdog>) -> Watching {
        Watching(watchdog.map(|watchdog| Arc::clone(&watchdog.state)))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        // It has no panics of its own, and catches those of the program.
        let _ = thread.join();
    }
}

impl Watching {
    /// Lets a worker wake the watchdog, before it runs anything.
    pub(crate) fn introduce(&self, worker: &mut Worker) {
        if let Some(state) = &self.0 {
            worker.watched.set_watchdog(Arc::clone(&state.rest));
        }
    }

    /// Runs `f`, the loop of this thread's worker, while the watchdog looks at it.
    #[allow(unsafe_code)]
    pub(crate) fn while_watched(&self, worker: &Worker, f: impl FnOnce()) {
        // SAFETY: the value is dropped before this returns.
        let watched = unsafe { self.watch(worker) };
        f();
        drop(watched);
    }

    /// Lets the watchdog look at this thread's worker until the value is dropped; none without a
    /// watchdog.
    ///
    /// # Safety
    /// The worker does not move, and outlives the value. If that is forgotten, the worker is, too.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn watch(&self, worker: &Worker) -> Option<WatchedLoop> {
        let (state, member) = (self.0.as_ref()?, worker.membership.as_ref()?);
        // SAFETY: the caller's promise; the entry with the view is removed when the value is
        // dropped.
        let view = unsafe { WorkerView::new(worker) }?;
        state.entries().push(WatchedWorker {
            index: member.index,
            thread: thread_id(),
            view,
            suspicion: Suspicion::default(),
            reported: String::new(),
        });
        state.rest.wake();
        Some(WatchedLoop { state: Arc::clone(state), index: member.index })
    }
}

/// A worker at which the watchdog looks, until this is dropped.
pub(crate) struct WatchedLoop {
    state: Arc<State>,
    index: usize,
}

impl Drop for WatchedLoop {
    fn drop(&mut self) {
        self.state.entries().retain(|entry| entry.index != self.index);
    }
}

impl State {
    fn entries(&self) -> MutexGuard<'_, Vec<WatchedWorker>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        sys::block_signals();
        let _mark = RuntimeThread::enter();
        self.rest.set_thread();
        let tick = self.settings.tick();
        let mut places = Places::default();
        let mut last = now();
        let mut search = self
            .settings
            .searches_deadlocks()
            .then(|| DeadlockSearch::new(last, self.settings.test.is_some()));
        while !self.is_over() {
            let now = now();
            // The process was stopped, the machine suspended, or this thread had no CPU.
            let is_late = now.saturating_sub(last) > tick * 5 / 2;
            last = now;
            for finding in self.look(now, is_late, &mut places) {
                self.react(finding);
            }
            let found = search.as_mut().map(|search| self.search(now, search));
            for mut deadlock in found.unwrap_or_default() {
                deadlock.add_stacks(|| self.is_over());
                self.react(Finding::Deadlock(deadlock));
            }
            self.sleep(tick, search.as_ref().and_then(|search| search.rest(now)));
        }
    }

    /// Sleeps until the next look, or for `longest` while all workers sleep.
    fn sleep(&self, tick: Duration, longest: Option<Duration>) {
        // A function of the program that waited on this thread may have taken the wake-up at the
        // end of the runtime.
        let are_asleep = || self.entries().iter().all(|entry| entry.view.is_asleep());
        let may_rest = || !self.is_over() && are_asleep();
        if longest.is_none_or(|longest| longest > tick) && may_rest() {
            self.rest.rest_if(may_rest, longest);
        }
        // Also after a rest: otherwise a worker that wakes up for moments would end a rest, with a
        // system call, each time.
        if !self.is_over() {
            thread::park_timeout(tick);
        }
    }

    fn search(&self, now: Now, search: &mut DeadlockSearch) -> Vec<Deadlock> {
        let activity = {
            let entries = self.entries();
            let turns = || entries.iter().map(|entry| entry.view.turn());
            Activity {
                is_idle: !entries.is_empty() && !turns().any(Turn::runs_fibers),
                rounds: turns().fold(0, |sum, turn| sum.wrapping_add(turn.rounds.into())),
            }
        };
        // Without the lock, because a worker that ends takes it.
        search.look(now, activity, || self.entries().iter().map(|entry| entry.thread).collect())
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn look(&self, now: Now, is_late: bool, places: &mut Places) -> Vec<Finding> {
        let Some(limit) = self.settings.limit else { return Vec::new() };
        self.entries()
            .iter_mut()
            .filter_map(|entry| {
                if is_late {
                    entry.suspicion.forget();
                }
                entry.look(now, limit, places)
            })
            .collect()
    }

    fn react(&self, finding: Finding) {
        match (finding, &self.settings.on_stall) {
            (Finding::Deadlock(deadlock), _) => match self.settings.test {
                Some(test) => {
                    trace::report_and_wait(Trouble::Deadlock, trace::BEFORE_ABORT);
                    sys::fatal(&format!(
                        "{deadlock}\nAborting, because the test {test} can never end."
                    ))
                }
                None => react(&self.settings.on_deadlock, &deadlock),
            },
            (Finding::Stall(mut stall, frames), reaction) => {
                stall.calls = frames.as_ref().and_then(Backtrace::of);
                react(reaction, &stall);
            }
            (Finding::End(line), Reaction::Report | Reaction::Abort) => print(&line),
            (Finding::End(_), Reaction::Ignore | Reaction::Call(_)) => {}
        }
    }
}

/// A finding with a report.
trait Reported: fmt::Display {
    /// The same for the flight recorder.
    const TROUBLE: Trouble;

    /// The report without the calls of strands.
    fn head(&self) -> String;
    /// The strands whose calls are known.
    fn calls(&self) -> Vec<(String, Backtrace)>;
}

impl Reported for Stall {
    const TROUBLE: Trouble = Trouble::Stall;

    fn head(&self) -> String {
        self.without_calls().to_string()
    }

    fn calls(&self) -> Vec<(String, Backtrace)> {
        let calls = self.backtrace().map(|calls| (self.fiber().to_owned(), calls.clone()));
        calls.into_iter().collect()
    }
}

impl Reported for Deadlock {
    const TROUBLE: Trouble = Trouble::Deadlock;

    fn head(&self) -> String {
        self.without_calls().to_string()
    }

    fn calls(&self) -> Vec<(String, Backtrace)> {
        Deadlock::calls(self)
    }
}

fn react<T: Reported>(reaction: &Reaction<T>, found: &T) {
    match reaction {
        Reaction::Ignore => {}
        Reaction::Abort => trace::report_and_wait(T::TROUBLE, trace::BEFORE_ABORT),
        Reaction::Report | Reaction::Call(_) => trace::report(T::TROUBLE),
    }
    match reaction {
        Reaction::Ignore => {}
        Reaction::Call(f) => drop(crate::core::panic::call_quietly(|| f(found))),
        Reaction::Report => {
            print(&found.head());
            print_calls(found.calls());
        }
        Reaction::Abort => sys::fatal(&format!(
            "{found}\nAborting, because the runtime was built with Reaction::Abort."
        )),
    }
}

/// Prints calls on a thread of their own, because the first look-up of symbols may take longer than
/// the time between many looks at the workers.
fn print_calls(calls: Vec<(String, Backtrace)>) {
    if calls.is_empty() {
        return;
    }
    let print_all = move || {
        let _mark = RuntimeThread::enter();
        sys::block_signals();
        for (strand, calls) in calls {
            print(&format!("of the report above, {strand}: {}", calls.listed("")));
        }
    };
    let builder = thread::Builder::new().name("ramie-symbols".to_owned()).stack_size(STACK);
    // Without memory for a thread the report has no calls.
    drop(builder.spawn(print_all));
}

fn now() -> Now {
    Duration::from_nanos(monotonic_ns())
}

/// Writes to stderr at once; `run` waits for this thread, so not if a pipe is full that nobody
/// reads. The program's logger gets the line from a worker, because the stalled fiber may hold a
/// lock of the logger.
fn print(text: &str) {
    logging::print_unless_full(format_args!("ramie: {text}"));
    logging::later(logging::Level::Warn, module_path!(), text.to_owned());
}

impl WatchedWorker {
    fn look(&mut self, now: Now, limit: Duration, places: &mut Places) -> Option<Finding> {
        let turn = self.view.turn();
        let thread = self.thread;
        match self.suspicion.look(now, turn, limit, || usage(thread)) {
            Look::Nothing => None,
            Look::Ended(total) => {
                let (fiber, worker) = (mem::take(&mut self.reported), self.index);
                inspect::note_end_of_stall(&fiber, worker, total);
                let ms = total.as_millis();
                Some(Finding::End(format!(
                    "stall: {fiber} has ended its run on worker {worker} after about {ms} ms"
                )))
            }
            Look::Stall(times) => match examine(&self.view, thread, turn, &times, limit) {
                Examination::Nothing => None,
                Examination::Stopped => {
                    self.suspicion.forget();
                    None
                }
                Examination::Stall(fiber, cause, doing) => {
                    let computes = matches!(cause, StallCause::Computing(_));
                    if computes && self.suspicion.is_known_to_compute() {
                        return None;
                    }
                    let unreported = places.admit(now, &fiber, &cause);
                    match cause {
                        StallCause::PanicHook(_) => self.suspicion.note_hook(unreported.is_some()),
                        _ => self.suspicion.note_known(computes, unreported.is_some()),
                    }
                    let unreported = unreported?;
                    self.reported.clone_from(&fiber.label);
                    let frames = frames_of(&self.view, thread, turn, &times, &fiber, doing);
                    let stall = self.stall(fiber, cause, &times, unreported);
                    inspect::note_stall(stall.record());
                    Some(Finding::Stall(stall, frames))
                }
            },
        }
    }

    fn stall(
        &self,
        fiber: RunningFiber,
        cause: StallCause,
        times: &Times,
        unreported: u32,
    ) -> Stall {
        let RunningFiber { label, closure, is_in_no_switch, is_in_panic_hook, .. } = fiber;
        Stall {
            fiber: label,
            closure,
            worker: self.index,
            is_in_no_switch,
            is_in_panic_hook,
            duration: times.total,
            cause,
            calls: None,
            unreported,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a runtime without workers, so nothing keeps the watchdog from resting.
    fn state() -> State {
        let settings = Settings {
            limit: None,
            on_stall: Reaction::Ignore,
            on_deadlock: Reaction::Ignore,
            test: None,
        };
        let (rest, entries) = (Arc::default(), Mutex::default());
        State { settings, rest, entries, is_over: AtomicBool::new(false) }
    }

    /// Otherwise each moment in which a worker is awake would be a wake-up of the watchdog.
    #[test]
    fn the_time_between_two_looks_passes_also_after_a_rest() {
        let [tick, longest] = [200, 201].map(Duration::from_millis);
        let start = now();
        state().sleep(tick, Some(longest));
        assert!(now() - start >= tick + longest);
    }
}
