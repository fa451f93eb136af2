//! Strands that wait for futures.

use std::{
    cell::Cell,
    future::{Future, pending, poll_fn, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

use ramie::{
    cancel, fiber,
    future::{block_on, block_on_or_cancelled},
    sync::Event,
};

/// A future that another side makes ready.
#[derive(Default)]
struct Shared(Mutex<(bool, Option<Waker>)>);

impl Shared {
    fn make_ready(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wait(&self) -> impl Future<Output = ()> {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
    }

    fn has_waker(&self) -> bool {
        self.0.lock().unwrap().1.is_some()
    }
}

fn on_every_strand(test: impl Fn()) {
    test();
    ramie::run(&test);
}

#[test]
fn a_future_that_is_ready_is_not_waited_for() {
    on_every_strand(|| {
        assert_eq!(block_on(ready(5)), 5);
        ramie::no_switch(|| assert_eq!(block_on(async { 6 }), 6));
    });
}

#[test]
fn another_fiber_makes_it_ready() {
    ramie::run(|| {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let waiter = fiber::spawn_local(move || block_on(theirs.wait()));
        while !shared.has_waker() {
            fiber::yield_now();
        }
        shared.make_ready();
        waiter.join().unwrap();
    });
}

#[test]
fn a_thread_and_another_runtime_make_it_ready() {
    on_every_strand(|| {
        for in_runtime in [false, true] {
            let shared = Arc::new(Shared::default());
            let theirs = Arc::clone(&shared);
            let wake = move || {
                while !theirs.has_waker() {
                    std::thread::yield_now();
                }
                theirs.make_ready();
            };
            let thread =
                std::thread::spawn(move || if in_runtime { ramie::run(wake) } else { wake() });
            block_on(shared.wait());
            thread.join().unwrap();
        }
    });
}

#[test]
fn locals_may_be_borrowed() {
    on_every_strand(|| {
        let mut list = vec![1, 2];
        block_on(async { list.push(3) });
        assert_eq!(list, [1, 2, 3]);
    });
}

#[test]
fn a_wake_up_inside_of_the_poll_is_not_lost_and_lets_others_run() {
    ramie::run(|| {
        let ran = Cell::new(0);
        let ran = &ran;
        fiber::scope(|scope| {
            scope.spawn_local(|| {
                for _ in 0..3 {
                    ran.set(ran.get() + 1);
                    fiber::yield_now();
                }
            });
            let mut left = 3;
            block_on(poll_fn(|context| {
                if left == 0 {
                    return Poll::Ready(());
                }
                left -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            }));
            assert!(ran.get() >= 2, "others ran {} times", ran.get());
        });
    });
}

#[test]
fn wake_ups_for_no_reason_are_polls_and_no_more() {
    on_every_strand(|| {
        let (polls, kept) = (AtomicUsize::new(0), Mutex::new(None));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=10 {
                    while polls.load(Ordering::SeqCst) < round {
                        std::thread::yield_now();
                    }
                    let waker: Waker = kept.lock().unwrap().clone().unwrap();
                    waker.wake();
                }
            });
            block_on(poll_fn(|context| {
                *kept.lock().unwrap() = Some(context.waker().clone());
                match polls.fetch_add(1, Ordering::SeqCst) {
                    10 => Poll::Ready(()),
                    _ => Poll::Pending,
                }
            }));
        });
        assert_eq!(polls.into_inner(), 11);
    });
}

#[test]
fn a_waker_may_outlive_the_call_the_fiber_and_the_runtime() {
    let keep = || {
        let mut kept = None;
        block_on(poll_fn(|context| {
            kept = Some(context.waker().clone());
            Poll::Ready(())
        }));
        kept.unwrap()
    };
    let waker = ramie::run(move || {
        let waker = fiber::spawn(keep).join().unwrap();
        waker.wake_by_ref();
        // A new fiber, perhaps in the same header, does not notice.
        let is_woken = fiber::spawn(move || {
            waker.wake_by_ref();
            (waker, Event::new().wait_timeout(Duration::from_millis(1)))
        });
        let (waker, is_woken) = is_woken.join().unwrap();
        assert_eq!(is_woken, Ok(false));
        waker
    });
    waker.wake_by_ref();
    std::thread::spawn(move || drop(waker)).join().unwrap();
    std::mem::forget(keep());
}

#[test]
fn the_token_of_unpark_stays() {
    ramie::run(|| {
        fiber::current().unpark();
        let shared = Shared::default();
        std::thread::scope(|scope| {
            scope.spawn(|| shared.make_ready());
            block_on(shared.wait());
        });
        // Returns at once.
        fiber::park();
    });
}

/// The compiler would forget the output, which is there already.
#[test]
fn a_panic_of_the_futures_destructor_drops_the_output() {
    struct Bomb(std::sync::Arc<()>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    impl Future for Bomb {
        type Output = std::sync::Arc<()>;
        fn poll(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<Self::Output> {
            Poll::Ready(std::sync::Arc::clone(&self.0))
        }
    }
    on_every_strand(|| {
        let output = std::sync::Arc::new(());
        let theirs = std::sync::Arc::clone(&output);
        assert!(catch_unwind(AssertUnwindSafe(|| block_on(Bomb(theirs)))).is_err());
        let theirs = std::sync::Arc::clone(&output);
        let call = || ramie::future::block_on_or_cancelled(Bomb(theirs));
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        assert_eq!(std::sync::Arc::strong_count(&output), 1);
    });
}

#[test]
fn a_panic_in_poll_is_the_callers() {
    on_every_strand(|| {
        let result = catch_unwind(|| block_on(poll_fn(|_| -> Poll<()> { panic!("in poll") })));
        assert_eq!(result.unwrap_err().downcast_ref(), Some(&"in poll"));
        assert_eq!(block_on(ready(1)), 1);
    });
}

#[test]
fn calls_nest() {
    on_every_strand(|| {
        let (outer, inner) = (Shared::default(), Shared::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !inner.has_waker() {
                    std::thread::yield_now();
                }
                // Noticed when the inner call is over.
                outer.make_ready();
                inner.make_ready();
            });
            block_on(async {
                block_on(inner.wait());
                outer.wait().await;
            });
        });
    });
}

#[test]
fn no_wake_up_is_lost() {
    on_every_strand(|| {
        let (ours, theirs) = (Shared::default(), Shared::default());
        let wait = |shared: &Shared| {
            block_on(shared.wait());
            shared.0.lock().unwrap().0 = false;
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..500 {
                    wait(&theirs);
                    ours.make_ready();
                }
            });
            for _ in 0..500 {
                theirs.make_ready();
                wait(&ours);
            }
        });
    });
}

#[test]
fn cancelling_ends_the_wait_and_drops_the_future() {
    on_every_strand(|| {
        struct Noted<'a>(&'a Cell<bool>);
        impl Drop for Noted<'_> {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let is_dropped = Cell::new(false);
        let noted = Noted(&is_dropped);
        let wait = || {
            block_on_or_cancelled(async {
                let _noted = noted;
                pending::<()>().await;
            })
        };
        let late = cancel::with_timeout(Duration::from_millis(1), wait).unwrap_err();
        assert!(late.into_value().unwrap_err().is_deadline());
        assert!(is_dropped.get());
    });
}

#[test]
fn in_a_cancelled_scope_it_fails_at_once_and_a_kept_future_goes_on() {
    on_every_strand(|| {
        let shared = Shared::default();
        let mut future = pin!(shared.wait());
        cancel::scope(|scope| {
            scope.cancel();
            assert!(block_on_or_cancelled(future.as_mut()).is_err());
        });
        shared.make_ready();
        assert_eq!(block_on_or_cancelled(future), Ok(()));
    });
}

#[test]
fn a_future_that_always_wakes_itself_can_be_cancelled() {
    on_every_strand(|| {
        let busy = || {
            block_on_or_cancelled(poll_fn(|context| -> Poll<()> {
                context.waker().wake_by_ref();
                Poll::Pending
            }))
        };
        let late = cancel::with_timeout(Duration::from_millis(2), busy).unwrap_err();
        assert!(late.into_value().is_err());
    });
}

#[test]
fn waiting_where_nothing_may_switch_panics() {
    ramie::run(|| {
        let wait = || ramie::no_switch(|| block_on(pending::<()>()));
        assert!(catch_unwind(AssertUnwindSafe(wait)).is_err());
    });
}
