//! The oneshot: the value arrives once or is dropped once, and no strand waits in vain.

use std::time::Duration;

use loom::thread;

use super::{check, value};
use crate::sync::oneshot::{self, RecvTimeoutError};

pub(crate) fn a_value_arrives() {
    check(|| {
        let (sender, receiver) = oneshot::channel();
        let receiving = thread::spawn(move || receiver.recv());
        sender.send(value()).unwrap();
        assert_eq!(receiving.join().unwrap().as_deref(), Ok(&7));
    });
}

pub(crate) fn a_sender_that_leaves_is_noticed() {
    check(|| {
        let (sender, receiver) = oneshot::channel::<u32>();
        let receiving = thread::spawn(move || receiver.recv());
        drop(sender);
        assert!(receiving.join().unwrap().is_err());
    });
}

/// The value comes back to the sender or is dropped with the channel; the checker counts it.
pub(crate) fn a_receiver_that_leaves_drops_the_value() {
    check(|| {
        let (sender, receiver) = oneshot::channel();
        let leaving = thread::spawn(move || drop(receiver));
        let _ = sender.send(value());
        leaving.join().unwrap();
    });
}

/// A value that is too late for one wait is received by the next.
pub(crate) fn a_timeout_loses_no_value() {
    check(|| {
        let (sender, receiver) = oneshot::channel();
        let sending = thread::spawn(move || sender.send(value()).unwrap());
        match receiver.recv_timeout(Duration::from_nanos(1)) {
            Ok(value) => assert_eq!(*value, 7),
            Err(error) => {
                assert_eq!(error, RecvTimeoutError::Timeout);
                assert_eq!(receiver.recv().as_deref(), Ok(&7));
            }
        }
        sending.join().unwrap();
    });
}
