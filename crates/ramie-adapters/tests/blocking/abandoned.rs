//! Fibers that are abandoned during a call.

use std::time::Duration;

use ramie::{Runtime, channel::unbounded, fiber};
use ramie_adapters::Blocking;

use crate::tracked::{Gate, Tracked};

/// A job of an abandoned fiber goes on after the runtime has ended, and uses the value.
fn job_of_an_abandoned_fiber(is_cancel_point: bool) {
    let (value, drops) = Tracked::new();
    let (gate, wait) = Gate::new();
    let (used, was_used) = unbounded();
    let runtime = Runtime::builder().workers(1).build().unwrap().start().unwrap();
    let call = move |value: &mut Tracked| {
        value.call();
        wait();
        let _ = used.send(value.call());
    };
    let caller = runtime.handle().spawn(move || {
        let mut value = Blocking::new(value);
        match is_cancel_point {
            true => value.run_or_cancelled(call).unwrap(),
            false => value.run(call),
        }
    });
    let caller = caller.unwrap();
    gate.begun();
    let abandoned = runtime.shutdown(Duration::ZERO);
    assert!(abandoned.count() > 0);
    drop(caller);
    // The stacks of the fibers are leaked, and no thread of the runtime is left but the job's.
    gate.open();
    assert_eq!(was_used.recv(), Ok(2));
    assert!(!drops.is_dropped());
}

#[test]
fn a_job_of_an_abandoned_fiber_keeps_its_value() {
    job_of_an_abandoned_fiber(false);
}

#[test]
fn a_job_of_an_abandoned_fiber_that_could_have_left_keeps_its_value() {
    job_of_an_abandoned_fiber(true);
}

#[test]
fn a_runtime_waits_for_a_call_that_was_left() {
    let (value, drops) = Tracked::new();
    let (gate, wait) = Gate::new();
    ramie::run(move || {
        let mut value = Blocking::new(value);
        ramie::cancel::scope(|scope| {
            fiber::scope(|fibers| {
                let call = fibers.spawn_local(|| value.run_or_cancelled(move |_| wait()));
                gate.begun();
                scope.cancel();
                assert!(call.join().unwrap().is_err());
            });
        });
        assert!(value.is_lost());
        gate.open();
    });
    assert!(drops.is_dropped());
}
