//! Fibers on one worker.

use std::{
    cell::{Cell, OnceCell},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use ::ramie::fiber::{self, Fiber};
use ramie_workloads::{Alive, OnFibers, Ring, Spawn, Workload};

use crate::{
    peers::sample,
    workload::{Sample, resident_bytes},
};

pub fn run(workload: Workload) -> Option<Sample> {
    let runtime = ::ramie::Runtime::builder().workers(1).build().expect("a runtime");
    runtime.run(|| match workload {
        Workload::Ring(Ring { size, hops }) => Some(ring(size as usize, hops)),
        Workload::Spawn(Spawn { count }) => Some(spawn(count.into())),
        Workload::Alive(Alive { count }) => Some(alive(count.into())),
        Workload::Feed(feed) => Some(sample(feed.cost::<OnFibers>())),
        Workload::Switch(switch) => Some(sample(switch.cost::<OnFibers>())),
        _ => workload.task().map(|task| sample(task.cost::<OnFibers>())),
    })
}

/// One slot of the ring: its token, and the fiber that takes it. All on one worker, as the peers'.
#[derive(Default)]
struct Slot {
    token: Cell<u64>,
    owner: OnceCell<Fiber>,
}

impl Slot {
    fn give(&self, token: u64) {
        self.token.set(token);
        self.owner.get().expect("set before the first token").unpark();
    }

    fn take(&self) -> u64 {
        loop {
            match self.token.replace(0) {
                0 => fiber::park(),
                token => return token,
            }
        }
    }
}

/// Tokens count hops from 1. A token beyond the last hop goes once round and ends every fiber.
fn ring(size: usize, hops: u64) -> Sample {
    let start = Instant::now();
    let slots: Vec<Slot> = (0..size).map(|_| Slot::default()).collect();
    let total: u64 = fiber::scope(|s| {
        let slots = &slots;
        let pass_on = move |slot: usize| {
            let (mine, next) = (&slots[slot], &slots[(slot + 1) % size]);
            let mut made = 0;
            loop {
                let token = mine.take();
                if token > hops {
                    next.give(token);
                    return made;
                }
                made += 1;
                next.give(token + 1);
            }
        };
        let fibers: Vec<_> = (0..size).map(|slot| s.spawn_local(move || pass_on(slot))).collect();
        for (slot, fiber) in slots.iter().zip(&fibers) {
            slot.owner.set(fiber.fiber().clone()).expect("set once");
        }
        slots[0].give(1);
        fibers.into_iter().map(|fiber| fiber.join().expect("no panic")).sum()
    });
    assert_eq!(total, hops);
    Sample::timed(start.elapsed())
}

fn spawn(count: u64) -> Sample {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let start = Instant::now();
    let add = || {
        DONE.fetch_add(1, Relaxed);
    };
    let fibers: Vec<_> = (0..count).map(|_| fiber::spawn(add)).collect();
    for fiber in fibers {
        fiber.join().expect("no panic");
    }
    let sample = Sample::timed(start.elapsed());
    assert_eq!(DONE.load(Relaxed), count);
    sample
}

fn alive(count: u64) -> Sample {
    static PARKED: AtomicU64 = AtomicU64::new(0);
    let before = resident_bytes();
    let start = Instant::now();
    let wait = || {
        PARKED.fetch_add(1, Relaxed);
        fiber::park();
    };
    let fibers: Vec<_> = (0..count).map(|_| fiber::spawn(wait)).collect();
    while PARKED.load(Relaxed) < count {
        fiber::yield_now();
    }
    let bytes = resident_bytes() - before;
    fibers.iter().for_each(|fiber| fiber.fiber().unpark());
    for fiber in fibers {
        fiber.join().expect("no panic");
    }
    Sample { bytes, ..Sample::timed(start.elapsed()) }
}
