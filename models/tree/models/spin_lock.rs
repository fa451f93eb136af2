//! The spin lock: one at a time, each after the other.

use loom::thread;

use super::{Watched, check};
use crate::core::{primitive::Arc, spin_lock::SpinLock};

pub(crate) fn one_at_a_time_holds_it() {
    check(|| {
        let lock = Arc::new(SpinLock::new(Watched::default()));
        let others = [(); 2].map(|()| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || lock.lock().add())
        });
        lock.lock().add();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(lock.lock().count(), 3);
    });
}
