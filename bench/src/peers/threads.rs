//! OS threads.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, Thread},
    time::Instant,
};

use crate::workload::{Person, Sample, Workload};

pub fn run(workload: Workload) -> Option<Sample> {
    match workload {
        Workload::Feed { people, nutrients } => Some(feed(people, nutrients)),
        Workload::Ring { size, hops } => Some(ring(size, hops)),
        Workload::Spawn { count } => Some(spawn(count)),
        _ => None,
    }
}

/// Threads do not yield after each nutrient, because the kernel shares out the time.
fn feed(people: u64, nutrients: u64) -> Sample {
    let start = Instant::now();
    let eat = move || {
        let mut person = Person::default();
        (0..nutrients).for_each(|_| person.feed());
        person
    };
    let threads: Vec<_> = (0..people).map(|_| thread::spawn(eat)).collect();
    for thread in threads {
        thread.join().expect("no panic").check(nutrients);
    }
    Sample::timed(start.elapsed())
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

fn spawn(count: u64) -> Sample {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let start = Instant::now();
    let add = || {
        DONE.fetch_add(1, Relaxed);
    };
    let threads: Vec<_> = (0..count).map(|_| thread::spawn(add)).collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let time = start.elapsed();
    assert_eq!(DONE.load(Relaxed), count);
    Sample::timed(time)
}
