//! The watch channel: a receiver misses no change, and neither side misses the end of the other.

use loom::thread;

use super::check_within;
use crate::sync::watch::{self, RecvError};

pub(crate) fn a_change_is_seen_and_so_is_the_end() {
    check_within(2, || {
        let (sender, mut receiver) = watch::channel(0);
        let sending = thread::spawn(move || sender.send(1).is_ok());
        assert_eq!(receiver.changed(), Ok(()), "the change came before the end");
        assert_eq!(*receiver.borrow(), 1);
        assert_eq!(receiver.changed(), Err(RecvError::Closed));
        assert!(sending.join().unwrap());
    });
}

pub(crate) fn a_sender_sees_the_last_receiver_go() {
    check_within(2, || {
        let (sender, receiver) = watch::channel(0);
        let leaving = thread::spawn(move || drop(receiver));
        assert!(sender.closed().is_ok());
        leaving.join().unwrap();
    });
}
