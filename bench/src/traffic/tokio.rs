//! tokio's tasks, with its `Mutex` and its `mpsc`. It has no channel for many receivers.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Instant,
};

use ::tokio::{
    runtime::Builder,
    spawn,
    sync::{Mutex, mpsc},
    task::yield_now,
};

use crate::workload::{Sample, Workload};

pub fn run(workload: Workload) -> Option<Sample> {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async move { spawn(measure(workload)).await.expect("no panic") })
}

pub fn run_on_two(workload: Workload) -> Option<Sample> {
    let runtime = Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(async move { spawn(measure(workload)).await.expect("no panic") })
}

/// A runtime of one thread at either end, because tasks cannot be kept on a thread otherwise.
pub fn run_apart(workload: Workload) -> Option<Sample> {
    let Workload::Channel { capacity, senders, receivers: 1, count } = workload else {
        return None;
    };
    // The clock starts when both runtimes run, as Ramie's workers do then.
    let ready = Arc::new(Barrier::new(3));
    let (sender, receiver) = ends(capacity);
    let both_run = Arc::clone(&ready);
    let received = thread::spawn(move || {
        super::keep_apart(0);
        block_on(async move {
            both_run.wait();
            spawn(receive(receiver)).await.expect("no panic")
        })
    });
    let both_run = Arc::clone(&ready);
    let sent = thread::spawn(move || {
        super::keep_apart(1);
        block_on(async move {
            both_run.wait();
            send_all(sender, senders, count).await;
        });
    });
    ready.wait();
    let start = Instant::now();
    sent.join().expect("no panic");
    let tally = received.join().expect("no panic");
    let sample = Sample::timed(start.elapsed());
    assert_eq!(tally, (count, count * (count - 1) / 2));
    Some(sample)
}

fn block_on<R>(future: impl Future<Output = R>) -> R {
    Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

async fn measure(workload: Workload) -> Option<Sample> {
    Some(match workload {
        Workload::Lock { tasks, count, held } => lock(tasks, count, held).await,
        Workload::Channel { capacity, senders, receivers: 1, count } => {
            channel(capacity, senders, count).await
        }
        Workload::RingChannel { size, hops } => ring(size, hops).await,
        _ => return None,
    })
}

async fn lock(tasks: u64, count: u64, held: bool) -> Sample {
    let start = Instant::now();
    let lock = Arc::new(Mutex::new(0));
    let add = |lock: Arc<Mutex<u64>>| async move {
        for _ in 0..count {
            let mut total = lock.lock().await;
            *total += 1;
            if held {
                yield_now().await;
            }
        }
    };
    let handles: Vec<_> = (0..tasks).map(|_| spawn(add(Arc::clone(&lock)))).collect();
    for handle in handles {
        handle.await.expect("no panic");
    }
    let sample = Sample::timed(start.elapsed());
    assert_eq!(*lock.lock().await, tasks * count);
    sample
}

#[derive(Clone)]
enum Sender {
    Bounded(mpsc::Sender<u64>),
    Unbounded(mpsc::UnboundedSender<u64>),
}

enum Receiver {
    Bounded(mpsc::Receiver<u64>),
    Unbounded(mpsc::UnboundedReceiver<u64>),
}

fn ends(capacity: usize) -> (Sender, Receiver) {
    if capacity == 0 {
        let (sender, receiver) = mpsc::unbounded_channel();
        return (Sender::Unbounded(sender), Receiver::Unbounded(receiver));
    }
    let (sender, receiver) = mpsc::channel(capacity);
    (Sender::Bounded(sender), Receiver::Bounded(receiver))
}

async fn send(sender: Sender, first: u64, count: u64, step: usize) {
    for value in (first..count).step_by(step) {
        match &sender {
            Sender::Bounded(sender) => sender.send(value).await.expect("a receiver"),
            Sender::Unbounded(sender) => sender.send(value).expect("a receiver"),
        }
    }
}

async fn receive(mut receiver: Receiver) -> (u64, u64) {
    let mut tally = (0, 0);
    loop {
        let value = match &mut receiver {
            Receiver::Bounded(receiver) => receiver.recv().await,
            Receiver::Unbounded(receiver) => receiver.recv().await,
        };
        let Some(value) = value else { return tally };
        tally = (tally.0 + 1, tally.1 + value);
    }
}

async fn send_all(sender: Sender, senders: usize, count: u64) {
    let send = |first: usize| spawn(send(sender.clone(), first as u64, count, senders));
    let handles: Vec<_> = (0..senders).map(send).collect();
    drop(sender);
    for handle in handles {
        handle.await.expect("no panic");
    }
}

async fn channel(capacity: usize, senders: usize, count: u64) -> Sample {
    let start = Instant::now();
    let (sender, receiver) = ends(capacity);
    let received = spawn(receive(receiver));
    send_all(sender, senders, count).await;
    let tally = received.await.expect("no panic");
    let sample = Sample::timed(start.elapsed());
    assert_eq!(tally, (count, count * (count - 1) / 2));
    sample
}

async fn ring(size: usize, hops: u64) -> Sample {
    let start = Instant::now();
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..size).map(|_| mpsc::channel(1)).unzip();
    senders[0].send(1).await.expect("a receiver");
    senders.rotate_left(1);
    let pass_on = |(next, mut inbox): (mpsc::Sender<u64>, mpsc::Receiver<u64>)| async move {
        let mut made = 0;
        loop {
            let token = inbox.recv().await.unwrap_or(hops + 1);
            if token > hops {
                return made;
            }
            made += 1;
            next.send(token + 1).await.expect("a receiver");
        }
    };
    let handles: Vec<_> =
        senders.into_iter().zip(receivers).map(|ends| spawn(pass_on(ends))).collect();
    let mut total = 0;
    for handle in handles {
        total += handle.await.expect("no panic");
    }
    let sample = Sample::timed(start.elapsed());
    assert_eq!(total, hops);
    sample
}
