//! The lock of readers and writers: a writer is alone, and nobody waits for a lock that is free.

use loom::thread;

use super::{Watched, check_within};
use crate::{core::primitive::Arc, sync::rwlock::RwLock};

fn new_lock() -> Arc<RwLock<Watched>> {
    Arc::new(RwLock::new(Watched::default()))
}

pub(crate) fn a_writer_is_alone() {
    check_within(2, || {
        let lock = new_lock();
        let writers = [(); 2].map(|()| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || lock.write().unwrap().add())
        });
        // The checker counts a read as a write, so there is only one reader.
        assert!(lock.read().unwrap().count() <= 2);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(lock.read().unwrap().count(), 2);
    });
}

/// Readers wait behind a writer, and hold the lock at the same time.
pub(crate) fn readers_go_together() {
    check_within(2, || {
        let lock = new_lock();
        let writing = lock.write().unwrap();
        let other = thread::spawn({
            let lock = Arc::clone(&lock);
            move || drop(lock.read().unwrap())
        });
        writing.add();
        drop(writing);
        let reading = lock.read().unwrap();
        // It does not wait for this guard.
        other.join().unwrap();
        assert_eq!(reading.count(), 1);
    });
}
