//! Actors: order of closures, results, each way to end, on every kind of strand.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::common::{everywhere, on_each, panic_text, wait_until};
use ramie::{
    actor::{Actor, CallError},
    cancel, channel, fiber,
    structured::Failure,
    sync::{Arc, Semaphore},
};

#[test]
fn closures_run_one_by_one_in_the_order_of_each_sender() {
    everywhere(|| {
        let actor = Actor::with_mailbox(3, Vec::new());
        fiber::scope(|s| {
            for sender in 0..4 {
                let actor = actor.clone();
                s.spawn(move || {
                    for number in 0..50 {
                        actor.cast(move |seen: &mut Vec<_>| seen.push((sender, number))).unwrap();
                    }
                    actor.call(|_| ()).unwrap();
                });
            }
        });
        let seen = actor.stop().unwrap();
        assert_eq!(seen.len(), 200);
        for sender in 0..4 {
            let numbers = seen.iter().filter(|(by, _)| *by == sender).map(|(_, number)| *number);
            assert!(numbers.eq(0..50), "the order of sender {sender}");
        }
    });
}

#[test]
fn a_closure_may_wait_while_others_queue_behind_it() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let actor = Actor::spawn(0);
            actor.cast(|_| fiber::sleep(Duration::from_millis(2))).unwrap();
            actor.cast(|count| *count += 1).unwrap();
            assert_eq!(actor.call(|count| *count), Ok(1));
        });
    });
}

#[test]
fn calls_of_a_stopped_actor_fail() {
    everywhere(|| {
        let actor = Actor::with_mailbox(0, 7);
        let other = actor.clone();
        assert_eq!(actor.stop(), Ok(7));
        assert_eq!(other.cast(|_| ()), Err(CallError::Stopped));
        assert_eq!(other.call(|n| *n), Err(CallError::Stopped));
        assert_eq!(other.stop(), Err(CallError::Stopped));
        assert_eq!(CallError::Stopped.to_string(), "the actor was stopped");
    });
}

#[test]
fn the_drop_of_the_last_handle_lets_the_actor_finish() {
    struct Says(Arc<AtomicUsize>);
    impl Drop for Says {
        fn drop(&mut self) {
            self.0.fetch_add(100, Ordering::SeqCst);
        }
    }
    everywhere(|| {
        let done = Arc::new(AtomicUsize::new(0));
        let actor = Actor::spawn(Says(Arc::clone(&done)));
        for _ in 0..10 {
            actor.cast(|says| _ = says.0.fetch_add(1, Ordering::SeqCst)).unwrap();
        }
        drop(actor);
        wait_until(|| done.load(Ordering::SeqCst) == 110);
    });
}

#[test]
fn a_panic_ends_the_actor_and_its_callers_get_an_error() {
    everywhere(|| {
        let actor = Actor::spawn(());
        let gate = Arc::new(Semaphore::new(0));
        let theirs = Arc::clone(&gate);
        actor.cast(move |()| theirs.acquire().unwrap().forget()).unwrap();
        fiber::scope(|s| {
            let panics = s.spawn(|| actor.call(|()| panic!("as the test wants")));
            let waits = s.spawn(|| actor.call(|()| 1));
            gate.add_permits(1);
            assert_eq!(panics.join().unwrap(), Err::<(), _>(CallError::Panicked));
            // The call came either before the panic or after it.
            let waited = waits.join().unwrap();
            assert!([Ok(1), Err(CallError::Panicked)].contains(&waited), "{waited:?}");
        });
    });
}

#[test]
fn after_a_panic_every_call_fails_with_panicked() {
    everywhere(|| {
        let actor = Actor::spawn(1);
        let result = actor.call(|_| -> u8 { panic!("as the test wants") });
        assert_eq!(result, Err(CallError::Panicked));
        assert_eq!(actor.call(|n| *n), Err(CallError::Panicked));
        assert_eq!(actor.stop(), Err(CallError::Panicked));
        let cast = Actor::spawn(());
        cast.cast(|()| panic!("as the test wants")).unwrap();
        assert_eq!(cast.call(|()| ()), Err(CallError::Panicked));
    });
}

/// Makes an actor that does nothing until the gate is opened, with room for one closure.
fn busy_actor() -> (Actor<i32>, Arc<Semaphore>) {
    let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (opens, begins) = (Arc::clone(&gate), Arc::clone(&started));
    let actor = Actor::with_mailbox(1, 0);
    actor
        .cast(move |_| {
            begins.add_permits(1);
            opens.acquire().unwrap().forget();
        })
        .unwrap();
    started.acquire().unwrap().forget();
    (actor, gate)
}

#[test]
fn a_full_mailbox_is_a_cancel_point() {
    everywhere(|| {
        let (actor, gate) = busy_actor();
        actor.cast(|count| *count += 1).unwrap();
        let soon = Duration::from_millis(2);
        let called = cancel::with_timeout(soon, || actor.call(|count| *count += 10));
        assert_eq!(called.unwrap_err().into_value(), Err(CallError::Cancelled));
        let refused = cancel::with_timeout(soon, || actor.cast(|count| *count += 10));
        assert!(refused.unwrap_err().into_value().unwrap_err().is_cancelled());
        let stopped = cancel::with_timeout(soon, || actor.stop());
        assert_eq!(stopped.unwrap_err().into_value(), Err(CallError::Cancelled));
        gate.add_permits(1);
        assert_eq!(actor.stop(), Ok(1));
    });
}

#[test]
fn a_closure_that_was_sent_runs_although_its_caller_was_cancelled() {
    everywhere(|| {
        let (actor, gate) = busy_actor();
        let token = Arc::new(());
        let theirs = Arc::clone(&token);
        let called = cancel::with_timeout(Duration::from_millis(2), || {
            actor.call(move |count| *count = i32::from(Arc::strong_count(&theirs) > 1))
        });
        assert_eq!(called.unwrap_err().into_value(), Err(CallError::Cancelled));
        // The timeout may have passed before the closure was sent.
        let was_sent = Arc::strong_count(&token) > 1;
        gate.add_permits(1);
        assert_eq!(actor.call(|count| *count), Ok(i32::from(was_sent)));
    });
}

#[test]
fn an_actor_that_calls_itself_panics_with_a_message() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let actor = Actor::with_mailbox(1, ());
            let own = actor.clone();
            let (said, hears) = channel::bounded(3);
            actor
                .cast(move |()| {
                    said.send(panic_text(|| own.call(|()| ()))).unwrap();
                    said.send(panic_text(|| own.stop())).unwrap();
                    own.cast(|()| ()).unwrap();
                    said.send(panic_text(|| own.cast(|()| ()))).unwrap();
                })
                .unwrap();
            for _ in 0..2 {
                assert!(hears.recv().unwrap().contains("cannot call itself"));
            }
            assert!(hears.recv().unwrap().contains("its own full mailbox"));
        });
    });
}
