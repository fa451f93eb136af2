//! A worker and its sidecar: each post is submitted although the sidecar sleeps, and it ends.

use loom::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use super::{Watched, check};
use crate::{core::primitive::Arc, handshake::Handshake};

/// The state that the two threads of a model share.
struct Ring {
    handshake: Handshake,
    /// The entries that the worker writes into the queue, one for each post.
    entries: [Arc<Watched>; 2],
    handed_over: AtomicUsize,
}

fn ring() -> Arc<Ring> {
    let entries = [Watched::new(), Watched::new()];
    let handed_over = AtomicUsize::new(0);
    Arc::new(Ring { handshake: Handshake::new(), entries, handed_over })
}

/// The sidecar's loop, which sleeps as soon as it finds nothing.
fn watch(ring: &Ring, tell: impl Fn()) {
    let mut seen = 0;
    while !ring.handshake.is_ending() {
        let posted = ring.handshake.posted();
        if posted == seen {
            ring.handshake.fall_asleep(seen, thread::park);
            continue;
        }
        for entry in &ring.entries[seen as usize..posted as usize] {
            entry.add();
        }
        seen = posted;
        ring.handed_over.store(seen as usize, Ordering::Release);
        tell();
    }
}

fn start(ring: &Arc<Ring>, tell: impl Fn() + 'static) -> thread::JoinHandle<()> {
    let ring = Arc::clone(ring);
    thread::spawn(move || watch(&ring, tell))
}

fn post(ring: &Ring, number: usize, sidecar: &thread::JoinHandle<()>) {
    ring.entries[number].add();
    if ring.handshake.post() {
        sidecar.thread().unpark();
    }
}

fn end(ring: &Ring, sidecar: thread::JoinHandle<()>) {
    ring.handshake.end();
    sidecar.thread().unpark();
    sidecar.join().unwrap();
}

/// The race to fear: a post between the sidecar's last look and its sleep.
pub(crate) fn each_post_is_handed_over() {
    check(|| {
        let (ring, worker) = (ring(), thread::current());
        let sidecar = start(&ring, move || worker.unpark());
        for number in 0..2 {
            post(&ring, number, &sidecar);
        }
        while ring.handed_over.load(Ordering::Acquire) < 2 {
            thread::park();
        }
        assert!(ring.entries.iter().all(|entry| entry.count() == 2));
        end(&ring, sidecar);
    });
}

/// The sidecar sees the end, even if it falls asleep meanwhile.
pub(crate) fn the_end_is_seen() {
    check(|| {
        let ring = ring();
        let sidecar = start(&ring, || ());
        post(&ring, 0, &sidecar);
        end(&ring, sidecar);
    });
}
