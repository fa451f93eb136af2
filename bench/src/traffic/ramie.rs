//! Fibers, on one worker or two.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use ::ramie::{
    channel::{self, Receiver, Sender},
    fiber::{self, JoinHandle},
    sync::{Event, Mutex},
};

use super::{Ends, Lock, Receives, Sends, Strands};
use crate::workload::{Sample, Workload};

struct Fibers;

impl Strands for Fibers {
    type Handle<R: Send + 'static> = JoinHandle<R>;

    fn spawn<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        fiber::spawn(f)
    }

    fn join<R: Send + 'static>(handle: JoinHandle<R>) -> R {
        handle.join().expect("no panic")
    }

    fn yield_now() {
        fiber::yield_now();
    }
}

/// Half of the fibers on one worker, half on the other, and each worker on a CPU of its own.
struct Apart;

/// The fibers wait until it is set, because a worker whose fibers yield would not take more of
/// them.
static GO: Event = Event::new();

impl Strands for Apart {
    type Handle<R: Send + 'static> = JoinHandle<R>;

    fn spawn<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        fiber::spawn_local(f)
    }

    /// This fiber keeps its worker busy, so that only the other one can start the new fiber.
    fn spawn_away<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        let has_started = Arc::new(AtomicBool::new(false));
        let started = Arc::clone(&has_started);
        let handle = fiber::spawn(move || {
            super::keep_apart(1);
            started.store(true, SeqCst);
            GO.wait().expect("nobody cancels it");
            f()
        });
        while !has_started.load(SeqCst) {
            thread::yield_now();
        }
        handle
    }

    fn join<R: Send + 'static>(handle: JoinHandle<R>) -> R {
        Fibers::join(handle)
    }

    fn yield_now() {
        fiber::yield_now();
    }

    fn go() {
        GO.set();
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
        0 => channel::unbounded(),
        _ => channel::bounded(capacity),
    };
    (vec![sender; senders], vec![receiver; receivers])
}

fn measure<S: Strands>(workload: Workload) -> Option<Sample> {
    Some(match workload {
        Workload::Lock { tasks, count, held } => super::lock::<S, Mutex<u64>>(tasks, count, held),
        Workload::Channel { capacity, senders, receivers, count } => {
            super::channel::<S, _, _>(ends(capacity, senders, receivers), count)
        }
        Workload::RingChannel { size, hops } => {
            super::ring::<S, _, _>(size, hops, || channel::bounded(1))
        }
        _ => return None,
    })
}

pub fn run(workload: Workload, workers: usize) -> Option<Sample> {
    let runtime = ::ramie::Runtime::builder().workers(workers).build().expect("a runtime");
    runtime.run(move || measure::<Fibers>(workload))
}

pub fn run_apart(workload: Workload) -> Option<Sample> {
    let runtime = ::ramie::Runtime::builder().workers(2).build().expect("a runtime");
    runtime.run(move || {
        super::keep_apart(0);
        measure::<Apart>(workload)
    })
}
