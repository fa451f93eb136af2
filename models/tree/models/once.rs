//! Once: a strand that comes meanwhile waits for the end of the closure, and sees its writes.

use loom::thread;

use super::{Watched, check_within};
use crate::{core::primitive::Arc, sync::once::Once};

pub(crate) fn all_see_what_one_did() {
    check_within(2, || {
        let (once, watched) = (Arc::new(Once::new()), Watched::new());
        let other = thread::spawn({
            let (once, watched) = (Arc::clone(&once), Arc::clone(&watched));
            move || {
                once.call_once(|| watched.add());
                watched.count()
            }
        });
        once.call_once(|| watched.add());
        assert!(once.is_completed());
        assert_eq!(other.join().unwrap(), 1);
    });
}
