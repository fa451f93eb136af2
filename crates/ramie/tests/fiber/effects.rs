//! Effects, continuations and coroutines on fibers: parked inside, carried from fiber to fiber.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use crate::common::{everywhere, one_worker, panic_text};
use ramie::{
    coro::{
        ContinuationScope, Coroutine, Resumed, State, Yielder,
        delimited::{reset, reset_kept},
        suspend_to,
    },
    effect::{Effect, Next, Step, handle, perform, start},
    fiber,
    sync::Event,
    thread,
};

struct Ask(u32);
impl Effect for Ask {
    type Output = u32;
}

struct Tell;
impl Effect for Tell {
    type Output = ();
}

/// Notes that it was dropped.
struct Guard<'a>(&'a Cell<u32>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn fibers_of_one_worker_have_handlers_of_their_own() {
    one_worker().run(|| {
        let ask_in_turns = |offset: u32| {
            handle(
                || {
                    let ask = |at| {
                        fiber::yield_now();
                        perform(Ask(at))
                    };
                    (1..=10).map(ask).sum::<u32>()
                },
                |Ask(at), resume| {
                    fiber::yield_now();
                    resume.with(at + offset)
                },
            )
        };
        let handles = [0, 100, 1000].map(|offset| fiber::spawn_local(move || ask_in_turns(offset)));
        let sums = handles.map(|handle| handle.join().unwrap());
        assert_eq!(sums, [55, 1055, 10055]);
    });
}

#[test]
fn a_fiber_parks_inside_a_body_and_inside_a_handler() {
    everywhere(|| {
        let (sender, receiver) = ramie::sync::mpsc::channel();
        let sending = fiber::spawn(move || {
            for value in 1..=3 {
                fiber::sleep(Duration::from_millis(1));
                sender.send(value).unwrap();
            }
        });
        let sum = handle(
            || receiver.iter().map(|value: u32| perform(Ask(value))).sum::<u32>(),
            |Ask(value), resume| {
                fiber::sleep(Duration::from_millis(1));
                resume.with(value * 10)
            },
        );
        sending.join().unwrap();
        assert_eq!(sum, 60);
    });
}

#[test]
fn a_fiber_spawned_in_a_body_begins_without_handlers() {
    everywhere(|| {
        let text = handle(
            || fiber::scope(|s| s.spawn(|| panic_text(|| perform(Ask(1)))).join().unwrap()),
            |_: Ask, resume| resume.with(0),
        );
        assert!(
            text.contains("no handler for effect `") && text.contains("Ask` on this fiber"),
            "{text}"
        );
    });
}

#[test]
fn a_dropped_body_waits_for_its_borrowers() {
    everywhere(|| {
        let (lent, dropped) = (std::sync::atomic::AtomicU32::new(0), Cell::new(0));
        handle(
            || {
                let _guard = Guard(&dropped);
                fiber::scope(|s| {
                    s.spawn(|| {
                        fiber::sleep(Duration::from_millis(5));
                        lent.store(7, std::sync::atomic::Ordering::Relaxed);
                    });
                    perform(Tell);
                });
            },
            |Tell, _resume| Next::Return(()),
        );
        assert_eq!((lent.into_inner(), dropped.get()), (7, 1));
    });
}

#[test]
fn a_coroutine_is_resumed_by_different_fibers_of_a_worker() {
    one_worker().run(|| {
        let coroutine: Rc<Coroutine<u32, u32, u32>> =
            Rc::new(Coroutine::new(|yielder: &Yielder<_, _>, first| {
                // Suspended inside a handled body, with its handler.
                let body = || perform(Ask(yielder.suspend(first + 1)));
                let second = handle(body, |Ask(at), resume| {
                    fiber::yield_now();
                    resume.with(at + 1)
                });
                second + yielder.suspend(second)
            }));
        let resume = |input| {
            let coroutine = Rc::clone(&coroutine);
            fiber::spawn_local(move || coroutine.resume(input)).join().unwrap()
        };
        assert_eq!(resume(1), Resumed::Yielded(2));
        assert_eq!(resume(10), Resumed::Yielded(11));
        assert_eq!(coroutine.state(), State::Suspended);
        assert_eq!(resume(100), Resumed::Returned(111));
        assert!(coroutine.is_done());
    });
}

#[test]
fn a_coroutine_whose_fiber_parks_is_running_for_others() {
    one_worker().run(|| {
        let coroutine: Rc<Coroutine<(), (), ()>> = Rc::new(Coroutine::new(|_, ()| {
            fiber::sleep(Duration::from_millis(2));
        }));
        let parked = Rc::clone(&coroutine);
        let first = fiber::spawn_local(move || parked.resume(()));
        fiber::yield_now();
        assert_eq!(coroutine.state(), State::Running);
        assert!(panic_text(|| coroutine.resume(())).contains("that is running"));
        assert_eq!(first.join().unwrap(), Resumed::Returned(()));
    });
}

#[test]
fn nested_coroutines_suspended_to_a_scope_go_from_fiber_to_fiber() {
    struct Outer;
    impl ContinuationScope for Outer {
        type Input = u32;
        type Yield = u32;
    }
    one_worker().run(|| {
        let outer = Rc::new(Coroutine::in_scope(Outer, |_, first| {
            let inner: Coroutine<(), u32, u32> = Coroutine::new(move |yielder, ()| {
                let second = suspend_to(Outer, first);
                fiber::yield_now();
                yielder.suspend(second);
                suspend_to(Outer, second)
            });
            inner.resume(()).yielded().unwrap() + inner.resume(()).returned().unwrap()
        }));
        let resume = |input| {
            let outer = Rc::clone(&outer);
            fiber::spawn_local(move || outer.resume(input)).join().unwrap()
        };
        assert_eq!(resume(1), Resumed::Yielded(1));
        assert_eq!(resume(20), Resumed::Yielded(20));
        assert_eq!(resume(300), Resumed::Returned(320));
    });
}

#[test]
fn kept_continuations_go_from_fiber_to_fiber() {
    one_worker().run(|| {
        let body = || perform(Ask(1)) + perform(Ask(2));
        let step = fiber::spawn_local(move || start::<Ask, _>(body)).join().unwrap();
        let Step::Performed(Ask(1), first) = step else { panic!("it performs") };
        let step = fiber::spawn_local(move || first.resume(10)).join().unwrap();
        let Step::Performed(Ask(2), second) = step else { panic!("it performs") };
        let step = fiber::spawn_local(move || second.resume(20)).join().unwrap();
        assert!(matches!(step, Step::Returned(30)));

        let kept = Rc::new(Cell::new(None));
        let place = Rc::clone(&kept);
        reset_kept(move |p| {
            let value: u32 = p.shift(move |rest| {
                place.set(Some(rest));
                0
            });
            fiber::yield_now();
            value + 1
        });
        let rest = kept.take().unwrap();
        assert_eq!(fiber::spawn_local(move || rest.resume(5)).join().unwrap(), 6);
    });
}

/// The token is lent to a child, the body runs there for a while, and comes back.
#[test]
fn a_borrowing_body_is_stepped_on_a_child() {
    one_worker().run(|| {
        let dropped = Cell::new(0);
        for drops in [false, true] {
            let sum = handle(
                || {
                    let _guard = Guard(&dropped);
                    let first = perform(Ask(1));
                    fiber::yield_now();
                    first + perform(Ask(2))
                },
                |Ask(at), resume| {
                    let on_child = move || match resume.step(at * 10) {
                        Step::Performed(_, resume) if drops => {
                            drop(resume);
                            Step::Returned(0)
                        }
                        step => step,
                    };
                    let step = fiber::scope(|s| s.spawn_local(on_child).join().unwrap());
                    match step {
                        Step::Performed(Ask(at), resume) => resume.with(at * 10),
                        Step::Returned(sum) => Next::Return(sum),
                    }
                },
            );
            assert_eq!(sum, if drops { 0 } else { 30 });
        }
        assert_eq!(dropped.get(), 2);
    });
}

#[test]
fn a_prompt_lent_to_a_child_is_refused_there() {
    one_worker().run(|| {
        let text = reset(|p| {
            fiber::scope(|s| {
                s.spawn_local(|| panic_text(|| p.shift::<()>(|_| String::new()))).join().unwrap()
            })
        });
        assert!(text.contains("from another fiber than the one that resumed it"), "{text}");
    });
}

/// The body lends its yielder to a fiber, which resumes the body, so that it was linked there last,
/// and then suspends a body that is suspended already.
#[test]
fn a_lent_yielder_does_not_suspend_a_suspended_coroutine() {
    thread_local! {
        static COROUTINE: RefCell<Option<Rc<Coroutine<(), (), ()>>>> = const { RefCell::new(None) };
        static SAID: RefCell<String> = const { RefCell::new(String::new()) };
    }
    one_worker().run(|| {
        let coroutine = Rc::new(Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
            fiber::scope(|s| {
                s.spawn_local(|| {
                    let coroutine = COROUTINE.take().unwrap();
                    coroutine.resume(());
                    SAID.set(panic_text(|| yielder.suspend(())));
                });
                yielder.suspend(());
                yielder.suspend(());
            });
        }));
        COROUTINE.set(Some(Rc::clone(&coroutine)));
        coroutine.resume(());
        fiber::yield_now();
        let said = SAID.take();
        assert!(said.contains("from another fiber than the one that resumed it"), "{said}");
        coroutine.resume(());
        assert!(coroutine.is_done());
    });
}

#[test]
fn handlers_work_in_a_panic_of_a_fiber_and_in_its_locals_destructors() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            assert_eq!(handle(|| perform(Ask(1)), |Ask(at), resume| resume.with(at + 1)), 2);
        }
    }
    ramie::fiber_local!(static LATE: Late = const { Late });
    everywhere(|| {
        let ended = thread::spawn(|| {
            LATE.with(|_| ());
            let _late = Late;
            std::panic::resume_unwind(Box::new("ended"));
        });
        assert_eq!(*ended.join().unwrap_err().downcast::<&str>().unwrap(), "ended");
    });
}

/// The runtime calls it in the middle of its own work, where a dropped resumption could not unwind
/// the body: the unwinding would end in the runtime.
#[test]
fn code_that_the_runtime_calls_finds_no_handler() {
    use std::{sync::Arc, task::Wake};

    thread_local!(static REFUSED: Cell<u32> = const { Cell::new(0) });
    fn performs() {
        let refused = catch_unwind(|| perform(Ask(1))).is_err();
        REFUSED.set(REFUSED.get() + u32::from(refused));
    }
    struct OnDrop;
    impl Drop for OnDrop {
        fn drop(&mut self) {
            performs();
        }
    }
    struct OnWake;
    impl Wake for OnWake {
        fn wake(self: Arc<Self>) {
            performs();
        }
    }
    ramie::fiber_local!(static LOCAL: RefCell<Option<OnDrop>> = const { RefCell::new(None) });

    one_worker().run(|| {
        let body = || {
            // The outcome of a fiber that nobody asks for.
            drop(fiber::spawn_local(|| OnDrop));
            fiber::yield_now();
            // The waker of a receiver.
            let (sender, receiver) = ramie::sync::oneshot::channel();
            let mut receiver = std::pin::pin!(receiver.into_future());
            let waker = Arc::new(OnWake).into();
            let mut context = std::task::Context::from_waker(&waker);
            assert!(receiver.as_mut().poll(&mut context).is_pending());
            sender.send(()).unwrap();
            LOCAL.with(|local| *local.borrow_mut() = Some(OnDrop));
            perform(Ask(1))
        };
        let given_up = handle(body, |_: Ask, _resume| Next::Return(7));
        assert_eq!((given_up, REFUSED.get()), (7, 2));
    });
}

/// The scope waits while the body is unwound, which it could not inside the handler's unwinding.
#[test]
fn a_panic_of_the_handler_unwinds_a_scope_with_strands() {
    everywhere(|| {
        let (event, ended) = (Event::new(), AtomicBool::new(false));
        let body = || {
            fiber::scope(|s| {
                s.spawn(|| {
                    event.wait().unwrap();
                    ended.store(true, Relaxed);
                });
                perform(Ask(1));
            });
        };
        let call = || {
            handle(body, |_: Ask, _resume| {
                event.set();
                panic!("the handler's")
            });
        };
        let payload = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "the handler's");
        assert!(ended.load(Relaxed));

        let (event, ended) = (Event::new(), AtomicBool::new(false));
        let call = || {
            reset(|prompt| {
                fiber::scope(|s| {
                    s.spawn(|| {
                        event.wait().unwrap();
                        ended.store(true, Relaxed);
                    });
                    prompt.shift::<()>(|_rest| {
                        event.set();
                        panic!("the function's")
                    });
                });
            });
        };
        let payload = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "the function's");
        assert!(ended.load(Relaxed));
    });
}
