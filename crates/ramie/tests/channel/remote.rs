//! Channels whose ends are on different workers, where a strand tries a second time before it
//! waits: the values, their order, and each way in which such a wait ends.

use std::{
    sync::{Mutex, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::common::{on_each, one_worker, panic_text};
use ramie::{
    cancel,
    channel::{self, Receiver, SendError, SendTimeoutError, Sender},
    fiber,
};

const LONG: Duration = Duration::from_secs(30);
/// Many rounds, because a strand tries a second time only if the other end was faster before.
const ROUNDS: u64 = 100;
const FIBERS: u64 = 4;
const VALUES: u64 = 500;

type Ends = (Sender<(u64, u64)>, Receiver<(u64, u64)>);

/// Several fibers of this worker send, each its own number with values from 0 on.
fn send_all(sender: Sender<(u64, u64)>) {
    let send = |of: u64| {
        let sender = sender.clone();
        move || (0..VALUES).for_each(|value| sender.send((of, value)).unwrap())
    };
    let fibers: Vec<_> = (0..FIBERS).map(|of| fiber::spawn_local(send(of))).collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

/// Several fibers of this worker receive; each must see the values of each sender in order.
fn receive_all(receiver: &Receiver<(u64, u64)>) -> u64 {
    let receive = || {
        let receiver = receiver.clone();
        move || {
            let mut next = [0; FIBERS as usize];
            let mut count = 0;
            for (of, value) in receiver {
                assert!(value >= next[of as usize], "{value} of {of} comes late");
                next[of as usize] = value + 1;
                count += 1;
            }
            count
        }
    };
    let fibers: Vec<_> = (0..FIBERS).map(|_| fiber::spawn_local(receive())).collect();
    fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum()
}

#[test]
fn values_cross_between_workers_once_and_in_order() {
    on_each(&[2], |runtime| {
        for capacity in [1, 2, 8, 64, usize::MAX] {
            let (sender, receiver): Ends = channel::bounded(capacity);
            let ends = Mutex::new(Some(sender));
            let counts = runtime.run(|| {
                fiber::on_each_worker(|worker| match worker {
                    0 => {
                        send_all(ends.lock().unwrap().take().unwrap());
                        0
                    }
                    _ => receive_all(&receiver),
                })
            });
            assert_eq!(counts, [0, FIBERS * VALUES], "capacity {capacity}");
        }
    });
}

/// A thread that receives a given number of values.
fn receives_as_told(receiver: Receiver<u64>) -> (mpsc::Sender<u64>, JoinHandle<Vec<u64>>) {
    let (tell, told) = mpsc::channel();
    let receive = move || {
        let counts = told.into_iter();
        counts.flat_map(|count| (0..count).map(|_| receiver.recv().unwrap())).collect()
    };
    (tell, thread::spawn(receive))
}

/// Has a fiber send to a thread that waits, then fill the channel up, in each round.
fn when_full(f: impl Fn(&Sender<u64>)) {
    let thread = one_worker().run(|| {
        let (sender, receiver) = channel::bounded(2);
        let (tell, thread) = receives_as_told(receiver);
        for round in 0..ROUNDS {
            let first = round * 5;
            tell.send(1).unwrap();
            thread::yield_now();
            (first..first + 3).for_each(|value| sender.send(value).unwrap());
            f(&sender);
            tell.send(2).unwrap();
        }
        thread
    });
    let got = thread.join().unwrap();
    assert!(got.is_sorted(), "{got:?}");
    assert_eq!(got.len() as u64, ROUNDS * 3);
}

#[test]
fn a_place_that_comes_free_is_taken() {
    let thread = one_worker().run(|| {
        let (sender, receiver) = channel::bounded(2);
        let (tell, thread) = receives_as_told(receiver);
        for value in 0..ROUNDS {
            tell.send(1).unwrap();
            // The sender is at most two values ahead, so each receive must make room for the next
            // send.
            sender.send_timeout(value, LONG).unwrap();
        }
        thread
    });
    assert_eq!(thread.join().unwrap(), (0..ROUNDS).collect::<Vec<_>>());
}

#[test]
fn other_fibers_run_before_a_sender_is_done() {
    let thread = one_worker().run(|| {
        let (sender, receiver) = channel::bounded(2);
        let (tell, thread) = receives_as_told(receiver);
        for round in 0..ROUNDS {
            tell.send(1).unwrap();
            (0..3).for_each(|value| sender.send(round * 4 + value).unwrap());
            let tells = fiber::spawn_local({
                let tell = tell.clone();
                move || tell.send(3).unwrap()
            });
            sender.send(round * 4 + 3).unwrap();
            tells.join().unwrap();
        }
        thread
    });
    assert_eq!(thread.join().unwrap(), (0..ROUNDS * 4).collect::<Vec<_>>());
}

#[test]
fn a_timeout_ends_a_send_to_another_worker() {
    when_full(|sender| {
        let sent = sender.send_timeout(7, Duration::from_micros(50));
        assert_eq!(sent, Err(SendTimeoutError::Timeout(7)));
        assert_eq!(sender.send_timeout(7, Duration::ZERO), Err(SendTimeoutError::Timeout(7)));
    });
}

#[test]
fn a_cancelled_sender_gets_its_value_back() {
    when_full(|sender| {
        let sent = cancel::scope(|scope| {
            let handle = scope.handle();
            drop(fiber::spawn_local(move || handle.cancel()));
            sender.send(7)
        });
        assert_eq!(sent, Err(SendError::Cancelled(7)));
    });
}

#[test]
fn no_other_fiber_runs_inside_no_switch() {
    when_full(|sender| {
        let other = fiber::spawn_local(|| ());
        let said = ramie::no_switch(|| {
            let said = panic_text(|| sender.send(7));
            assert!(!other.is_finished());
            said
        });
        assert!(said.contains("no_switch"), "{said}");
        other.join().unwrap();
    });
}
