//! Calls that panic.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use ramie::{Runtime, no_switch};
use ramie_adapters::Blocking;

use crate::tracked::Tracked;

fn panic_of<T>(f: impl FnOnce() -> T) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).map(drop).unwrap_err();
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap()
}

#[test]
fn a_panic_reaches_the_caller_and_loses_the_value() {
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let worker = thread::current().id();
        for is_cancel_point in [false, true] {
            let (value, drops) = Tracked::new();
            let mut value = Blocking::new(value);
            let fail = |_: &mut Tracked| -> u64 { panic!("this panic is on purpose") };
            let text = panic_of(|| match is_cancel_point {
                true => value.run_or_cancelled(fail).unwrap(),
                false => value.run(fail),
            });
            assert_eq!(text, "this panic is on purpose");
            assert!(value.is_lost());
            assert_ne!(drops.wait(), worker);
            assert!(panic_of(|| value.run(Tracked::call)).contains("the value is lost"));
            let refused = value.run_or_cancelled(Tracked::call).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
            assert!(value.into_inner().is_none());
        }
    });
}

#[test]
fn a_refused_wait_does_not_lose_the_value() {
    ramie::run(|| {
        let mut value = Blocking::new(0);
        let text = panic_of(|| no_switch(|| value.run(|value| *value += 1)));
        assert!(text.contains("no_switch"), "{text}");
        assert_eq!(value.run(|value| *value), 0);
        let text = panic_of(|| no_switch(|| value.run_or_cancelled(|value| *value += 1)));
        assert!(text.contains("no_switch"), "{text}");
        assert_eq!(value.run(|value| *value), 0, "the closure never runs");
        ramie::fiber::yield_now();
        assert_eq!(value.run(|value| *value), 0, "the closure never runs");
    });
}

#[test]
fn a_value_may_be_dropped_while_its_fiber_unwinds() {
    ramie::run(|| {
        let (value, drops) = Tracked::new();
        let text = panic_of(move || {
            let _value = Blocking::new(value);
            panic!("this panic is on purpose");
        });
        assert_eq!(text, "this panic is on purpose");
        assert!(drops.is_dropped());
    });
}
