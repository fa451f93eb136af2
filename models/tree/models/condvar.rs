//! The condition variable: a notification between the release of the lock and the park is not lost.

use loom::thread;

use super::{Watched, check_within};
use crate::{
    core::primitive::Arc,
    sync::{condvar::Condvar, mutex::Mutex},
};

type Lock = Arc<(Mutex<Watched>, Condvar)>;

fn wait(lock: &Lock) {
    let mut guard = lock.0.lock().unwrap();
    while guard.count() == 0 {
        guard = lock.1.wait(guard).unwrap();
    }
}

pub(crate) fn a_notification_ends_the_wait() {
    check_within(2, || {
        let lock: Lock = Arc::new((Mutex::new(Watched::default()), Condvar::new()));
        let waiting = thread::spawn({
            let lock = Arc::clone(&lock);
            move || wait(&lock)
        });
        lock.0.lock().unwrap().add();
        lock.1.notify_one();
        waiting.join().unwrap();
    });
}
