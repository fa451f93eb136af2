//! OpenTelemetry's context on fibers, without `tracing`.

use opentelemetry::Context;
use ramie::{Runtime, fiber};
use ramie_otlp_example::with_context;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Client(u32);

fn current() -> Option<Client> {
    Context::current().get::<Client>().copied()
}

#[test]
fn each_fiber_has_its_context() {
    for workers in [1, 2] {
        Runtime::builder().workers(workers).build().expect("a runtime").run(|| {
            let serve = |number: u32| {
                with_context(Context::new().with_value(Client(number)), || {
                    for _ in 0..10 {
                        fiber::yield_now();
                        assert_eq!(current(), Some(Client(number)));
                    }
                    fiber::scope(|scope| {
                        let child = scope.spawn(|| {
                            fiber::yield_now();
                            current()
                        });
                        assert_eq!(child.join().expect("no panic"), Some(Client(number)));
                    });
                });
                fiber::yield_now();
                assert_eq!(current(), None);
            };
            fiber::scope(|scope| {
                (0..8).for_each(|number| drop(scope.spawn(move || serve(number))));
                (0..10).for_each(|_| {
                    fiber::yield_now();
                    assert_eq!(current(), None);
                });
            });
        });
    }
}
