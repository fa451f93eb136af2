//! OS threads, with std's `Mutex` and crossbeam's channels.

use std::{
    sync::Mutex,
    thread::{self, JoinHandle},
};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::{Ends, Lock, Receives, Sends, Strands};
use crate::workload::{Sample, Workload};

struct Threads;

impl Strands for Threads {
    type Handle<R: Send + 'static> = JoinHandle<R>;

    fn spawn<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        thread::spawn(f)
    }

    fn join<R: Send + 'static>(handle: JoinHandle<R>) -> R {
        handle.join().expect("no panic")
    }

    fn yield_now() {
        thread::yield_now();
    }
}

/// Half of the threads on one CPU, half on another.
struct Apart;

impl Strands for Apart {
    type Handle<R: Send + 'static> = JoinHandle<R>;

    fn spawn<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        thread::spawn(|| {
            super::keep_apart(0);
            f()
        })
    }

    fn spawn_away<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        thread::spawn(|| {
            super::keep_apart(1);
            f()
        })
    }

    fn join<R: Send + 'static>(handle: JoinHandle<R>) -> R {
        Threads::join(handle)
    }

    fn yield_now() {
        thread::yield_now();
    }
}

impl Lock for Mutex<u64> {
    fn with(&self, f: impl FnOnce(&mut u64)) {
        f(&mut self.lock().expect("not poisoned"));
    }
}

impl Sends for Sender<u64> {
    #[inline(always)]
    fn put(&self, value: u64) {
        self.send(value).expect("a receiver");
    }
}

impl Receives for Receiver<u64> {
    #[inline(always)]
    fn take(&self) -> Option<u64> {
        self.recv().ok()
    }
}

fn ends(capacity: usize, senders: usize, receivers: usize) -> Ends<Sender<u64>, Receiver<u64>> {
    let (sender, receiver) = match capacity {
        0 => unbounded(),
        _ => bounded(capacity),
    };
    (vec![sender; senders], vec![receiver; receivers])
}

pub fn run_apart(workload: Workload) -> Option<Sample> {
    match workload {
        Workload::Channel { capacity, senders, receivers, count } => {
            Some(super::channel::<Apart, _, _>(ends(capacity, senders, receivers), count))
        }
        _ => None,
    }
}

pub fn run(workload: Workload) -> Option<Sample> {
    Some(match workload {
        Workload::Lock { tasks, count, held } => {
            super::lock::<Threads, Mutex<u64>>(tasks, count, held)
        }
        Workload::Channel { capacity, senders, receivers, count } => {
            super::channel::<Threads, _, _>(ends(capacity, senders, receivers), count)
        }
        Workload::RingChannel { size, hops } => {
            super::ring::<Threads, _, _>(size, hops, || bounded(1))
        }
        _ => return None,
    })
}
