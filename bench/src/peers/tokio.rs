//! tokio on one thread: `LocalRuntime`, so that tasks need not be `Send` and pay for no `LocalSet`.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Poll, Waker},
    time::Instant,
};

use ::tokio::{
    runtime::LocalOptions,
    sync::mpsc,
    task::{spawn_local, yield_now},
};
use ramie_workloads::{Alive, Feed, Person, Ring, Spawn, Switch, Workload};

use crate::workload::{Sample, resident_bytes};

pub fn run(workload: Workload) -> Option<Sample> {
    ::tokio::runtime::Builder::new_current_thread()
        .build_local(LocalOptions::default())
        .expect("a runtime")
        .block_on(measure(workload))
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

async fn switch(count: u64) -> Sample {
    let start = Instant::now();
    let yields = || async move {
        for _ in 0..count {
            yield_now().await;
        }
    };
    let (left, right) = (spawn_local(yields()), spawn_local(yields()));
    left.await.expect("no panic");
    right.await.expect("no panic");
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
    let tasks: Vec<_> = (0..people).map(|_| spawn_local(eat())).collect();
    for task in tasks {
        assert!(task.await.expect("no panic").is_satisfied(nutrients));
    }
    Sample::timed(start.elapsed())
}

/// Tokens go through tokio's ordinary channel, as ramie's go through park and unpark.
async fn ring(size: usize, hops: u64) -> Sample {
    let start = Instant::now();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..size).map(|_| mpsc::channel(1)).unzip();
    let pass_on = |next: mpsc::Sender<u64>, mut inbox: mpsc::Receiver<u64>| async move {
        let mut made = 0;
        while let Some(token) = inbox.recv().await {
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
    let tasks: Vec<_> = receivers
        .into_iter()
        .zip(nexts)
        .map(|(inbox, next)| spawn_local(pass_on(next, inbox)))
        .collect();
    senders[0].send(1).await.expect("the first task waits");
    drop(senders);
    let mut total = 0_u64;
    for task in tasks {
        total += task.await.expect("no panic");
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
    let tasks: Vec<_> = (0..count).map(|_| spawn_local(add())).collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let sample = Sample::timed(start.elapsed());
    assert_eq!(DONE.load(Relaxed), count);
    sample
}

async fn alive(count: u64) -> Sample {
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
        (0..count).map(|_| spawn_local(wait(Rc::clone(&parked), Rc::clone(&event)))).collect();
    while parked.get() < count {
        yield_now().await;
    }
    let bytes = resident_bytes() - before;
    let wakers = event.borrow_mut().take().unwrap_or_default();
    wakers.into_iter().for_each(Waker::wake);
    for task in tasks {
        task.await.expect("no panic");
    }
    Sample { bytes, ..Sample::timed(start.elapsed()) }
}
