//! Crates that wait on threads, or lock.

use std::time::Duration;

use ramie::fiber;

use crate::harness::{Kind, Section, Tried, Way};

const FILE: &str = "programs/threads.rs";

pub(super) const SECTIONS: [Section; 2] = [
    Section {
        kind: Kind::Threads,
        way: Way::Blocks,
        note: "`try_recv` and `try_send` are fine; every call that waits blocks the worker, for \
               ever if the other end is a fiber of the same worker. Use `ramie::channel`, whose \
               ends may be threads, too.",
        ..Section::new("crossbeam-channel", FILE, crossbeam_channel)
    },
    Section {
        kind: Kind::Threads,
        note: "As std's locks: fine for short sections without a wait inside. A fiber that waits \
               while it holds one blocks the worker as soon as another fiber wants the lock, and a \
               `ReentrantMutex` lets both in, because both run on one thread. Across waits, use \
               `ramie::sync`.",
        ..Section::new("parking_lot", FILE, parking_lot)
    },
];

fn crossbeam_channel() -> Tried {
    // Between fibers of one worker a wait is in vain: the sender cannot run meanwhile.
    let (sender, receiver) = crossbeam_channel::bounded(1);
    let sending = fiber::spawn_local(move || sender.send(7));
    let limit = Duration::from_millis(60);
    assert!(receiver.recv_timeout(limit).is_err_and(|error| error.is_timeout()));
    sending.join().expect("no panic")?;
    assert_eq!(receiver.try_recv(), Ok(7));

    let (sender, receiver) = ramie::channel::bounded(1);
    let sending = fiber::spawn_local(move || sender.send(7));
    assert_eq!(receiver.recv()?, 7);
    Ok(sending.join().expect("no panic")?)
}

fn parking_lot() -> Tried {
    let count = parking_lot::Mutex::new(0);
    fiber::scope(|fibers| {
        for _ in 0..10 {
            fibers.spawn_local(|| {
                for _ in 0..100 {
                    *count.lock() += 1;
                    fiber::yield_now();
                }
            });
        }
    });
    assert_eq!(*count.lock(), 1000);

    // The trap: both fibers are inside.
    let lock = parking_lot::ReentrantMutex::new(());
    fiber::scope(|fibers| {
        let _held = lock.lock();
        let other = fibers.spawn_local(|| lock.try_lock().is_some());
        assert_eq!(other.join().ok(), Some(true));
    });
    Ok(())
}
