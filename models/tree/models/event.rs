//! The event: the next set wakes a waiter, and no earlier one does.

use std::time::Duration;

use loom::thread;

use super::{Watched, check, check_within};
use crate::{core::primitive::Arc, sync::event::Event};

/// Although it is reset at once.
pub(crate) fn a_set_wakes_all() {
    check_within(2, || {
        let (event, watched) = (Arc::new(Event::new()), Watched::new());
        let waiting = thread::spawn({
            let (event, watched) = (Arc::clone(&event), Arc::clone(&watched));
            move || {
                event.wait().unwrap();
                watched.count()
            }
        });
        watched.add();
        event.set();
        assert_eq!(waiting.join().unwrap(), 1);
    });
}

/// The race to fear: the event is set and reset before the setter has woken anybody. A strand that
/// comes then waits for the next set.
pub(crate) fn a_reset_wakes_nobody() {
    check(|| {
        let event = Arc::new(Event::new());
        let setting = thread::spawn({
            let event = Arc::clone(&event);
            move || event.set()
        });
        while !event.is_set() {
            thread::yield_now();
        }
        event.reset();
        let is_set = event.wait_timeout(Duration::from_nanos(1)).unwrap();
        assert!(!is_set, "woken by a set that was over");
        setting.join().unwrap();
    });
}
