//! The completion: its waiter is woken once, and sees the writes before the event.

use loom::thread;

use super::check;
use crate::core::{
    primitive::{Arc, UnsafeCell},
    time::Deadline,
    wait::{
        completion::Completion,
        park::{WaitKind, WaitRecord},
    },
};

static WAIT: WaitKind = WaitKind::new("a model");

struct Outcome {
    done: Completion,
    value: UnsafeCell<u32>,
}

// SAFETY: the value is written before `done` and read after it.
unsafe impl Sync for Outcome {}
// SAFETY: as above.
unsafe impl Send for Outcome {}

impl Outcome {
    fn new() -> Arc<Self> {
        Arc::new(Outcome { done: Completion::new(), value: UnsafeCell::new(0) })
    }

    fn finish(&self) {
        // SAFETY: not done yet: it belongs to the strand that finishes it.
        unsafe { *self.value.get() = 7 };
        self.done.finish().wake();
    }

    fn wait(&self, deadline: Deadline) -> bool {
        let record = WaitRecord::new(&WAIT).until(deadline);
        let is_done = matches!(self.done.wait(&record), Ok(true));
        // SAFETY: done: it belongs to the waiter.
        assert!(!is_done || unsafe { *self.value.get() } == 7);
        is_done
    }
}

pub(crate) fn a_waiter_sees_the_result() {
    check(|| {
        let outcome = Outcome::new();
        let finishing = thread::spawn({
            let outcome = Arc::clone(&outcome);
            move || outcome.finish()
        });
        assert!(outcome.wait(Deadline::NEVER));
        finishing.join().unwrap();
    });
}

/// A waiter that has timed out may wait again.
pub(crate) fn a_waiter_may_come_again() {
    check(|| {
        let outcome = Outcome::new();
        let finishing = thread::spawn({
            let outcome = Arc::clone(&outcome);
            move || outcome.finish()
        });
        if !outcome.wait(Deadline::after(std::time::Duration::from_nanos(1))) {
            assert!(outcome.wait(Deadline::NEVER));
        }
        finishing.join().unwrap();
    });
}
