//! `feed` on coroutines, as the program that the workload comes from does it, and in processes.

use std::{cell::OnceCell, rc::Rc};

use ramie_coro::{Builder, Coroutine, Resumed, Yielder};
use ramie_workloads::{Cost, Fed, Feed, OnFibers, Pass, Person, Stopwatch, Workload};
use serde::{Deserialize, Serialize};

use super::{
    Engine,
    processes::{self, Members},
};
use crate::{failure::Failure, runtime};

/// Fails if `--pass` is given without coroutines.
pub(super) fn check_pass(feed: &Feed, on: Engine) -> Result<(), Failure> {
    if feed.pass.is_none() || on == Engine::Coroutines {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--pass does not apply to --on {}, where the scheduler decides who is next; omit it, or \
         use --on coroutines",
        on.name()
    )))
}

/// A coroutine that feeds one person, or, by [`Pass::Next`], one person and all after them.
type Eater = Coroutine<(), (), Fed>;

/// Runs the workload on coroutines and checks its result. Each resume calls `on_resume` with the
/// number of the coroutine.
pub(super) fn cost_on_coroutines(
    feed: &Feed,
    on_resume: impl Fn(u32) + Clone + 'static,
) -> Result<Cost, Failure> {
    let watch = Stopwatch::start();
    let fed = match feed.pass.unwrap_or_default() {
        Pass::Loop => fed_by_a_loop(feed, on_resume),
        Pass::Next => fed_by_each_other(feed, on_resume),
    }?;
    let cost = watch.stop();
    feed.check(fed)?;
    Ok(cost)
}

fn eater(body: impl FnOnce(&Yielder<(), ()>) -> Fed + 'static) -> Result<Eater, Failure> {
    let eater = Builder::new().stack_size(runtime::stack_bytes());
    eater.build(move |yielder, ()| body(yielder)).map_err(|error| {
        Failure::other(format!("cannot create the coroutines ({error}); ask for fewer people"))
    })
}

/// Resumes each in turn until all are done.
fn fed_by_a_loop(feed: &Feed, on_resume: impl Fn(u32)) -> Result<Fed, Failure> {
    let Feed { people, nutrients, .. } = *feed;
    let yield_every = feed.yields_every(true);
    let make = |_| {
        let eater = eater(move |yielder| {
            let person = Person::fed(nutrients, yield_every, || yielder.suspend(()));
            Fed::one(&person, nutrients)
        });
        eater.map(Some)
    };
    let mut eaters = (0..people).map(make).collect::<Result<Vec<_>, Failure>>()?;
    let (mut fed, mut hungry) = (Fed::default(), people);
    while hungry > 0 {
        for (number, place) in (0..).zip(&mut eaters) {
            let Some(eater) = place else { continue };
            on_resume(number);
            let Resumed::Returned(own) = eater.resume(()) else { continue };
            *place = None;
            fed = fed + own;
            hungry -= 1;
        }
    }
    Ok(fed)
}

/// Resumes the first one only: each resumes the next one whenever it yields, so a round goes down
/// to the last one, and back up as each suspends.
fn fed_by_each_other(
    feed: &Feed,
    on_resume: impl Fn(u32) + Clone + 'static,
) -> Result<Fed, Failure> {
    let Feed { people, nutrients, .. } = *feed;
    let yield_every = feed.yields_every(true);
    // Shared, because a coroutine that owned the next one would drop it from its own destructor,
    // as deep as there are people.
    let eaters: Rc<OnceCell<Vec<Eater>>> = Rc::default();
    let make = |number: u32| {
        let (eaters, on_resume) = (Rc::clone(&eaters), on_resume.clone());
        eater(move |yielder| {
            let next = eaters.get().and_then(|eaters| eaters.get(number as usize + 1));
            let resume_next = || {
                next.map(|next| {
                    on_resume(number + 1);
                    next.resume(())
                })
            };
            let person = Person::fed(nutrients, yield_every, || {
                resume_next();
                yielder.suspend(());
            });
            let others = match resume_next() {
                Some(Resumed::Returned(others)) => others,
                _ => Fed::default(),
            };
            Fed::one(&person, nutrients) + others
        })
    };
    // Each coroutine holds the list until it has run to its end, which it does below.
    let all = (0..people).map(make).collect::<Result<Vec<_>, Failure>>()?;
    let first = eaters.get_or_init(|| all).first();
    let Some(first) = first else { return Ok(Fed::default()) };
    loop {
        on_resume(0);
        if let Resumed::Returned(fed) = first.resume(()) {
            return Ok(fed);
        }
    }
}

/// The report of a process about its share.
#[derive(Serialize, Deserialize)]
pub(super) struct Share {
    fed: Fed,
    cpu_s: f64,
}

/// Runs the share of this process, which is a member of the engine `processes`.
pub(super) fn share_on_fibers(feed: &Feed, runtime: &ramie::Runtime) -> Result<Share, Failure> {
    let share = || {
        processes::await_start()?;
        feed.fed::<OnFibers>()
    };
    let (fed, cost) = runtime::run(runtime, share)??;
    Ok(Share { fed, cpu_s: cost.cpu_s })
}

/// Runs the workload in this number of processes, which get these flags, and checks its result.
pub(super) fn cost_in_processes(
    feed: &Feed,
    processes: u32,
    flags: &[&str],
) -> Result<Cost, Failure> {
    let arguments = |number| {
        let share = Workload::Feed(feed.share(number, processes)).arguments();
        let options = ["--on", "fibers", "--member"].iter().chain(flags).map(|&flag| flag.into());
        ["run".to_owned()].into_iter().chain(share).chain(options).collect()
    };
    let members = Members::start(&(0..processes).map(arguments).collect::<Vec<_>>())?;
    let watch = Stopwatch::start();
    let shares: Vec<Share> = members.run()?;
    let cost = watch.stop();
    feed.check(shares.iter().map(|share| share.fed).sum())?;
    // The CPU time of this process is that of waiting.
    let cpu_s = shares.iter().map(|share| share.cpu_s).sum::<f64>() + cost.cpu_s;
    Ok(Cost { cpu_s, ..cost })
}
