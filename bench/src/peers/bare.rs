//! corosensei alone, in a plain loop: the limit of its switch.

use std::time::Instant;

use corosensei::{Coroutine, CoroutineResult, stack::DefaultStack};
use ramie_workloads::{Alive, Feed, Person, Switch, Workload};

use crate::workload::{Sample, resident_bytes};

const STACK: usize = 256 * 1024;

pub fn run(workload: Workload) -> Option<Sample> {
    match workload {
        Workload::Switch(Switch { count }) => Some(switch(count.into())),
        Workload::Feed(Feed { people, nutrients, .. }) => Some(feed(people, nutrients)),
        Workload::Alive(Alive { count }) => Some(alive(count.into())),
        _ => None,
    }
}

/// The loop without the mapping of its stacks, which is a large part of a short feed.
pub fn run_loop(workload: Workload) -> Option<Sample> {
    let Workload::Feed(Feed { people, nutrients, .. }) = workload else { return None };
    let mut eaters = eaters(people, nutrients);
    let start = Instant::now();
    feed_all(&mut eaters, nutrients);
    Some(Sample::timed(start.elapsed()))
}

fn stack() -> DefaultStack {
    DefaultStack::new(STACK).expect("a stack")
}

fn switch(count: u64) -> Sample {
    let make = || {
        Coroutine::<(), (), ()>::new(move |yielder, ()| {
            (0..count).for_each(|_| yielder.suspend(()));
        })
    };
    let start = Instant::now();
    let (mut left, mut right) = (make(), make());
    for _ in 0..count {
        left.resume(());
        right.resume(());
    }
    let time = start.elapsed();
    left.resume(());
    right.resume(());
    assert!(left.done() && right.done());
    Sample::timed(time)
}

type Eater = Coroutine<(), (), Person>;

fn eaters(people: u32, nutrients: u32) -> Vec<Eater> {
    let eat = move |yielder: &corosensei::Yielder<(), ()>, ()| {
        let mut person = Person::default();
        for _ in 0..nutrients {
            person.feed();
            yielder.suspend(());
        }
        person
    };
    (0..people).map(|_| Eater::with_stack(stack(), eat)).collect()
}

fn feed_all(eaters: &mut [Eater], nutrients: u32) {
    for _ in 0..nutrients {
        for eater in &mut *eaters {
            eater.resume(());
        }
    }
    for eater in eaters {
        let CoroutineResult::Return(person) = eater.resume(()) else {
            panic!("a person is fed by now");
        };
        assert!(person.is_satisfied(nutrients));
    }
}

fn feed(people: u32, nutrients: u32) -> Sample {
    let start = Instant::now();
    feed_all(&mut eaters(people, nutrients), nutrients);
    Sample::timed(start.elapsed())
}

fn alive(count: u64) -> Sample {
    let before = resident_bytes();
    let start = Instant::now();
    let wait = |yielder: &corosensei::Yielder<(), ()>, ()| yielder.suspend(());
    let mut coroutines: Vec<_> =
        (0..count).map(|_| Coroutine::<(), (), ()>::with_stack(stack(), wait)).collect();
    for coroutine in &mut coroutines {
        coroutine.resume(());
    }
    let bytes = resident_bytes() - before;
    for coroutine in &mut coroutines {
        coroutine.resume(());
    }
    Sample { bytes, ..Sample::timed(start.elapsed()) }
}
