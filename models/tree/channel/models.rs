//! The channel: each value is received once, by a strand that still waits for it.

use std::time::Duration;

use loom::thread;

use super::bounded;
use crate::models::{check, check_within, value};

const SOON: Duration = Duration::from_nanos(1);

/// A value is handed over directly if the channel has no room, and goes through the queue if it
/// has.
fn one_value(capacity: usize) {
    check(move || {
        let (sender, receiver) = bounded(capacity);
        let sending = thread::spawn(move || sender.send(value()).is_ok());
        assert!(receiver.recv().is_ok());
        assert!(sending.join().unwrap());
    });
}

pub(crate) fn a_value_is_handed_over() {
    one_value(0);
}

pub(crate) fn a_value_goes_through_the_queue() {
    one_value(1);
}

/// Two senders compete for one slot of the queue; the second fills it when it is free.
pub(crate) fn a_waiting_sender_fills_the_gap() {
    check_within(2, || {
        let (sender, receiver) = bounded(1);
        let senders = [sender.clone(), sender]
            .map(|sender| thread::spawn(move || sender.send(value()).is_ok()));
        assert!(receiver.recv().is_ok());
        assert!(receiver.recv().is_ok());
        senders.into_iter().for_each(|sender| assert!(sender.join().unwrap()));
        assert!(receiver.is_empty());
    });
}

/// With room for two, a strand that the other end has woken once looks again before it waits.
pub(crate) fn values_keep_their_order_where_ends_are_apart() {
    check_within(2, || {
        let (sender, receiver) = bounded(2);
        let sending = thread::spawn(move || (0..4).all(|n| sender.send(n).is_ok()));
        (0..4).for_each(|n| assert_eq!(receiver.recv().ok(), Some(n)));
        assert!(sending.join().unwrap());
        assert!(receiver.recv().is_err());
    });
}

/// The race to fear: a value for a receiver that has just timed out goes to the next.
pub(crate) fn no_value_goes_to_a_receiver_that_left() {
    check_within(2, || {
        let (sender, patient) = bounded(0);
        let hasty = patient.clone();
        let hasty = thread::spawn(move || hasty.recv_timeout(SOON).is_ok());
        let patient = thread::spawn(move || patient.recv().is_ok());
        assert!(sender.send(value()).is_ok());
        drop(sender);
        assert!(hasty.join().unwrap() != patient.join().unwrap(), "the value was received once");
    });
}

/// If a sender times out, either it gets its value back or the value was received, never both.
pub(crate) fn no_value_is_taken_from_a_sender_that_left() {
    check(|| {
        let (sender, receiver) = bounded(0);
        let sending = thread::spawn(move || sender.send_timeout(value(), SOON).is_ok());
        let received = receiver.recv_timeout(SOON);
        let is_sent = sending.join().unwrap();
        assert_eq!(is_sent, received.is_ok(), "sent if and only if received");
    });
}

/// The last sender's drop ends the wait of each receiver.
pub(crate) fn closing_wakes_receivers() {
    check(|| {
        let (sender, receiver) = bounded::<u32>(1);
        let waiting = thread::spawn(move || receiver.recv());
        let other = sender.clone();
        let leaving = thread::spawn(move || drop(other));
        drop(sender);
        leaving.join().unwrap();
        assert!(waiting.join().unwrap().is_err());
    });
}

/// The last receiver's drop gives a waiting sender its value back, and drops those in the queue.
pub(crate) fn closing_gives_values_back() {
    check(|| {
        let (sender, receiver) = bounded(1);
        assert!(sender.send(value()).is_ok());
        let waiting = thread::spawn(move || sender.send(value()).is_ok());
        drop(receiver);
        assert!(!waiting.join().unwrap());
    });
}
