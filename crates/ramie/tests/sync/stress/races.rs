//! Timeouts that race with the awaited event: nothing is lost, nothing comes twice.
//!
//! Some strands are patient, others give up after a moment. A value for one that gives up goes to a
//! patient one; otherwise that one waits forever, or the sum is wrong.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ramie::{
    channel::{self, RecvTimeoutError, SendTimeoutError},
    fiber,
    sync::{Condvar, Event, Mutex, Semaphore},
};

use super::{
    common::Random,
    kinds::{Play, on_each_kind},
};

const ROUNDS: usize = 15;
const TAKES: u64 = 12;
const SENDERS: usize = 3;
const PATIENT: usize = 2;

fn moment(random: &mut Random) -> Duration {
    Duration::from_micros(random.below(60))
}

/// Strands that play together on something they share.
struct Cast<'a, T> {
    shared: Arc<T>,
    random: &'a mut Random,
    plays: Vec<Play>,
}

impl<'a, T: Send + Sync + 'static> Cast<'a, T> {
    fn new(shared: T, random: &'a mut Random) -> Self {
        Cast { shared: Arc::new(shared), random, plays: Vec::new() }
    }

    /// Adds so many strands that do this.
    fn add(&mut self, count: usize, play: fn(&T, &mut Random)) {
        for _ in 0..count {
            let shared = Arc::clone(&self.shared);
            let mut random = Random::from_seed(self.random.below(u64::MAX));
            self.plays.push(Box::new(move || play(&shared, &mut random)));
        }
    }

    fn run(self, run: &dyn Fn(Vec<Play>)) -> Arc<T> {
        run(self.plays);
        self.shared
    }
}

/// As many notifications as there are tokens: one that a strand takes along when it gives up
/// leaves the last token to nobody.
#[test]
fn a_notification_goes_to_one_that_waits_still() {
    type Shared = (Mutex<u64>, Condvar);
    let give = |(tokens, changed): &Shared, random: &mut Random| {
        for _ in 0..2 * TAKES {
            *tokens.lock().unwrap() += 1;
            changed.notify_one();
            (0..random.below(4)).for_each(|_| fiber::yield_now());
        }
    };
    let take_all = |(tokens, changed): &Shared, _: &mut Random| {
        for _ in 0..TAKES {
            let tokens = tokens.lock().unwrap();
            *changed.wait_while(tokens, |tokens| *tokens == 0).unwrap() -= 1;
        }
    };
    let give_up = |(tokens, changed): &Shared, random: &mut Random| {
        for _ in 0..3 * TAKES {
            let moment = moment(random);
            let (_tokens, result) = changed.wait_timeout(tokens.lock().unwrap(), moment).unwrap();
            if !result.timed_out() {
                changed.notify_one();
            }
        }
    };
    on_each_kind("Condvar races", ROUNDS, |random, run| {
        let mut cast = Cast::new(Shared::default(), random);
        cast.add(2, take_all);
        cast.add(3, give_up);
        cast.add(1, give);
        assert_eq!(*cast.run(run).0.lock().unwrap(), 0);
    });
}

/// One permit is kept to the end, so who asks for all gives up, and must let others have the rest.
#[test]
fn permits_are_all_there_in_the_end() {
    type Shared = (Semaphore, AtomicUsize);
    let keep = |(semaphore, done): &Shared, _: &mut Random| {
        let _permit = semaphore.acquire().unwrap();
        while done.load(Ordering::SeqCst) < PATIENT {
            fiber::yield_now();
        }
    };
    let hold = |(semaphore, done): &Shared, random: &mut Random| {
        for _ in 0..TAKES {
            let _permits = semaphore.acquire_many(1 + random.below(2) as u32).unwrap();
            (0..random.below(3)).for_each(|_| fiber::yield_now());
        }
        done.fetch_add(1, Ordering::SeqCst);
    };
    let give_up = |(semaphore, done): &Shared, random: &mut Random| {
        while done.load(Ordering::SeqCst) < PATIENT {
            if let Ok(_permits) = semaphore.acquire_timeout(3, moment(random)) {
                fiber::yield_now();
            }
        }
    };
    on_each_kind("Semaphore races", ROUNDS, |random, run| {
        let mut cast = Cast::new((Semaphore::new(3), AtomicUsize::new(0)), random);
        cast.add(1, keep);
        cast.add(PATIENT, hold);
        cast.add(3, give_up);
        let semaphore = &cast.run(run).0;
        assert_eq!(semaphore.available_permits(), 3);
        assert!(semaphore.try_acquire_many(3).is_ok());
    });
}

#[test]
fn a_lock_is_free_in_the_end() {
    type Shared = (Mutex<u64>, AtomicU64);
    let count = |(lock, taken): &Shared, random: &mut Random| {
        for _ in 0..TAKES {
            let mut held = lock.lock().unwrap();
            let seen = *held;
            (0..random.below(3)).for_each(|_| fiber::yield_now());
            *held = seen + 1;
            taken.fetch_add(1, Ordering::SeqCst);
        }
    };
    let give_up = |(lock, taken): &Shared, random: &mut Random| {
        for _ in 0..2 * TAKES {
            if let Ok(mut held) = lock.lock_timeout(moment(random)) {
                let seen = *held;
                fiber::yield_now();
                *held = seen + 1;
                taken.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    on_each_kind("Mutex races", ROUNDS, |random, run| {
        let mut cast = Cast::new(Shared::default(), random);
        cast.add(2, count);
        cast.add(3, give_up);
        let shared = cast.run(run);
        let count = *shared.0.try_lock().expect("nobody holds it");
        assert_eq!(count, shared.1.load(Ordering::SeqCst));
    });
}

/// An event for each time: all patient waiters come through, however many others give up.
#[test]
fn an_event_reaches_all_that_wait_still() {
    type Shared = (Vec<Event>, AtomicUsize);
    let wait = |(events, passed): &Shared, _: &mut Random| {
        for event in events {
            event.wait().unwrap();
            passed.fetch_add(1, Ordering::SeqCst);
        }
    };
    let give_up = |(events, _): &Shared, random: &mut Random| {
        for event in events {
            let was_set = event.is_set();
            let is_set = event.wait_timeout(moment(random)).unwrap();
            assert!(is_set || !was_set);
            assert!(!is_set || event.is_set());
        }
    };
    let set = |(events, _): &Shared, random: &mut Random| {
        for event in events {
            (0..random.below(6)).for_each(|_| fiber::yield_now());
            event.set();
        }
    };
    on_each_kind("Event races", ROUNDS, |random, run| {
        let events = (0..2 * TAKES).map(|_| Event::new()).collect();
        let mut cast = Cast::new((events, AtomicUsize::new(0)), random);
        cast.add(2, wait);
        cast.add(3, give_up);
        cast.add(1, set);
        let shared = cast.run(run);
        assert_eq!(shared.1.load(Ordering::SeqCst), 2 * shared.0.len());
    });
}

/// Values on their way: those sent, those received.
struct Post {
    sender: Mutex<Option<channel::Sender<u64>>>,
    receiver: channel::Receiver<u64>,
    sent: AtomicU64,
    received: AtomicU64,
    next: AtomicU64,
    done: AtomicUsize,
}

impl Post {
    fn new(capacity: usize) -> Self {
        let (sender, receiver) = channel::bounded(capacity);
        let [sent, received] = [(); 2].map(|()| AtomicU64::new(0));
        let (next, done) = (AtomicU64::new(1), AtomicUsize::new(0));
        Post { sender: Mutex::new(Some(sender)), receiver, sent, received, next, done }
    }

    fn send(&self, random: &mut Random) {
        let sender = self.sender.lock().unwrap().clone().expect("it is taken in the end");
        for _ in 0..TAKES {
            // A lost and a doubled value do not make up for each other in the sum.
            let value = self.next.fetch_add(1, Ordering::SeqCst).pow(5);
            let outcome = match random.below(3) {
                0 => sender.send(value).map_err(SendTimeoutError::from),
                _ => sender.send_timeout(value, moment(random)),
            };
            match outcome {
                Ok(()) => drop(self.sent.fetch_add(value, Ordering::SeqCst)),
                Err(SendTimeoutError::Timeout(back)) => assert_eq!(back, value),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn receive(&self, wait: impl Fn() -> Result<u64, RecvTimeoutError>) {
        loop {
            match wait() {
                Ok(value) => drop(self.received.fetch_add(value, Ordering::SeqCst)),
                Err(RecvTimeoutError::Timeout) => fiber::yield_now(),
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Cancelled) => return,
            }
        }
    }
}

#[test]
fn a_value_comes_to_one_receiver_or_back() {
    let patient = |post: &Post, _: &mut Random| {
        post.receive(|| post.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected));
    };
    let impatient = |post: &Post, random: &mut Random| {
        let moment = moment(random);
        post.receive(|| post.receiver.recv_timeout(moment));
    };
    let send = |post: &Post, random: &mut Random| {
        post.send(random);
        if post.done.fetch_add(1, Ordering::SeqCst) + 1 == SENDERS {
            *post.sender.lock().unwrap() = None;
        }
    };
    on_each_kind("channel races", ROUNDS, |random, run| {
        let mut cast = Cast::new(Post::new(random.below(3) as usize), random);
        cast.add(1, patient);
        cast.add(2, impatient);
        cast.add(SENDERS, send);
        let post = cast.run(run);
        let [sent, received] = [&post.sent, &post.received].map(|sum| sum.load(Ordering::SeqCst));
        assert_eq!(sent, received);
    });
}

/// The answer of a receiver that is asked without a wait.
#[derive(PartialEq)]
enum Said {
    Nothing,
    Value,
    End,
}

/// A sender that sends one value and goes, and its receiver.
type Ends = (Box<dyn FnOnce() + Send>, Box<dyn FnMut() -> Said + Send>);

/// On two threads, many times: the receiver asks while the sender sends and goes.
fn the_value_comes_before_the_end(make: impl Fn() -> Ends) {
    const TIMES: usize = 10_000;
    let (offer, offered) = std::sync::mpsc::sync_channel::<Box<dyn FnMut() -> Said + Send>>(0);
    std::thread::scope(|s| {
        s.spawn(move || {
            for mut ask in offered {
                let mut has_value = false;
                for spins in 1_u32.. {
                    match ask() {
                        // The sender may wait for this CPU.
                        Said::Nothing if spins.is_multiple_of(64) => std::thread::yield_now(),
                        Said::Nothing => std::hint::spin_loop(),
                        Said::Value => has_value = true,
                        Said::End => break,
                    }
                }
                assert!(has_value, "it ended without the value");
            }
        });
        for time in 0..TIMES {
            let (send, ask) = make();
            if offer.send(ask).is_err() {
                break;
            }
            (0..time % 64).for_each(|_| std::hint::spin_loop());
            send();
        }
        drop(offer);
    });
}

#[test]
fn the_last_value_of_a_broadcast_comes_before_its_end() {
    use ramie::sync::broadcast::{self, TryRecvError};
    the_value_comes_before_the_end(|| {
        let (sender, mut receiver) = broadcast::channel(1);
        let ask = move || match receiver.try_recv() {
            Ok(_) => Said::Value,
            Err(TryRecvError::Closed) => Said::End,
            Err(_) => Said::Nothing,
        };
        (Box::new(move || assert!(sender.send(7).is_ok())), Box::new(ask))
    });
}

#[test]
fn the_last_change_comes_before_the_end_of_a_watch() {
    use ramie::sync::watch::{self, RecvTimeoutError};
    the_value_comes_before_the_end(|| {
        let (sender, mut receiver) = watch::channel(0);
        let ask = move || match receiver.changed_timeout(Duration::ZERO) {
            Ok(()) => Said::Value,
            Err(RecvTimeoutError::Closed) => Said::End,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Cancelled) => Said::Nothing,
        };
        (Box::new(move || assert!(sender.send(7).is_ok())), Box::new(ask))
    });
}

#[test]
fn the_last_value_of_a_channel_comes_before_its_end() {
    use ramie::channel::TryRecvError;
    the_value_comes_before_the_end(|| {
        let (sender, receiver) = channel::unbounded();
        let ask = move || match receiver.try_recv() {
            Ok(()) => Said::Value,
            Err(TryRecvError::Disconnected) => Said::End,
            Err(TryRecvError::Empty) => Said::Nothing,
        };
        (Box::new(move || assert!(sender.send(()).is_ok())), Box::new(ask))
    });
}
