//! Locks and channels under load: once for all peers with blocking calls, and per peer otherwise.

mod go;
mod may;
mod ramie;
mod threads;
mod tokio;

use std::{
    sync::{Arc, LazyLock},
    time::Instant,
};

pub use self::go::build as build_go;
use crate::{
    peers::Peer,
    process,
    workload::{Sample, Workload},
};

/// Pins this thread to the CPU of one end, for channels whose ends are kept apart: receivers to the
/// first CPU, senders to the second.
fn keep_apart(end: usize) {
    // Read once, before any thread is pinned, because new threads inherit the pinning.
    static CPUS: LazyLock<Vec<usize>> =
        LazyLock::new(|| process::cpus().expect("this process's CPUs"));
    process::pin_to(*CPUS.get(end).expect("two CPUs, for ends that are kept apart"));
}

/// Strands of a peer.
trait Strands {
    type Handle<R: Send + 'static>;

    fn spawn<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> Self::Handle<R>;

    /// Spawns on the other worker, if this peer keeps the ends apart.
    fn spawn_away<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> Self::Handle<R> {
        Self::spawn(f)
    }

    fn join<R: Send + 'static>(handle: Self::Handle<R>) -> R;

    fn yield_now();

    /// Called when all strands are spawned.
    fn go() {}
}

/// A lock around a count.
trait Lock: Default + Send + Sync + 'static {
    fn with(&self, f: impl FnOnce(&mut u64));
}

/// Inlined, as the calls that it stands for would be.
trait Sends: Send + 'static {
    fn put(&self, value: u64);
}

/// Inlined, too.
trait Receives: Send + 'static {
    /// `None` if all senders are gone.
    fn take(&self) -> Option<u64>;
}

/// The ends of one channel, one for each strand.
type Ends<P, T> = (Vec<P>, Vec<T>);

pub fn run(peer: Peer, workload: Workload) -> Option<Sample> {
    match peer {
        Peer::Ramie => ramie::run(workload, 1),
        Peer::Ramie2 => ramie::run(workload, 2),
        Peer::RamieApart => ramie::run_apart(workload),
        Peer::Tokio => tokio::run(workload),
        Peer::Tokio2 => tokio::run_on_two(workload),
        Peer::TokioApart => tokio::run_apart(workload),
        Peer::May => may::run(workload, 1),
        Peer::May2 => may::run(workload, 2),
        Peer::Go => go::run(workload, 1),
        Peer::Go2 => go::run(workload, 2),
        Peer::Threads => threads::run(workload),
        Peer::ThreadsApart => threads::run_apart(workload),
        _ => None,
    }
}

/// Each task adds to the count this often; with `held` it yields while it holds the lock, so that
/// others contend for it.
fn lock<S: Strands, L: Lock>(tasks: u64, count: u64, held: bool) -> Sample {
    let start = Instant::now();
    let lock = Arc::new(L::default());
    let add = |lock: Arc<L>| {
        move || {
            for _ in 0..count {
                lock.with(|total| {
                    *total += 1;
                    if held {
                        S::yield_now();
                    }
                });
            }
        }
    };
    let spawn = |task: u64| match task % 2 {
        0 => S::spawn(add(Arc::clone(&lock))),
        _ => S::spawn_away(add(Arc::clone(&lock))),
    };
    let handles: Vec<_> = (0..tasks).map(spawn).collect();
    S::go();
    handles.into_iter().for_each(S::join);
    let sample = Sample::timed(start.elapsed());
    lock.with(|total| assert_eq!(*total, tasks * count));
    sample
}

/// The numbers up to `count`, divided among the senders.
fn channel<S: Strands, P: Sends, T: Receives>(ends: Ends<P, T>, count: u64) -> Sample {
    let start = Instant::now();
    let (senders, receivers) = ends;
    let step = senders.len();
    let receive = |receiver: T| {
        move || {
            let mut sum = 0_u64;
            let mut received = 0_u64;
            while let Some(value) = receiver.take() {
                sum += value;
                received += 1;
            }
            (received, sum)
        }
    };
    let send = |(first, sender): (usize, P)| {
        move || (first as u64..count).step_by(step).for_each(|value| sender.put(value))
    };
    let receivers: Vec<_> = receivers.into_iter().map(|end| S::spawn(receive(end))).collect();
    let senders: Vec<_> =
        senders.into_iter().enumerate().map(|end| S::spawn_away(send(end))).collect();
    S::go();
    senders.into_iter().for_each(S::join);
    let tallies = receivers.into_iter().map(S::join);
    let tally = tallies.fold((0, 0), |sum, tally| (sum.0 + tally.0, sum.1 + tally.1));
    let sample = Sample::timed(start.elapsed());
    assert_eq!(tally, (count, count * (count - 1) / 2));
    sample
}

/// Like the ring by park and unpark: tokens count hops from 1, and one beyond the last ends all.
fn ring<S: Strands, P: Sends, T: Receives>(
    size: usize,
    hops: u64,
    make: impl Fn() -> (P, T),
) -> Sample {
    let start = Instant::now();
    let (mut senders, receivers): (Vec<P>, Vec<T>) = (0..size).map(|_| make()).unzip();
    senders[0].put(1);
    senders.rotate_left(1);
    let pass_on = |(next, inbox): (P, T)| {
        move || {
            let mut made = 0;
            loop {
                let token = inbox.take().unwrap_or(hops + 1);
                if token > hops {
                    return made;
                }
                made += 1;
                // No task uses the last token, but its receiver still exists.
                next.put(token + 1);
            }
        }
    };
    let handles: Vec<_> =
        senders.into_iter().zip(receivers).map(|ends| S::spawn(pass_on(ends))).collect();
    S::go();
    let total: u64 = handles.into_iter().map(S::join).sum();
    let sample = Sample::timed(start.elapsed());
    assert_eq!(total, hops);
    sample
}
