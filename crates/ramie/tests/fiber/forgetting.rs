//! Safe code may forget whatever it is given, in every state: that leaks, and does no more harm.

use std::{
    future::Future,
    mem::forget,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use crate::common;
use crate::common::{everywhere, one_worker};
use ramie::{
    cancel::{self, with_timeout},
    channel,
    effect::{Effect, Next, handle, perform},
    fiber, no_switch,
    structured::{set, try_scope},
    sync::{Condvar, Event, Mutex, RwLock, Semaphore, broadcast, mpsc, oneshot, watch},
};
use ramie_coro::{Coroutine, Generator, Yielder, delimited};

const SHORT: Duration = Duration::from_millis(1);

#[test]
fn handles_of_strands() {
    everywhere(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let spawn = || {
            let ended = Arc::clone(&ended);
            fiber::spawn(move || {
                fiber::yield_now();
                ended.fetch_add(1, SeqCst);
                vec![1; 100]
            })
        };
        forget(spawn());
        let named = spawn();
        named.fiber().unpark();
        forget(named.fiber().clone());
        forget(named);
        let done = spawn();
        while !done.is_finished() {
            fiber::yield_now();
        }
        forget(done);
        let mut waited_for = spawn();
        let _ = with_timeout(Duration::ZERO, || waited_for.wait());
        forget(waited_for);
        common::wait_until(|| ended.load(SeqCst) == 4);
    });
}

/// Counts its calls.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll_and_forget(mut future: impl Future + Unpin, waker: &Waker) {
    assert!(Pin::new(&mut future).poll(&mut Context::from_waker(waker)).is_pending());
    forget(future);
}

#[test]
fn futures_that_were_polled() {
    let count = Arc::new(Count::default());
    one_worker().run(|| {
        let waker = Waker::from(Arc::clone(&count));
        let event = Event::new();
        fiber::scope(|scope| {
            let waits = scope.spawn(|| event.wait().unwrap());
            poll_and_forget(waits.into_future(), &waker);
            poll_and_forget(fiber::spawn(|| ()).into_future(), &waker);
            let (sender, receiver) = channel::bounded(0);
            poll_and_forget((&receiver).into_future(), &waker);
            // A strand that is awaited in vain takes nothing.
            scope.spawn(move || sender.send(String::from("whole")).unwrap());
            assert_eq!(receiver.recv().unwrap(), "whole");
            let (sender, receiver) = oneshot::channel();
            poll_and_forget(receiver.into_future(), &waker);
            sender.send(vec![1]).unwrap();
            event.set();
        });
    });
    assert_eq!(count.0.load(SeqCst), 4, "each was woken once");
}

#[test]
fn guards() {
    everywhere(|| {
        // On another strand, because a strand that waits for a lock that it holds gets a panic.
        let refused = |wait: &(dyn Fn() -> bool + Sync)| {
            let wait = || with_timeout(SHORT, wait).unwrap_or_else(cancel::Elapsed::into_value);
            assert!(!fiber::scope(|scope| scope.spawn(wait).join().unwrap()));
        };
        let mutex = Mutex::new(1);
        forget(mutex.lock().unwrap());
        refused(&|| mutex.lock_or_cancelled().is_ok());
        let lock = RwLock::new(1);
        forget(lock.read().unwrap());
        assert_eq!(*lock.read().unwrap(), 1);
        refused(&|| lock.write_or_cancelled().is_ok());
        let lock = RwLock::new(1);
        forget(lock.write().unwrap());
        refused(&|| lock.read_or_cancelled().is_ok());
        let permits = Semaphore::new(1);
        forget(permits.acquire().unwrap());
        refused(&|| permits.acquire().is_ok());
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let guard = mutex.lock().unwrap();
        forget(condvar.wait_timeout(guard, SHORT).unwrap());
        condvar.notify_all();
        let (sender, receiver) = watch::channel(1);
        forget(receiver.borrow());
        assert_eq!(*sender.borrow(), 1);
        forget((sender, receiver));
    });
}

#[test]
fn ends_of_channels() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        sender.send(String::from("kept")).unwrap();
        forget(sender);
        assert_eq!(receiver.recv().unwrap(), "kept");
        assert!(receiver.recv_timeout(SHORT).is_err());
        forget(receiver);
        let (sender, receiver) = broadcast::channel(1);
        sender.send(String::from("kept")).unwrap();
        forget((sender, receiver));
        let (sender, receiver) = mpsc::sync_channel(0);
        forget(receiver);
        assert!(sender.try_send(String::new()).is_err());
        forget((channel::after(SHORT), channel::tick(SHORT), channel::never::<u8>()));
        let (sender, receiver) = oneshot::channel::<String>();
        forget(sender);
        assert!(receiver.recv_timeout(SHORT).is_err());
    });
}

#[test]
fn what_scopes_give() {
    everywhere(|| {
        let text = String::from("borrowed by all");
        let outcome = try_scope(|scope| {
            forget(scope.spawn(|| Ok::<_, String>(text.len())));
            forget(scope.spawn_local(|| Err::<(), _>(text.clone())));
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().cause(), &text);
        set(|set| {
            set.spawn(|| text.len());
            let mut outcomes = set.outcomes();
            forget(outcomes.next());
            forget(outcomes);
            set.spawn(|| text.len());
        });
        // A coroutine that has opened scopes, and is left in the midst of them.
        fiber::scope(|scope| {
            scope.spawn_local(|| {
                let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
                    let local = vec![7; 100];
                    cancel::scope(|_| {
                        fiber::scope(|inner| {
                            inner.spawn(|| assert_eq!(local.iter().sum::<u32>(), 700));
                            yielder.suspend(());
                        });
                    });
                });
                coroutine.resume(());
                forget(coroutine);
            });
        });
    });
}

struct Ask;

impl Effect for Ask {
    type Output = u32;
}

#[test]
fn what_suspends() {
    everywhere(|| {
        let outside = String::from("borrowed");
        let dropped = AtomicUsize::new(0);
        struct Noted<'a>(&'a AtomicUsize);
        impl Drop for Noted<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let body = || {
            let _noted = Noted(&dropped);
            fiber::scope(|scope| {
                scope.spawn(|| assert_eq!(outside.len(), 8));
                perform(Ask)
            })
        };
        let answer = handle(body, |_: Ask, resume| {
            forget(resume);
            Next::Return(7)
        });
        assert_eq!(answer, 7);
        assert_eq!(dropped.load(SeqCst), 1, "the body was unwound all the same");
        let shifted = delimited::reset(|prompt| {
            let _noted = Noted(&dropped);
            prompt.shift(|rest| {
                forget(rest);
                outside.len()
            })
        });
        assert_eq!((shifted, dropped.load(SeqCst)), (8, 2));
        let mut generator = Generator::new(|yielder: &Yielder<(), u8>| yielder.suspend(1));
        assert_eq!(generator.next(), Some(1));
        forget(generator);
        forget(Coroutine::<(), (), ()>::new(|_, ()| ()));
        no_switch(|| forget(vec![1]));
    });
}
