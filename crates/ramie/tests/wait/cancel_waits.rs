//! Each wait of channels and locks in a scope that is cancelled: before it, while it waits, and at
//! the moment at which it would have ended.

use std::{
    error::Error,
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::common;
use crate::common::{Random, everywhere, on_each, one_worker};
use ramie::{
    cancel::{self, CancelHandle, Cancelled},
    channel::{self, RecvError, RecvTimeoutError, Select, SendError, SendTimeoutError},
    fiber, select,
    structured::{Failure, Failures, try_scope},
    sync::{
        AcquireError, AcquireTimeoutError, Barrier, Condvar, Event, Mutex, Once, RwLock, Semaphore,
        broadcast, mpsc, oneshot, watch,
    },
    time::{Instant, interval_at},
};

const LONG: Duration = Duration::from_secs(3600);

/// Runs `f` in a scope that was cancelled before.
fn cancelled<T>(f: impl FnOnce() -> T) -> T {
    cancel::scope(|scope| {
        scope.cancel();
        f()
    })
}

/// Runs `f` in a scope that another strand cancels, in time.
fn cancelled_meanwhile<T>(f: impl FnOnce() -> T) -> T {
    cancel::scope(|scope| {
        let handle = scope.handle();
        fiber::spawn(move || {
            (0..3).for_each(|_| fiber::yield_now());
            assert!(handle.cancel());
        });
        f()
    })
}

/// Runs `check` in each of the ways to be cancelled.
fn in_each_way(check: impl Fn(&dyn Fn(&mut dyn FnMut())) + Send + Sync) {
    everywhere(|| {
        check(&|f| cancelled(f));
        check(&|f| cancelled_meanwhile(f));
        check(&|f| drop(cancel::with_timeout(Duration::ZERO, f)));
        check(&|f| drop(cancel::with_timeout(Duration::from_micros(50), f)));
    });
}

#[test]
fn a_cancelled_channel_call_reports_it_and_keeps_the_values() {
    in_each_way(|cancelled| {
        let (sender, receiver) = channel::bounded(1);
        cancelled(&mut || assert_eq!(receiver.recv(), Err(RecvError::Cancelled)));
        cancelled(&mut || {
            assert_eq!(receiver.recv_timeout(LONG), Err(RecvTimeoutError::Cancelled));
        });
        cancelled(&mut || {
            let deadline = Instant::now() + LONG;
            assert_eq!(receiver.recv_deadline(deadline), Err(RecvTimeoutError::Cancelled));
        });
        cancelled(&mut || assert_eq!(receiver.iter().next(), None));
        sender.send(1).unwrap();
        cancelled(&mut || assert_eq!(sender.send(2), Err(SendError::Cancelled(2))));
        cancelled(&mut || {
            assert_eq!(sender.send_timeout(2, LONG), Err(SendTimeoutError::Cancelled(2)));
        });
        assert_eq!(receiver.try_recv(), Ok(1), "what was there before");
        assert!(receiver.is_empty(), "and nothing else");
        for timed in [channel::never(), channel::after(LONG)] {
            cancelled(&mut || assert_eq!(timed.recv(), Err(RecvError::Cancelled)));
        }
    });
}

#[test]
fn a_call_that_need_not_wait_fails_too_but_for_try() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(4);
        cancelled(|| {
            assert_eq!(sender.send(1), Err(SendError::Cancelled(1)));
            assert_eq!(sender.try_send(1), Ok(()));
            assert_eq!(receiver.recv(), Err(RecvError::Cancelled));
            assert_eq!(receiver.try_recv(), Ok(1));
            assert!(Mutex::new(0).lock_or_cancelled().is_err());
            assert!(RwLock::new(0).read_or_cancelled().is_err());
            assert!(RwLock::new(0).write_or_cancelled().is_err());
            assert_eq!(Semaphore::new(1).acquire().unwrap_err(), AcquireError::Cancelled);
            let event = Event::new();
            event.set();
            assert!(event.wait().is_err());
        });
    });
}

#[test]
fn a_cancelled_select_runs_its_first_arm() {
    in_each_way(|cancelled| {
        let (sender, receiver) = channel::bounded(1);
        sender.send("full").unwrap();
        let (_open, empty) = channel::bounded::<u8>(1);
        cancelled(&mut || {
            select! {
                recv(empty) -> value => assert_eq!(value, Err(RecvError::Cancelled)),
                send(sender, "other") -> _ => panic!("the second arm"),
            }
        });
        cancelled(&mut || {
            select! {
                send(sender, "mine") -> sent => assert_eq!(sent, Err(SendError::Cancelled("mine"))),
                recv(empty) -> _ => panic!("the second arm"),
                default(LONG) => panic!("the default arm"),
            }
        });
        let mut nothing = None;
        cancelled(&mut || {
            let select = Select::new().send(&sender, &mut nothing, |_| panic!("nothing to send"));
            let value = select.recv(&empty, |value| value).wait();
            assert_eq!(value, Err(RecvError::Cancelled));
        });
        assert_eq!(receiver.try_recv(), Ok("full"));
        cancelled(&mut || select! { recv(empty) -> _ => panic!("nothing"), default => {} });
    });
}

#[test]
fn the_locks_report_cancellations() {
    everywhere(|| {
        let (mutex, lock) = (Mutex::new(0), RwLock::new(0));
        let semaphore = Semaphore::new(0);
        let (held, read) = (mutex.lock().unwrap(), lock.read().unwrap());
        fiber::scope(|s| {
            s.spawn(|| {
                cancelled_meanwhile(|| {
                    assert!(mutex.lock_or_cancelled().is_err());
                    assert!(lock.write_or_cancelled().is_err());
                    let refused = semaphore.acquire_timeout(1, LONG).unwrap_err();
                    assert_eq!(refused, AcquireTimeoutError::Cancelled);
                });
            });
        });
        assert!(lock.try_read().is_ok(), "the writer that left holds nobody back");
        drop((held, read));
        assert!(mutex.try_lock().is_ok() && lock.try_write().is_ok());
        semaphore.add_permits(1);
        assert!(semaphore.try_acquire().is_ok());
    });
}

#[test]
fn the_other_waits_report_cancellations() {
    in_each_way(|cancelled| {
        let event = Event::new();
        cancelled(&mut || assert!(event.wait().is_err()));
        cancelled(&mut || assert!(event.wait_timeout(LONG).is_err()));
        let (_sender, mut receiver) = broadcast::channel::<u8>(1);
        cancelled(&mut || assert_eq!(receiver.recv(), Err(broadcast::RecvError::Cancelled)));
        let (sender, mut receiver) = watch::channel(0);
        cancelled(&mut || assert_eq!(receiver.changed(), Err(watch::RecvError::Cancelled)));
        cancelled(&mut || {
            let waited = receiver.wait_for(|value| *value > 0).map(drop);
            assert_eq!(waited, Err(watch::RecvError::Cancelled));
        });
        cancelled(&mut || assert!(sender.closed().is_err()));
        cancelled(&mut || assert!(sender.closed_timeout(LONG).is_err()));
        let (sender, receiver) = oneshot::channel();
        cancelled(&mut || {
            let waited = receiver.recv_timeout(LONG);
            assert_eq!(waited, Err(oneshot::RecvTimeoutError::Cancelled));
        });
        let mut receiver = Some(receiver);
        cancelled(&mut || {
            let waited = receiver.take().map(oneshot::Receiver::recv);
            assert_eq!(waited, Some(Err(oneshot::RecvError::Cancelled)));
        });
        assert_eq!(sender.send(5), Err(5), "the value comes back");
        let (sender, receiver) = mpsc::sync_channel(1);
        cancelled(&mut || assert_eq!(receiver.recv_or_cancelled(), Err(RecvError::Cancelled)));
        sender.send(1).unwrap();
        cancelled(&mut || assert_eq!(sender.send_or_cancelled(2), Err(SendError::Cancelled(2))));
        let mut interval = interval_at(Instant::now() + LONG, LONG);
        cancelled(&mut || assert!(interval.tick().is_err()));
    });
}

#[test]
fn a_condvar_returns_early_and_lets_others_run() {
    one_worker().run(|| {
        let (mutex, condvar) = (Mutex::new(false), Condvar::new());
        fiber::scope(|s| {
            s.spawn(|| {
                cancelled(|| {
                    // The loop would hold the worker forever, without the yield in the wait.
                    let mut guard = mutex.lock().unwrap();
                    while !*guard {
                        guard = condvar.wait(guard).unwrap();
                    }
                });
            });
            s.spawn(|| {
                (0..20).for_each(|_| fiber::yield_now());
                *mutex.lock().unwrap() = true;
            });
        });
        cancelled_meanwhile(|| {
            let guard = mutex.lock().unwrap();
            let (_, waited) = condvar.wait_timeout(guard, LONG).unwrap();
            assert!(!waited.timed_out());
        });
    });
}

#[test]
fn a_cancelled_condvar_leaves_the_lock_free() {
    in_each_way(|cancelled| {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        cancelled(&mut || {
            assert!(condvar.wait_or_cancelled(mutex.lock().unwrap()).is_err());
            assert!(mutex.try_lock().is_ok());
        });
        cancelled(&mut || {
            let waited = condvar.wait_while_or_cancelled(mutex.lock().unwrap(), |n| *n == 0);
            assert!(waited.is_err());
        });
        cancelled(&mut || {
            let waited = condvar.wait_while_or_cancelled(mutex.lock().unwrap(), |n| *n > 0);
            assert!(waited.is_ok(), "there was nothing to wait for");
        });
    });
}

#[test]
fn calls_that_are_no_cancel_points_continue_to_wait() {
    one_worker().run(|| {
        let (mutex, lock, barrier) = (Mutex::new(0), RwLock::new(0), Barrier::new(2));
        let (condvar, once) = (Condvar::new(), Once::new());
        let (sender, receiver) = mpsc::sync_channel(0);
        let (value, source) = watch::channel(0);
        fiber::scope(|s| {
            s.spawn(|| {
                let (mut held, mut written) = (mutex.lock().unwrap(), lock.write().unwrap());
                once.call_once(|| (0..5).for_each(|_| fiber::yield_now()));
                (*held, *written) = (1, 1);
                drop((held, written));
                barrier.wait();
                sender.send(1).unwrap();
                *mutex.lock().unwrap() = 2;
                condvar.notify_all();
            });
            s.spawn_local(|| {
                cancelled(|| {
                    once.call_once(|| unreachable!());
                    assert_eq!(*lock.read().unwrap(), 1);
                    assert_eq!(*mutex.lock().unwrap(), 1);
                    barrier.wait();
                    assert_eq!(receiver.recv(), Ok(1));
                    let guard = mutex.lock().unwrap();
                    assert_eq!(*condvar.wait_while(guard, |n| *n < 2).unwrap(), 2);
                    assert!(value.send(3).is_ok());
                    assert_eq!(*source.borrow(), 3);
                });
            });
        });
    });
}

#[test]
fn a_value_that_was_sent_is_received_though_its_receiver_is_cancelled() {
    everywhere(|| {
        let (sender, receiver) = oneshot::channel();
        sender.send(5).unwrap();
        assert_eq!(cancelled(|| receiver.recv()), Ok(5));
    });
}

/// The meaning of a failed strand's error for a `try_scope`.
#[test]
fn a_cancelled_wait_follows_from_the_failure() {
    one_worker().run(|| {
        let (_sender, receiver) = channel::bounded::<u8>(1);
        type Errors = Failures<Box<dyn Error + Send + Sync>>;
        let failures: Result<(), Errors> = try_scope(move |scope| {
            scope.spawn(move || Ok(receiver.recv().map(drop)?));
            Err("the cause".into())
        });
        let failures = failures.unwrap_err();
        assert_eq!(failures.iter().map(ToString::to_string).collect::<Vec<_>>(), ["the cause"]);
        assert!(!Failure::is_cancelled(&RecvError::Disconnected));
        assert!(Failure::is_cancelled(&SendError::Cancelled(1)));
    });
}

#[test]
fn a_name_that_is_looked_up_is_left_behind() {
    use ramie::net::ToSocketAddrs;
    everywhere(|| {
        let error = cancelled(|| "localhost:80".to_socket_addrs().unwrap_err());
        assert!(cancel::is_cancelled(&error));
        let in_scope = cancel::scope(|_| "localhost:80".to_socket_addrs());
        assert_eq!(in_scope.ok().map(Iterator::collect::<Vec<_>>), {
            let found = "localhost:80".to_socket_addrs();
            found.ok().map(Iterator::collect::<Vec<_>>)
        });
        cancelled(|| assert!("127.0.0.1:80".to_socket_addrs().is_ok(), "it needs no look-up"));
    });
}

#[test]
fn pipes_go_on_after_a_cancelled_wait() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (mut reader, mut writer) = ramie::io::pipe().unwrap();
            let error = cancelled_meanwhile(|| reader.read(&mut [0]).unwrap_err());
            assert!(cancel::is_cancelled(&error));
            writer.write_all(b"x").unwrap();
            assert_eq!(reader.read(&mut [0]).unwrap(), 1);
        });
    });
}

#[test]
fn a_receiver_that_stands_there_twice_is_received_from_once() {
    one_worker().run(|| {
        let (sender, receiver) = channel::bounded(1);
        fiber::spawn(move || {
            fiber::yield_now();
            sender.send(1).unwrap();
        });
        let received = select! {
            recv(receiver) -> value => value,
            recv(receiver) -> value => value,
        };
        assert_eq!(received, Ok(1));
        assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
    });
}

#[test]
fn a_refused_send_lets_go_of_the_channel_before_the_value_is_dropped() {
    struct Looks(Option<channel::Sender<Looks>>);
    impl Drop for Looks {
        fn drop(&mut self) {
            assert_eq!(self.0.as_ref().map_or(1, channel::Sender::len), 1);
        }
    }
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        assert!(sender.send(Looks(None)).is_ok());
        let second = Looks(Some(sender.clone()));
        common::panic_text(|| ramie::no_switch(|| sender.send(second).is_ok()));
        drop(receiver);
    });
}

/// Cancels the given scopes, at some time.
fn race(random: &mut Random, handle: CancelHandle) {
    let yields = random.below(6);
    fiber::spawn(move || {
        (0..yields).for_each(|_| fiber::yield_now());
        handle.cancel();
    });
}

/// The place of each value is known, whichever strand is cancelled and when.
#[test]
fn no_value_is_lost_or_doubled_by_a_cancellation() {
    let mut random = Random::new("cancelled channel");
    for workers in [1, 2] {
        for capacity in [0, 1, 3] {
            common::with_workers(workers).run(|| {
                let (sender, receiver) = channel::bounded(capacity);
                let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
                let (seed, other_seed) = (random.below(u64::MAX), random.below(u64::MAX));
                fiber::scope(|s| {
                    let (sent, received) = (&sent, &received);
                    s.spawn(move || {
                        let mut random = Random::from_seed(seed);
                        for value in (1..300_u64).map(|n| n.pow(3)) {
                            let result = cancel::scope(|scope| {
                                race(&mut random, scope.handle());
                                match random.below(3) {
                                    0 => select! { send(sender, value) -> result => result },
                                    _ => sender.send(value),
                                }
                            });
                            match result {
                                Ok(()) => drop(sent.fetch_add(value, SeqCst)),
                                Err(error) => assert_eq!(error, SendError::Cancelled(value)),
                            }
                        }
                    });
                    s.spawn(move || {
                        let mut random = Random::from_seed(other_seed);
                        let mut is_over = false;
                        while !is_over {
                            let result = cancel::scope(|scope| {
                                race(&mut random, scope.handle());
                                match random.below(3) {
                                    0 => select! { recv(receiver) -> result => result },
                                    _ => receiver.recv(),
                                }
                            });
                            match result {
                                Ok(value) => drop(received.fetch_add(value, SeqCst)),
                                Err(error) => is_over = error.is_disconnected(),
                            }
                        }
                    });
                });
                assert_eq!(sent.into_inner(), received.into_inner());
            });
        }
    }
}

/// Locks, permits and notifications pass by those that are cancelled, to those that wait on.
#[test]
fn no_wake_up_is_lost_by_a_cancellation() {
    type Take = fn(&Shared, bool) -> Result<(), Cancelled>;
    struct Shared {
        mutex: Mutex<u64>,
        lock: RwLock<u64>,
        semaphore: Semaphore,
    }
    let takes: [Take; 4] = [
        |shared, minds| {
            let guard = if minds { shared.mutex.lock_or_cancelled()? } else { shared.mutex.lock() };
            let mut guard = guard.unwrap();
            let seen = *guard;
            fiber::yield_now();
            *guard = seen + 1;
            Ok(())
        },
        |shared, minds| {
            let guard = if minds { shared.lock.write_or_cancelled()? } else { shared.lock.write() };
            let mut guard = guard.unwrap();
            let seen = *guard;
            fiber::yield_now();
            *guard = seen + 1;
            Ok(())
        },
        |shared, minds| {
            let guard = if minds { shared.lock.read_or_cancelled()? } else { shared.lock.read() };
            let guard = guard.unwrap();
            let seen = *guard;
            fiber::yield_now();
            assert_eq!(*guard, seen);
            Ok(())
        },
        |shared, minds| {
            let permits = || shared.semaphore.acquire_many(2);
            let taken = if minds { permits() } else { cancel::shield(permits) };
            taken.map(|_permits| fiber::yield_now()).map_err(|_| Cancelled::because("scope"))
        },
    ];
    let mut random = Random::new("cancelled locks");
    for workers in [1, 2] {
        common::with_workers(workers).run(|| {
            let shared = Arc::new(Shared {
                mutex: Mutex::new(0),
                lock: RwLock::new(0),
                semaphore: Semaphore::new(3),
            });
            let taken = [(); 4].map(|()| AtomicU64::new(0));
            fiber::scope(|s| {
                for _ in 0..6 {
                    let (shared, taken, seed) = (&shared, &taken, random.below(u64::MAX));
                    s.spawn(move || {
                        let mut random = Random::from_seed(seed);
                        for _ in 0..100 {
                            let (which, minds) = (random.below(4) as usize, random.below(2) == 0);
                            let result = cancel::scope(|scope| {
                                race(&mut random, scope.handle());
                                takes[which](shared, minds)
                            });
                            assert!(minds || result.is_ok());
                            taken[which].fetch_add(result.is_ok().into(), SeqCst);
                        }
                    });
                }
            });
            assert_eq!(*shared.mutex.lock().unwrap(), taken[0].load(SeqCst));
            assert_eq!(*shared.lock.write().unwrap(), taken[1].load(SeqCst));
            assert_eq!(shared.semaphore.available_permits(), 3);
        });
    }
}

/// A notification that comes as a waiter is cancelled wakes the other.
#[test]
fn no_notification_is_lost_by_a_cancellation() {
    let mut random = Random::new("cancelled condvar");
    for workers in [1, 2] {
        common::with_workers(workers).run(|| {
            for _ in 0..200 {
                let (items, added) = (Mutex::new(0), Condvar::new());
                fiber::scope(|s| {
                    let fickle = s.spawn(|| {
                        cancel::scope(|scope| {
                            race(&mut random, scope.handle());
                            let waited =
                                added.wait_while_or_cancelled(items.lock().unwrap(), |n| *n == 0);
                            waited.map(|items| *items.unwrap() -= 1)
                        })
                    });
                    s.spawn(|| {
                        (0..2).for_each(|_| fiber::yield_now());
                        *items.lock().unwrap() += 1;
                        added.notify_one();
                    });
                    if fickle.join().unwrap().is_err() {
                        *added.wait_while(items.lock().unwrap(), |n| *n == 0).unwrap() -= 1;
                    }
                });
                assert_eq!(*items.lock().unwrap(), 0);
            }
        });
    }
}
