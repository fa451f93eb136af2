//! How scopes report the ends of their strands: values, causes, cancellations.

use std::time::Duration;

use crate::common::{one_worker, wait_until};
use ramie::{
    cancel::{self, Cancelled},
    fiber,
    structured::{Ready, Strategy, Supervisor, try_scope},
    sync::Event,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A supervisor that restarts nothing.
fn strict() -> Supervisor {
    Supervisor::new().limit(0, MINUTE)
}

#[test]
fn the_value_of_a_ready_fiber_is_returned() {
    one_worker().run(|| {
        let port = try_scope(|scope| {
            scope.start(|ready: Ready<u16>| {
                ready.set(7);
                Ok::<_, Cancelled>(())
            })
        });
        assert_eq!(port.unwrap(), 7);
    });
}

#[test]
fn a_panic_cancels_the_siblings() {
    one_worker().run(|| {
        let scope = fiber::spawn(|| {
            let _ = try_scope(|scope| {
                scope.spawn(|| Event::new().wait());
                scope.spawn(|| -> Result<(), Cancelled> { panic!("expected") });
                Ok(())
            });
        });
        wait_until(|| scope.is_finished());
        assert!(scope.join().is_err());
    });
}

#[test]
fn the_first_of_several_ends_is_the_cause() {
    one_worker().run(|| {
        let gave_up = strict().strategy(Strategy::OneForAll).run(|supervised| {
            supervised.add("second", || {
                let _ = Event::new().wait();
                Err("after the cancellation")
            });
            supervised.add("first", || Err("at once"));
        });
        assert_eq!(gave_up.unwrap_err().child(), "first");
    });
}

#[test]
fn a_reported_cancellation_is_dropped_only_if_the_child_was_cancelled() {
    one_worker().run(|| {
        let cancelled = cancel::scope(|scope| {
            let handle = scope.handle();
            // Sent by the child itself, because a child that is cancelled before it begins is not
            // called at all.
            let child = || {
                handle.cancel();
                Event::new().wait()
            };
            strict().run(|supervised| supervised.add("waits", child))
        });
        assert!(cancelled.is_ok(), "counted as a failure: {cancelled:?}");
        let lies = || Err(Cancelled::because("a limit of its own"));
        let gave_up = strict().run(|supervised| supervised.add("lies", lies));
        assert_eq!(gave_up.unwrap_err().child(), "lies");
    });
}
