//! The channel's core: each value is received once, by a strand that still waits for it.

use std::time::Duration;

use loom::thread;

use super::core::{Core, add_handle, remove_handle};
use crate::{
    models::{check, value},
    primitive::Arc,
    time::Deadline,
};

type Value = Arc<u32>;

/// One handle of each kind, as the shipped ones keep them.
struct Sender(Arc<Core<Value>>);
struct Receiver(Arc<Core<Value>>);

fn channel(capacity: usize) -> (Sender, Receiver) {
    let core = Arc::new(Core::new(capacity));
    (Sender(Arc::clone(&core)), Receiver(core))
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_nanos(1))
}

impl Sender {
    fn send(&self) -> bool {
        self.0.send(value(), Deadline::NEVER).is_ok()
    }

    fn another(&self) -> Sender {
        Sender(add_handle(&self.0, &self.0.senders))
    }
}

impl Receiver {
    fn recv(&self) -> Option<Value> {
        self.0.recv(Deadline::NEVER).ok()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if remove_handle(&self.0.senders) {
            self.0.close_senders();
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if remove_handle(&self.0.receivers) {
            self.0.close_receivers();
        }
    }
}

/// A value goes from hand to hand where the channel holds none, and through it where it does.
fn one_value(capacity: usize) {
    check(move || {
        let (sender, receiver) = channel(capacity);
        let sending = thread::spawn(move || sender.send());
        assert!(receiver.recv().is_some());
        assert!(sending.join().unwrap());
    });
}

pub(crate) fn a_value_is_handed_over() {
    one_value(0);
}

pub(crate) fn a_value_goes_through_the_queue() {
    one_value(1);
}

/// Two senders compete for one place; the second fills it when it is free.
pub(crate) fn a_waiting_sender_fills_the_gap() {
    check(|| {
        let (sender, receiver) = channel(1);
        let senders = [sender.another(), sender].map(|sender| thread::spawn(move || sender.send()));
        assert!(receiver.recv().is_some());
        assert!(receiver.recv().is_some());
        senders.into_iter().for_each(|sender| assert!(sender.join().unwrap()));
        assert_eq!(receiver.0.len(), 0);
    });
}

/// The race to fear: a value for a receiver that has just timed out goes to the next.
pub(crate) fn no_value_goes_to_a_receiver_that_left() {
    check(|| {
        let (sender, receiver) = channel(0);
        let receiving = [soon(), Deadline::NEVER].map(|until| {
            let core = Arc::clone(&receiver.0);
            thread::spawn(move || core.recv(until).is_ok())
        });
        assert!(sender.send());
        drop(sender);
        let received = receiving.map(|receiving| receiving.join().unwrap());
        assert!(received[0] != received[1], "the value was received once");
    });
}

/// A sender whose time is over gets its value back, or it was received: not both.
pub(crate) fn no_value_is_taken_from_a_sender_that_left() {
    check(|| {
        let (sender, receiver) = channel(0);
        let sending = thread::spawn(move || sender.0.send(value(), soon()).is_ok());
        let received = receiver.0.recv(soon());
        let is_sent = sending.join().unwrap();
        assert_eq!(is_sent, received.is_ok(), "sent if and only if received");
    });
}

/// The last sender's drop ends the wait of each receiver.
pub(crate) fn closing_wakes_receivers() {
    check(|| {
        let (sender, receiver) = channel(1);
        let waiting = thread::spawn(move || receiver.recv());
        let other = sender.another();
        let leaving = thread::spawn(move || drop(other));
        drop(sender);
        leaving.join().unwrap();
        assert!(waiting.join().unwrap().is_none());
    });
}

/// The last receiver's drop gives a waiting sender its value back, and drops those in the queue.
pub(crate) fn closing_gives_values_back() {
    check(|| {
        let (sender, receiver) = channel(1);
        assert!(sender.send());
        let waiting = thread::spawn(move || sender.send());
        drop(receiver);
        assert!(!waiting.join().unwrap());
    });
}
