//! smol on one thread: a `LocalExecutor`, so that tasks need not be `Send`.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Poll, Waker},
    time::Instant,
};

use ::smol::{LocalExecutor, Task, channel, future::yield_now};
use ramie_workloads::{Alive, Feed, Person, Ring, Spawn, Switch, Workload};

use crate::workload::{Sample, resident_bytes};

pub fn run(workload: Workload) -> Option<Sample> {
    let executor = LocalExecutor::new();
    ::smol::block_on(executor.run(measure(&executor, workload)))
}

async fn measure(executor: &LocalExecutor<'static>, workload: Workload) -> Option<Sample> {
    Some(match workload {
        Workload::Switch(Switch { count }) => switch(executor, count.into()).await,
        Workload::Feed(Feed { people, nutrients, .. }) => feed(executor, people, nutrients).await,
        Workload::Ring(Ring { size, hops, .. }) => ring(executor, size as usize, hops).await,
        Workload::Spawn(Spawn { count }) => spawn(executor, count.into()).await,
        Workload::Alive(Alive { count }) => alive(executor, count.into()).await,
        _ => return None,
    })
}

async fn switch(executor: &LocalExecutor<'static>, count: u64) -> Sample {
    let start = Instant::now();
    let yields = || async move {
        for _ in 0..count {
            yield_now().await;
        }
    };
    let (left, right) = (executor.spawn(yields()), executor.spawn(yields()));
    left.await;
    right.await;
    Sample::timed(start.elapsed())
}

async fn feed(executor: &LocalExecutor<'static>, people: u32, nutrients: u32) -> Sample {
    let start = Instant::now();
    let eat = || async move {
        let mut person = Person::default();
        for _ in 0..nutrients {
            person.feed();
            yield_now().await;
        }
        person
    };
    let tasks: Vec<_> = (0..people).map(|_| executor.spawn(eat())).collect();
    for task in tasks {
        assert!(task.await.is_satisfied(nutrients));
    }
    Sample::timed(start.elapsed())
}

/// Tokens go through smol's ordinary channel.
async fn ring(executor: &LocalExecutor<'static>, size: usize, hops: u64) -> Sample {
    let start = Instant::now();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..size).map(|_| channel::bounded(1)).unzip();
    let pass_on = |next: channel::Sender<u64>, inbox: channel::Receiver<u64>| async move {
        let mut made = 0;
        while let Ok(token) = inbox.recv().await {
            let is_last = token > hops;
            // The first task to end has left when the last token comes round.
            let _ = next.send(if is_last { token } else { token + 1 }).await;
            if is_last {
                break;
            }
            made += 1;
        }
        made
    };
    let nexts = senders.iter().cycle().skip(1).cloned();
    let ends = receivers.into_iter().zip(nexts);
    let tasks: Vec<Task<u64>> =
        ends.map(|(inbox, next)| executor.spawn(pass_on(next, inbox))).collect();
    senders[0].send(1).await.expect("the first task waits");
    drop(senders);
    let mut total = 0;
    for task in tasks {
        total += task.await;
    }
    assert_eq!(total, hops);
    Sample::timed(start.elapsed())
}

async fn spawn(executor: &LocalExecutor<'static>, count: u64) -> Sample {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let start = Instant::now();
    let add = || async {
        DONE.fetch_add(1, Relaxed);
    };
    let tasks: Vec<_> = (0..count).map(|_| executor.spawn(add())).collect();
    for task in tasks {
        task.await;
    }
    let sample = Sample::timed(start.elapsed());
    assert_eq!(DONE.load(Relaxed), count);
    sample
}

async fn alive(executor: &LocalExecutor<'static>, count: u64) -> Sample {
    let before = resident_bytes();
    let start = Instant::now();
    let parked = Rc::new(Cell::new(0));
    let event: Rc<RefCell<Option<Vec<Waker>>>> = Rc::new(RefCell::new(Some(Vec::new())));
    let wait = |parked: Rc<Cell<u64>>, event: Rc<RefCell<Option<Vec<Waker>>>>| async move {
        parked.set(parked.get() + 1);
        poll_fn(|context| match event.borrow_mut().as_mut() {
            Some(wakers) => {
                wakers.push(context.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
    };
    let tasks: Vec<_> =
        (0..count).map(|_| executor.spawn(wait(Rc::clone(&parked), Rc::clone(&event)))).collect();
    while parked.get() < count {
        yield_now().await;
    }
    let bytes = resident_bytes() - before;
    let wakers = event.borrow_mut().take().unwrap_or_default();
    wakers.into_iter().for_each(Waker::wake);
    for task in tasks {
        task.await;
    }
    Sample { bytes, ..Sample::timed(start.elapsed()) }
}
