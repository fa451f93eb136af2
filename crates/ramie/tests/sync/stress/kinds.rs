//! Runs strands on each kind of strand, and notes their calls.

use std::{
    env,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use ramie::{
    Runtime, Strands,
    cancel::{self, CancelHandle},
    fiber,
    time::ManualClock,
};

use super::{
    common::{self, Limit, Random, one_worker, with_workers},
    model::{Model, Noted, assert_explained},
};

/// The role of one strand.
pub(crate) type Role<C> = Box<dyn FnOnce(&mut Actor<C>) + Send>;

/// A strand that notes its calls.
pub(crate) struct Actor<C> {
    pub(crate) number: usize,
    pub(crate) random: Random,
    clock: Arc<AtomicU64>,
    calls: Vec<Noted<C>>,
}

impl<C> Actor<C> {
    /// Makes a call and notes the result of `call`.
    pub(crate) fn call(&mut self, call: impl FnOnce() -> C) {
        let began = self.clock.fetch_add(1, Ordering::SeqCst);
        let call = call();
        let ended = self.clock.fetch_add(1, Ordering::SeqCst);
        self.calls.push(Noted { strand: self.number, call, began, ended });
    }

    /// Returns the number of noted calls.
    pub(crate) fn count(&self) -> usize {
        self.calls.len()
    }

    /// Takes back the note of the last call, if it is empty.
    pub(crate) fn forget_if(&mut self, says_nothing: impl FnOnce(&mut C) -> bool) {
        let _ = self.calls.pop_if(|noted| says_nothing(&mut noted.call));
    }

    /// Lets others run, sometimes.
    pub(crate) fn pause(&mut self) {
        if self.random.below(2) == 0
            && let Some(scope) = open_scopes().pop()
        {
            scope.cancel();
        }
        (0..self.random.below(3)).for_each(|_| fiber::yield_now());
    }

    /// A time that is over about when others have made a call.
    pub(crate) fn moment(&mut self) -> Duration {
        Duration::from_micros(self.random.below(40))
    }
}

/// Scopes that any strand may cancel.
fn open_scopes() -> MutexGuard<'static, Vec<CancelHandle>> {
    static SCOPES: Mutex<Vec<CancelHandle>> = Mutex::new(Vec::new());
    SCOPES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `f` in a scope that another strand cancels, perhaps.
pub(crate) fn cancellable<T>(f: impl FnOnce() -> T) -> T {
    cancel::scope(|scope| {
        open_scopes().push(scope.handle());
        f()
    })
}

/// Roles that play together, a given number of times: on fibers of one worker and of two and on
/// threads, with each driver; on fibers with a clock of their own; on two runtimes and a thread.
pub(crate) fn on_each_kind(
    what: &str,
    rounds: usize,
    play: impl Fn(&mut Random, &dyn Fn(Vec<Play>)),
) {
    let rounds = rounds * env::var("ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut random = Random::new(what);
    // A wake-up that was lost.
    let _limit = Limit::new(format!("{what}, with the SEED printed above"));
    for driver in common::drivers() {
        for (strands, workers) in
            [(Strands::Fibers, 1), (Strands::Fibers, 2), (Strands::Threads, 1)]
        {
            let builder = Runtime::builder().driver(driver).strands(strands).workers(workers);
            let runtime = builder.build().unwrap();
            runtime.run(|| (0..rounds).for_each(|_| play(&mut random, &spawn)));
        }
    }
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    let tick = |plays| spawn_and_tick(plays, &clock);
    runtime.run(|| (0..rounds).for_each(|_| play(&mut random, &tick)));
    (0..rounds.div_ceil(8)).for_each(|_| play(&mut random, &mix));
}

/// One strand's part of a play.
pub(crate) type Play = Box<dyn FnOnce() + Send>;

fn spawn(plays: Vec<Play>) {
    fiber::scope(|s| plays.into_iter().for_each(|play| drop(s.spawn(play))));
}

/// Time passes with the switches: waits are over in the same moment in which others end them.
fn spawn_and_tick(plays: Vec<Play>, clock: &ManualClock) {
    fiber::scope(|s| {
        let handles: Vec<_> = plays.into_iter().map(|play| s.spawn(play)).collect();
        while handles.iter().any(|handle| !handle.is_finished()) {
            clock.advance(Duration::from_micros(1));
            fiber::yield_now();
        }
    });
}

/// One on a thread, one on a runtime of its own, the rest on two workers.
fn mix(mut plays: Vec<Play>) {
    std::thread::scope(|s| {
        let (third, second) = (plays.split_off(2), plays.split_off(1));
        s.spawn(move || one_worker().run(|| spawn(second)));
        s.spawn(move || with_workers(2).run(|| spawn(third)));
        plays.into_iter().for_each(|play| drop(s.spawn(play)));
    });
}

/// Lets the roles that `make` gives play together, and compares their answers with the model's.
pub(crate) fn against_model<M: Model>(
    what: &str,
    rounds: usize,
    make: impl Fn(&mut Random) -> (M, Vec<Role<M::Call>>),
) {
    on_each_kind(what, rounds, |random, run| {
        let (initial, roles) = make(random);
        let clock = Arc::new(AtomicU64::new(0));
        let (notes, noted) = mpsc::channel();
        let play = |(number, role): (usize, Role<M::Call>)| -> Play {
            let (clock, notes) = (Arc::clone(&clock), notes.clone());
            let random = Random::from_seed(random.below(u64::MAX));
            Box::new(move || {
                let mut actor = Actor { number, random, clock, calls: Vec::new() };
                role(&mut actor);
                notes.send(actor.calls).unwrap();
            })
        };
        let plays = roles.into_iter().enumerate().map(play).collect();
        run(plays);
        drop(notes);
        let mut calls: Vec<_> = noted.into_iter().flatten().collect();
        assert_explained(&initial, &mut calls);
    });
}
