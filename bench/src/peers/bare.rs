//! corosensei alone, in a plain loop: the limit of what its switch allows.

use std::time::Instant;

use corosensei::{Coroutine, CoroutineResult, stack::DefaultStack};

use crate::workload::{Person, Sample, Workload, resident_bytes};

const STACK: usize = 256 * 1024;

pub fn run(workload: Workload) -> Option<Sample> {
    match workload {
        Workload::Switch { count } => Some(switch(count)),
        Workload::Feed { people, nutrients } => Some(feed(people, nutrients)),
        Workload::Alive { count } => Some(alive(count)),
        Workload::Ring { .. } | Workload::Spawn { .. } => None,
    }
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

fn feed(people: u64, nutrients: u64) -> Sample {
    let start = Instant::now();
    let eat = move |yielder: &corosensei::Yielder<(), ()>, ()| {
        let mut person = Person::default();
        for _ in 0..nutrients {
            person.feed();
            yielder.suspend(());
        }
        person
    };
    let mut coroutines: Vec<_> =
        (0..people).map(|_| Coroutine::<(), (), Person>::with_stack(stack(), eat)).collect();
    for _ in 0..nutrients {
        for coroutine in &mut coroutines {
            coroutine.resume(());
        }
    }
    for coroutine in &mut coroutines {
        let CoroutineResult::Return(person) = coroutine.resume(()) else {
            panic!("a person is fed by now");
        };
        person.check(nutrients);
    }
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
    Sample { time: start.elapsed(), bytes }
}
