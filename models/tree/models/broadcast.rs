//! A channel whose receivers each see every value: none is missed, nor the end.

use loom::thread;

use super::check_within;
use crate::sync::broadcast::{self, RecvError};

pub(crate) fn a_value_is_seen_and_so_is_the_end() {
    check_within(2, || {
        let (sender, mut receiver) = broadcast::channel(1);
        let sending = thread::spawn(move || sender.send(1).is_ok());
        assert_eq!(receiver.recv(), Ok(1), "the value came before the end");
        assert_eq!(receiver.recv(), Err(RecvError::Closed));
        assert!(sending.join().unwrap());
    });
}
