//! Futures that wait for strands and channels.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use ramie::{channel, fiber, future::block_on, sync::oneshot};

/// Counts its calls.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counter() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (Arc::clone(&count), Waker::from(count))
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

fn on_every_strand(test: impl Fn()) {
    test();
    ramie::run(&test);
}

#[test]
fn a_strand_is_awaited() {
    on_every_strand(|| {
        let strand = fiber::spawn(|| {
            fiber::sleep(Duration::from_millis(1));
            5
        });
        assert_eq!(block_on(strand).unwrap(), 5);
        let ended = fiber::spawn(|| 6);
        while !ended.is_finished() {
            fiber::yield_now();
        }
        assert_eq!(block_on(async { ended.await.unwrap() }), 6);
    });
}

#[test]
fn a_thread_awaits_a_fiber() {
    ramie::run(|| {
        let (sender, receiver) = channel::bounded(1);
        let fiber = fiber::spawn(move || receiver.recv().unwrap());
        let thread = thread::spawn(move || block_on(fiber).unwrap());
        fiber::sleep(Duration::from_millis(1));
        sender.send(7).unwrap();
        assert_eq!(ramie::blocking(|| thread.join().unwrap()), 7);
    });
}

#[test]
fn a_panic_is_awaited() {
    ramie::run(|| {
        let fiber = fiber::spawn(|| panic!("of the fiber"));
        let payload = block_on(fiber).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"of the fiber"));
    });
}

#[test]
fn the_last_waker_is_called_once() {
    ramie::run(|| {
        let mut future = fiber::spawn_local(|| 1).into_future();
        let ((first, first_waker), (last, last_waker)) = (counter(), counter());
        assert!(poll(&mut future, &first_waker).is_pending());
        assert!(poll(&mut future, &first_waker).is_pending());
        assert!(poll(&mut future, &last_waker).is_pending());
        fiber::yield_now();
        assert_eq!(first.0.load(Ordering::SeqCst), 0);
        assert_eq!(last.0.load(Ordering::SeqCst), 1);
        assert!(matches!(poll(&mut future, &last_waker), Poll::Ready(Ok(1))));
        drop((future, first_waker, last_waker));
        assert_eq!(Arc::strong_count(&first), 1);
        assert_eq!(Arc::strong_count(&last), 1);
    });
}

#[test]
fn a_future_of_a_strand_may_be_dropped_or_forgotten() {
    ramie::run(|| {
        let (count, waker) = counter();
        for forget in [false, true] {
            let mut future = fiber::spawn_local(|| String::from("nobody asks")).into_future();
            assert!(poll(&mut future, &waker).is_pending());
            if forget {
                std::mem::forget(future)
            } else {
                drop(future)
            }
            fiber::yield_now();
        }
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_waker_that_waits_or_panics_harms_nobody() {
    struct Bad(fn());
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }
    ramie::run(|| {
        for bad in [|| panic!("in a waker"), || fiber::sleep(Duration::from_millis(1))] {
            let mut future = fiber::spawn_local(|| 1).into_future();
            assert!(poll(&mut future, &Waker::from(Arc::new(Bad(bad)))).is_pending());
            fiber::yield_now();
            assert_eq!(block_on(future).unwrap(), 1);
            let (sender, receiver) = channel::bounded(1);
            let mut future = receiver.into_future();
            assert!(poll(&mut future, &Waker::from(Arc::new(Bad(bad)))).is_pending());
            sender.send(2).unwrap();
            assert_eq!(block_on(future), Ok(2));
        }
    });
}

#[test]
fn a_oneshot_is_awaited() {
    on_every_strand(|| {
        let (sender, receiver) = oneshot::channel();
        let strand = fiber::spawn(move || sender.send(8));
        assert_eq!(block_on(receiver), Ok(8));
        assert_eq!(strand.join().unwrap(), Ok(()));
        let (sender, receiver) = oneshot::channel::<u8>();
        let strand = fiber::spawn(move || drop(sender));
        assert_eq!(block_on(receiver), Err(oneshot::RecvError::Closed));
        strand.join().unwrap();
    });
}

#[test]
fn a_oneshots_waker_is_called_and_dropped() {
    let (count, waker) = counter();
    let (sender, receiver) = oneshot::channel();
    let mut future = receiver.into_future();
    assert!(poll(&mut future, &waker).is_pending());
    assert!(poll(&mut future, &waker).is_pending());
    sender.send(1).unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(poll(&mut future, &waker), Poll::Ready(Ok(1)));

    let (sender, receiver) = oneshot::channel();
    let mut future = receiver.into_future();
    assert!(poll(&mut future, &waker).is_pending());
    drop((future, waker));
    assert_eq!(Arc::strong_count(&count), 1);
    assert_eq!(sender.send(2), Err(2));
}

#[test]
fn channels_of_every_capacity_are_awaited() {
    for capacity in [0, 1, 8] {
        on_every_strand(|| {
            let (sender, receiver) = channel::bounded(capacity);
            let strand = fiber::spawn(move || (0..100).for_each(|n| sender.send(n).unwrap()));
            let all = block_on(async {
                let mut all = Vec::new();
                while let Ok(n) = (&receiver).await {
                    all.push(n);
                }
                all
            });
            strand.join().unwrap();
            assert_eq!(all, (0..100).collect::<Vec<_>>(), "capacity {capacity}");
        });
    }
}

#[test]
fn a_select_sends_to_a_future() {
    ramie::run(|| {
        let (sender, receiver) = channel::bounded(0);
        let strand = fiber::spawn_local(move || {
            ramie::channel::select! { send(sender, 3) -> sent => sent.unwrap() }
        });
        assert_eq!(block_on(receiver), Ok(3));
        strand.join().unwrap();
    });
}

#[test]
fn a_future_of_a_channel_that_is_dropped_or_forgotten_loses_nothing() {
    let (sender, receiver) = channel::unbounded();
    let ((lost, lost_waker), (next, next_waker)) = (counter(), counter());
    let mut forgotten = (&receiver).into_future();
    let mut dropped = (&receiver).into_future();
    let mut waiting = (&receiver).into_future();
    assert!(poll(&mut forgotten, &lost_waker).is_pending());
    assert!(poll(&mut dropped, &lost_waker).is_pending());
    assert!(poll(&mut waiting, &next_waker).is_pending());
    std::mem::forget(forgotten);
    sender.send(4).unwrap();
    drop((dropped, lost_waker));
    assert_eq!(next.0.load(Ordering::SeqCst), 1);
    assert_eq!(Arc::strong_count(&lost), 1);
    assert_eq!(poll(&mut waiting, &next_waker), Poll::Ready(Ok(4)));
}

#[test]
fn a_strand_of_a_scope_is_awaited() {
    on_every_strand(|| {
        let words = ["one", "three"];
        let total = fiber::scope(|scope| {
            let slow = scope.spawn(|| {
                fiber::sleep(Duration::from_millis(1));
                words[1].len()
            });
            let quick = scope.spawn(|| words[0].len());
            let panics = scope.spawn(|| panic!("taken"));
            block_on(async {
                assert!(panics.await.is_err());
                slow.await.unwrap() + quick.await.unwrap()
            })
        });
        assert_eq!(total, 8);
    });
}

#[test]
fn a_future_of_a_scopes_strand_may_be_dropped_and_forgotten() {
    let one_worker = ramie::Runtime::builder().workers(1).build().unwrap();
    one_worker.run(|| {
        let (count, waker) = counter();
        let ended = AtomicUsize::new(0);
        fiber::scope(|scope| {
            let end = || {
                fiber::yield_now();
                ended.fetch_add(1, Ordering::SeqCst);
            };
            let mut dropped = scope.spawn(end).into_future();
            assert!(poll(&mut dropped, &waker).is_pending());
            drop(dropped);
            assert_eq!(Arc::strong_count(&count), 2, "its waker goes with it");
            let mut forgotten = scope.spawn(end).into_future();
            assert!(poll(&mut forgotten, &waker).is_pending());
            std::mem::forget(forgotten);
        });
        assert_eq!(ended.into_inner(), 2);
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "that of the forgotten one");
    });
    let panicked = std::panic::catch_unwind(|| {
        fiber::scope(|scope| drop(scope.spawn(|| panic!("not taken")).into_future()));
    });
    assert!(panicked.is_err());
}

#[test]
fn async_code_sends_to_strands_and_to_async_code() {
    for capacity in [0, 1, 3] {
        on_every_strand(|| {
            let (sender, receiver) = channel::bounded(capacity);
            let sum = fiber::spawn(move || receiver.iter().sum::<u32>());
            block_on(async {
                for n in 0..10 {
                    sender.send_async(n).await.unwrap();
                }
            });
            drop(sender);
            assert_eq!(sum.join().unwrap(), 45);

            let (sender, receiver) = channel::bounded(capacity);
            let sum = fiber::spawn(move || {
                block_on(async {
                    let mut sum = 0;
                    while let Ok(n) = (&receiver).await {
                        sum += n;
                    }
                    sum
                })
            });
            block_on(async move {
                for n in 0..10 {
                    sender.send_async(n).await.unwrap();
                }
            });
            assert_eq!(sum.join().unwrap(), 45);
        });
    }
}

#[test]
fn without_room_a_future_leaves_its_value_in_line() {
    let (count, waker) = counter();
    let (sender, receiver) = channel::bounded(1);
    let mut sends = [1, 2, 3].map(|n| sender.send_async(n));
    assert!(matches!(poll(&mut sends[0], &waker), Poll::Ready(Ok(()))));
    assert!(poll(&mut sends[1], &waker).is_pending());
    assert!(poll(&mut sends[2], &waker).is_pending());
    assert!(poll(&mut sends[1], &waker).is_pending(), "and polling it again changes nothing");
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(matches!(poll(&mut sends[1], &waker), Poll::Ready(Ok(()))));
    assert!(poll(&mut sends[2], &waker).is_pending());
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(2), Ok(3)));
    assert!(receiver.try_recv().is_err());
    drop(sends);
    assert_eq!(Arc::strong_count(&count), 2, "no waker is kept");
}

#[test]
fn a_send_that_is_dropped_takes_its_value_along() {
    let (_, waker) = counter();
    for capacity in [0, 1] {
        let (sender, receiver) = channel::bounded(capacity);
        (0..capacity).for_each(|_| sender.try_send(Arc::new(0)).unwrap());
        let value = Arc::new(1);
        let fresh = sender.send_async(Arc::clone(&value));
        let mut polled = sender.send_async(Arc::clone(&value));
        assert!(poll(&mut polled, &waker).is_pending());
        drop((fresh, polled));
        assert_eq!(Arc::strong_count(&value), 1);
        assert_eq!(receiver.try_iter().count(), capacity);
        // One that is forgotten has left its value, and one that was taken is not withdrawn.
        let mut forgotten = sender.send_async(Arc::new(2));
        let mut taken = sender.send_async(Arc::new(3));
        (0..capacity).for_each(|_| sender.try_send(Arc::new(0)).unwrap());
        for send in [&mut forgotten, &mut taken] {
            assert!(poll(send, &waker).is_pending());
        }
        std::mem::forget(forgotten);
        let values: Vec<_> = receiver.try_iter().skip(capacity).map(|value| *value).collect();
        assert_eq!(values, [2, 3]);
        drop(taken);
        assert!(receiver.try_recv().is_err());
    }
}

#[test]
fn a_send_to_nobody_gives_the_value_back() {
    let (count, waker) = counter();
    for capacity in [0, 1] {
        let (sender, receiver) = channel::bounded(capacity);
        (0..capacity).for_each(|_| sender.try_send("first").unwrap());
        let mut waits = sender.send_async("second");
        assert!(poll(&mut waits, &waker).is_pending());
        let before = count.0.load(Ordering::SeqCst);
        drop(receiver);
        assert_eq!(count.0.load(Ordering::SeqCst), before + 1);
        for mut send in [waits, sender.send_async("second")] {
            let Poll::Ready(Err(error)) = poll(&mut send, &waker) else { panic!("it is ready") };
            assert_eq!(error.into_inner(), "second");
        }
    }
}

#[test]
fn strands_and_futures_send_in_turn() {
    ramie::Runtime::builder().workers(1).build().unwrap().run(|| {
        let (sender, receiver) = channel::bounded(1);
        sender.send("first").unwrap();
        let (_, waker) = counter();
        let mut futures = [0; 3].map(|_| sender.send_async("future"));
        futures.iter_mut().for_each(|send| assert!(poll(send, &waker).is_pending()));
        for _ in 0..3 {
            let sender = sender.clone();
            fiber::spawn(move || sender.send("strand").unwrap());
        }
        (0..5).for_each(|_| fiber::yield_now());
        drop((futures, sender));
        let order: Vec<_> = receiver.iter().collect();
        assert_eq!(order, ["first", "strand", "strand", "strand"], "the futures were dropped");
    });
    ramie::Runtime::builder().workers(1).build().unwrap().run(|| {
        let (sender, receiver) = channel::bounded(1);
        sender.send(0).unwrap();
        let (_, waker) = counter();
        let mut futures = [10, 11, 12].map(|n| sender.send_async(n));
        futures.iter_mut().for_each(|send| assert!(poll(send, &waker).is_pending()));
        for n in 1..4 {
            let sender = sender.clone();
            fiber::spawn(move || sender.send(n).unwrap());
        }
        (0..5).for_each(|_| fiber::yield_now());
        let order: Vec<_> = (0..7).map(|_| receiver.recv().unwrap()).collect();
        assert_eq!(order, [0, 10, 1, 11, 2, 12, 3]);
    });
}

#[test]
fn select_takes_values_that_async_code_sends() {
    ramie::run(|| {
        let (sender, receiver) = channel::bounded(0);
        let (_, waker) = counter();
        let mut send = sender.send_async(7);
        assert!(poll(&mut send, &waker).is_pending());
        let never = channel::never::<()>();
        let got = channel::select! {
            recv(receiver) -> value => value.unwrap(),
            recv(never) -> _ => unreachable!("it is never there"),
        };
        assert_eq!(got, 7);
        assert!(poll(&mut send, &waker).is_ready());
    });
}

#[test]
fn no_value_is_lost_among_many() {
    const EACH: usize = 200;
    for capacity in [0, 1, 4] {
        ramie::run(|| {
            let (sender, receiver) = channel::bounded(capacity);
            let takes_async = |receiver: channel::Receiver<usize>| {
                block_on(async {
                    let mut sum = 0;
                    while let Ok(n) = (&receiver).await {
                        sum += n;
                    }
                    sum
                })
            };
            let sum = fiber::scope(|scope| {
                let mut sums = Vec::new();
                for _ in 0..2 {
                    let (one, other) = (receiver.clone(), receiver.clone());
                    sums.push(scope.spawn(move || takes_async(one)));
                    sums.push(scope.spawn(move || other.iter().sum()));
                    let (one, other) = (sender.clone(), sender.clone());
                    scope.spawn(move || (1..=EACH).for_each(|n| one.send(n).unwrap()));
                    scope.spawn(move || {
                        block_on(async {
                            for n in 1..=EACH {
                                other.send_async(n).await.unwrap();
                            }
                        });
                    });
                }
                drop((sender, receiver));
                sums.into_iter().map(|sum| sum.join().unwrap()).sum::<usize>()
            });
            assert_eq!(sum, 4 * EACH * (EACH + 1) / 2);
        });
    }
}
