//! Scoped values: where they are bound, and who has them.

use std::sync::Arc;

use crate::common::{panic_text, with_workers};
use ramie::{Strands, fiber, scoped_value::ScopedValue};
use ramie_coro::{Coroutine, Resumed, Yielder};

static DEPTH: ScopedValue<u32> = ScopedValue::new();
static NAME: ScopedValue<&str> = ScopedValue::new();

fn depth() -> Option<u32> {
    DEPTH.get().map(|depth| *depth)
}

#[test]
fn a_binding_lasts_for_its_call_and_hides_the_one_outside() {
    assert_eq!(depth(), None);
    DEPTH.bind(1, || {
        assert_eq!(depth(), Some(1));
        DEPTH.bind(2, || assert_eq!(depth(), Some(2)));
        assert!(panic_text(|| DEPTH.bind(3, || panic!("inside"))).contains("inside"));
        assert_eq!(depth(), Some(1));
        assert!(!NAME.is_bound());
        let shared = Arc::new("shared");
        NAME.bind_shared(Arc::clone(&shared), || {
            assert!(Arc::ptr_eq(&NAME.get().unwrap(), &shared));
            assert_eq!(depth(), Some(1));
        });
    });
    assert_eq!(depth(), None);
}

#[test]
fn strands_of_scopes_inherit_and_detached_ones_do_not() {
    for strands in [Strands::Fibers, Strands::Threads] {
        let runtime = ramie::Runtime::builder().workers(2).strands(strands).build().unwrap();
        runtime.run(|| {
            DEPTH.bind(1, || {
                NAME.bind("outer", || {
                    fiber::scope(|outer| {
                        outer.spawn(|| {
                            assert_eq!((depth(), *NAME.get().unwrap()), (Some(1), "outer"));
                            DEPTH.bind(2, || {
                                fiber::scope(|inner| {
                                    inner.spawn(|| {
                                        let both = (depth(), *NAME.get().unwrap());
                                        assert_eq!(both, (Some(2), "outer"));
                                    });
                                });
                            });
                            assert_eq!(depth(), Some(1));
                        });
                    });
                    assert_eq!(fiber::spawn(depth).join().unwrap(), None);
                });
            });
        });
    }
}

#[test]
fn fibers_of_one_worker_have_each_their_own() {
    with_workers(1).run(|| {
        let strands: Vec<_> = (0..10)
            .map(|n| {
                fiber::spawn(move || {
                    DEPTH.bind(n, || {
                        for _ in 0..10 {
                            fiber::yield_now();
                            assert_eq!(depth(), Some(n));
                        }
                    });
                })
            })
            .collect();
        strands.into_iter().for_each(|strand| strand.join().unwrap());
    });
}

#[test]
fn a_coroutine_sees_the_bindings_of_its_resumer_and_keeps_its_own() {
    with_workers(1).run(|| {
        let coroutine = Coroutine::new(|yielder: &Yielder<(), Option<u32>>, ()| {
            yielder.suspend(depth());
            NAME.bind("own", || {
                yielder.suspend(depth());
                // The scope's strand has both, though the resumer may be gone by then.
                fiber::scope(|scope| {
                    let both = scope.spawn(|| (depth(), *NAME.get().unwrap()));
                    assert_eq!(both.join().unwrap(), (Some(3), "own"));
                });
            });
        });
        assert_eq!(DEPTH.bind(1, || coroutine.resume(())), Resumed::Yielded(Some(1)));
        assert!(!NAME.is_bound());
        assert_eq!(coroutine.resume(()), Resumed::Yielded(None));
        assert!(!NAME.is_bound());
        assert_eq!(DEPTH.bind(3, || coroutine.resume(())), Resumed::Returned(()));
    });
}
