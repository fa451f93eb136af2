//! may's coroutines, with its `Mutex` and its channels, which are all unbounded.

use ::may::{
    coroutine::{self, JoinHandle},
    sync::{Mutex, mpmc, mpsc},
};

use super::{Lock, Receives, Sends, Strands};
use crate::workload::{Sample, Workload};

struct Coroutines;

impl Strands for Coroutines {
    type Handle<R: Send + 'static> = JoinHandle<R>;

    fn spawn<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        ::may::go!(f)
    }

    fn join<R: Send + 'static>(handle: JoinHandle<R>) -> R {
        handle.join().expect("no panic")
    }

    fn yield_now() {
        coroutine::yield_now();
    }
}

impl Lock for Mutex<u64> {
    fn with(&self, f: impl FnOnce(&mut u64)) {
        f(&mut self.lock().expect("not poisoned"));
    }
}

impl Sends for mpsc::Sender<u64> {
    #[inline(always)]
    fn put(&self, value: u64) {
        self.send(value).expect("a receiver");
    }
}

impl Receives for mpsc::Receiver<u64> {
    #[inline(always)]
    fn take(&self) -> Option<u64> {
        self.recv().ok()
    }
}

impl Sends for mpmc::Sender<u64> {
    #[inline(always)]
    fn put(&self, value: u64) {
        self.send(value).expect("a receiver");
    }
}

impl Receives for mpmc::Receiver<u64> {
    #[inline(always)]
    fn take(&self) -> Option<u64> {
        self.recv().ok()
    }
}

fn measure(workload: Workload) -> Option<Sample> {
    Some(match workload {
        Workload::Lock { tasks, count, held } => {
            super::lock::<Coroutines, Mutex<u64>>(tasks, count, held)
        }
        Workload::Channel { capacity: 0, senders, receivers: 1, count } => {
            let (sender, receiver) = mpsc::channel();
            super::channel::<Coroutines, _, _>((vec![sender; senders], vec![receiver]), count)
        }
        Workload::Channel { capacity: 0, senders, receivers, count } => {
            let (sender, receiver) = mpmc::channel();
            let ends = (vec![sender; senders], vec![receiver; receivers]);
            super::channel::<Coroutines, _, _>(ends, count)
        }
        Workload::RingChannel { size, hops } => {
            super::ring::<Coroutines, _, _>(size, hops, mpsc::channel)
        }
        _ => return None,
    })
}

pub fn run(workload: Workload, workers: usize) -> Option<Sample> {
    ::may::config().set_workers(workers).set_worker_pin(false);
    // A coroutine measures, as a strand of its own measures for the others.
    Coroutines::join(Coroutines::spawn(move || measure(workload)))
}
