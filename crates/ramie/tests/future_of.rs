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
