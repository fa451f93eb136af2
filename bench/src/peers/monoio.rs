//! monoio on its io_uring driver.
//!
//! monoio has no yield, so this makes one, which wakes itself. A task that does so goes to the
//! front of monoio's queue, so `switch` and `feed` are no round-robin: the same task runs again.
//! The main future must never yield this way, because it would be polled forever, and no task
//! would run.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Poll, Waker},
    time::Instant,
};

use ramie_workloads::{Alive, Feed, Person, Ring, Spawn, Switch, Workload};

use crate::{
    rings,
    workload::{Sample, resident_bytes},
};

pub fn run(workload: Workload) -> Option<Sample> {
    rings::monoio().expect("a runtime on io_uring").block_on(measure(workload))
}

async fn measure(workload: Workload) -> Option<Sample> {
    Some(match workload {
        Workload::Switch(Switch { count }) => switch(count.into()).await,
        Workload::Feed(Feed { people, nutrients, .. }) => feed(people, nutrients).await,
        Workload::Ring(Ring { size, hops, .. }) => ring(size as usize, hops).await,
        Workload::Spawn(Spawn { count }) => spawn(count.into()).await,
        Workload::Alive(Alive { count }) => alive(count.into()).await,
        _ => return None,
    })
}

async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn switch(count: u64) -> Sample {
    let start = Instant::now();
    let yields = || async move {
        for _ in 0..count {
            yield_now().await;
        }
    };
    let (left, right) = (::monoio::spawn(yields()), ::monoio::spawn(yields()));
    left.await;
    right.await;
    Sample::timed(start.elapsed())
}

async fn feed(people: u32, nutrients: u32) -> Sample {
    let start = Instant::now();
    let eat = || async move {
        let mut person = Person::default();
        for _ in 0..nutrients {
            person.feed();
            yield_now().await;
        }
        person
    };
    let tasks: Vec<_> = (0..people).map(|_| ::monoio::spawn(eat())).collect();
    for task in tasks {
        assert!(task.await.is_satisfied(nutrients));
    }
    Sample::timed(start.elapsed())
}

/// One slot of the ring, as small as possible: a token and the waker of the task that takes it.
#[derive(Default)]
struct Slot {
    token: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

impl Slot {
    fn give(&self, token: u64) {
        self.token.set(token);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    async fn take(&self) -> u64 {
        poll_fn(|context| match self.token.replace(0) {
            0 => {
                *self.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
            token => Poll::Ready(token),
        })
        .await
    }
}

async fn ring(size: usize, hops: u64) -> Sample {
    let start = Instant::now();
    let slots: Rc<Vec<Slot>> = Rc::new((0..size).map(|_| Slot::default()).collect());
    let pass_on = |slots: Rc<Vec<Slot>>, slot: usize| async move {
        let next = &slots[(slot + 1) % size];
        let mut made = 0;
        loop {
            let token = slots[slot].take().await;
            if token > hops {
                next.give(token);
                return made;
            }
            made += 1;
            next.give(token + 1);
        }
    };
    let tasks: Vec<_> =
        (0..size).map(|slot| ::monoio::spawn(pass_on(Rc::clone(&slots), slot))).collect();
    slots[0].give(1);
    let mut total = 0_u64;
    for task in tasks {
        total += task.await;
    }
    assert_eq!(total, hops);
    Sample::timed(start.elapsed())
}

async fn spawn(count: u64) -> Sample {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let start = Instant::now();
    let add = || async {
        DONE.fetch_add(1, Relaxed);
    };
    let tasks: Vec<_> = (0..count).map(|_| ::monoio::spawn(add())).collect();
    for task in tasks {
        task.await;
    }
    let sample = Sample::timed(start.elapsed());
    assert_eq!(DONE.load(Relaxed), count);
    sample
}

/// The data that the tasks of `alive` share.
struct Crowd {
    missing: Cell<u64>,
    all_parked: RefCell<Option<Waker>>,
    wakers: RefCell<Option<Vec<Waker>>>,
}

impl Crowd {
    /// Waits for the event; the last task to arrive wakes the main future.
    async fn wait(&self) {
        self.missing.set(self.missing.get() - 1);
        if self.missing.get() == 0
            && let Some(main) = self.all_parked.borrow_mut().take()
        {
            main.wake();
        }
        poll_fn(|context| match self.wakers.borrow_mut().as_mut() {
            Some(wakers) => {
                wakers.push(context.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
    }

    async fn until_all_wait(&self) {
        poll_fn(|context| {
            *self.all_parked.borrow_mut() = Some(context.waker().clone());
            if self.missing.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

async fn alive(count: u64) -> Sample {
    let before = resident_bytes();
    let start = Instant::now();
    let crowd = Rc::new(Crowd {
        missing: Cell::new(count),
        all_parked: RefCell::new(None),
        wakers: RefCell::new(Some(Vec::new())),
    });
    let wait = |crowd: Rc<Crowd>| async move { crowd.wait().await };
    let tasks: Vec<_> = (0..count).map(|_| ::monoio::spawn(wait(Rc::clone(&crowd)))).collect();
    crowd.until_all_wait().await;
    let bytes = resident_bytes() - before;
    let wakers = crowd.wakers.borrow_mut().take().unwrap_or_default();
    wakers.into_iter().for_each(Waker::wake);
    for task in tasks {
        task.await;
    }
    Sample { bytes, ..Sample::timed(start.elapsed()) }
}
