//! OS threads.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, Thread},
    time::Instant,
};

use ramie_workloads::{OnThreads, Ring, Workload};

use crate::{peers::sample, workload::Sample};

pub fn run(workload: Workload) -> Option<Sample> {
    match workload {
        Workload::Ring(Ring { size, hops }) => Some(ring(size as usize, hops)),
        Workload::Feed(feed) => Some(sample(feed.cost::<OnThreads>())),
        Workload::Spawn(spawn) => Some(sample(spawn.cost::<OnThreads>())),
        _ => None,
    }
}

#[derive(Default)]
struct Slot {
    token: AtomicU64,
    owner: OnceLock<Thread>,
}

impl Slot {
    fn give(&self, token: u64) {
        self.token.store(token, Relaxed);
        self.owner.get().expect("set before the first token").unpark();
    }

    fn take(&self) -> u64 {
        loop {
            match self.token.swap(0, Relaxed) {
                0 => thread::park(),
                token => return token,
            }
        }
    }
}

fn ring(size: usize, hops: u64) -> Sample {
    let start = Instant::now();
    let slots: Vec<Slot> = (0..size).map(|_| Slot::default()).collect();
    let total: u64 = thread::scope(|s| {
        let slots = &slots;
        let pass_on = move |slot: usize| {
            let next = &slots[(slot + 1) % size];
            let mut made = 0;
            loop {
                let token = slots[slot].take();
                if token > hops {
                    next.give(token);
                    return made;
                }
                made += 1;
                next.give(token + 1);
            }
        };
        let threads: Vec<_> = (0..size).map(|slot| s.spawn(move || pass_on(slot))).collect();
        for (slot, thread) in slots.iter().zip(&threads) {
            slot.owner.set(thread.thread().clone()).expect("set once");
        }
        slots[0].give(1);
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(total, hops);
    Sample::timed(start.elapsed())
}
