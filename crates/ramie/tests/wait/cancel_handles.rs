//! Closures that run in the scope of a handle, after the scope's own closure has returned.

use ramie::{
    Runtime,
    cancel::{self, CancelHandle, check_cancelled},
    fiber,
    sync::Event,
};

fn kept() -> CancelHandle {
    cancel::scope(|scope| scope.handle())
}

fn on_workers(workers: usize, f: impl FnOnce()) {
    Runtime::builder().workers(workers).build().unwrap().run(f);
}

#[test]
fn a_scope_serves_calls_one_after_another() {
    on_workers(1, || {
        let handle = kept();
        for _ in 0..3 {
            assert!(handle.run(check_cancelled).is_ok());
        }
        handle.cancel_because("over");
        assert_eq!(handle.run(check_cancelled).unwrap_err().to_string(), "cancelled: over");
        assert!(check_cancelled().is_ok(), "the scope was left");
    });
}

#[test]
fn a_scope_serves_strands_at_once_and_theirs() {
    on_workers(2, || {
        let handle = kept();
        let ready = ramie::sync::Barrier::new(4);
        fiber::scope(|fibers| {
            for number in 0..3 {
                let (handle, ready) = (handle.clone(), &ready);
                fibers.spawn(move || {
                    handle.run(|| {
                        ready.wait();
                        let wait = || Event::new().wait().is_err();
                        let ended = match number {
                            0 => wait(),
                            _ => fiber::scope(|inner| inner.spawn(wait).join().unwrap()),
                        };
                        assert!(ended, "{number}");
                    });
                });
            }
            ready.wait();
            handle.cancel();
        });
    });
}

#[test]
fn a_scope_around_the_call_cancels_it_but_not_the_handle() {
    on_workers(1, || {
        let handle = kept();
        cancel::scope(|outer| {
            outer.cancel();
            handle.run(|| {
                assert!(check_cancelled().is_err());
                let inner = || check_cancelled().is_err();
                assert!(fiber::scope(|fibers| fibers.spawn(inner).join().unwrap()));
            });
        });
        assert!(!handle.is_cancelled() && handle.run(check_cancelled).is_ok());
        // While it is inside of a scope, the handle still cancels it.
        cancel::scope(|_| {
            handle.run(|| {
                handle.cancel();
                assert!(check_cancelled().is_err());
            });
            handle.run(|| assert!(check_cancelled().is_err()));
            assert!(check_cancelled().is_ok());
        });
    });
}

#[test]
fn a_scope_may_be_entered_inside_itself() {
    on_workers(1, || {
        let (one, other) = (kept(), kept());
        one.run(|| {
            other.run(|| {
                one.run(|| {
                    assert!(check_cancelled().is_ok());
                    one.cancel();
                    assert!(check_cancelled().is_err());
                });
            });
        });
        assert!(one.run(check_cancelled).is_err());
        // The next call after a cancellation finds no list of members that leads in a circle.
        drop(one);
        other.cancel();
        assert!(other.run(check_cancelled).is_err());
    });
}
