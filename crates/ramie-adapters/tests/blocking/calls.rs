//! Calls that end in order.

use std::{io, thread};

use ramie::{Runtime, fiber};
use ramie_adapters::Blocking;

use crate::tracked::{Gate, Tracked};

#[test]
fn a_value_keeps_its_state_from_call_to_call() {
    let (value, drops) = Tracked::new();
    ramie::run(move || {
        let mut value = Blocking::new(value);
        let mut borrowed = Vec::new();
        for number in 1..=3 {
            value.run(|value| borrowed.push(value.call()));
            assert_eq!(borrowed.len(), number);
        }
        assert_eq!(value.run_or_cancelled(Tracked::call).unwrap(), 4);
        assert!(!value.is_lost() && !drops.is_dropped());
        assert_eq!(value.into_inner().unwrap().call(), 5);
        assert!(drops.is_dropped());
    });
}

#[test]
fn other_fibers_of_the_worker_run_during_a_call() {
    Runtime::builder().workers(1).build().unwrap().run(|| {
        for is_cancel_point in [false, true] {
            let (gate, wait) = Gate::new();
            let opener = fiber::spawn_local(move || {
                gate.begun();
                gate.open();
            });
            let mut value = Blocking::new(0);
            let call = move |value: &mut i32| {
                wait();
                *value += 1;
            };
            match is_cancel_point {
                true => value.run_or_cancelled(call).unwrap(),
                false => value.run(call),
            }
            opener.join().unwrap();
            assert_eq!(value.into_inner(), Some(1));
        }
    });
}

#[test]
fn a_value_is_opened_used_and_dropped_on_the_pool() {
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let worker = thread::current().id();
        let (value, drops) = Tracked::new();
        let mut value = Blocking::open(|| {
            assert_ne!(thread::current().id(), worker);
            Ok::<_, io::Error>(value)
        })
        .unwrap();
        assert_ne!(value.run(|_| thread::current().id()), worker);
        assert_ne!(value.run_or_cancelled(|_| thread::current().id()).unwrap(), worker);
        drop(value);
        assert_ne!(drops.wait(), worker);
    });
}

#[test]
fn an_error_of_opening_is_returned() {
    ramie::run(|| {
        let failed = Blocking::<i32>::open(|| Err(io::Error::from(io::ErrorKind::NotFound)));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn threads_outside_a_runtime_make_calls_too() {
    let (value, drops) = Tracked::new();
    let mut value = Blocking::new(value);
    assert_eq!(value.run(Tracked::call), 1);
    assert_eq!(value.run_or_cancelled(Tracked::call).unwrap(), 2);
    drop(value);
    assert!(drops.is_dropped());
}
