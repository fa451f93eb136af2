//! Fiber-locals: whose a value is, when it begins, how it ends.

use std::{
    cell::{Cell, RefCell},
    mem, panic,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use crate::common;
use ramie::{Runtime, Strands, fiber, sync::oneshot};
use ramie_coro::{Resumed, StackPool, StackSize, bare::BareCoroutine};

fn one_worker<T>(f: impl FnOnce() -> T) -> T {
    Runtime::builder().workers(1).build().expect("a worker").run(f)
}

ramie::fiber_local! {
    /// With an attribute, a visibility, and a constant.
    pub static COUNT: Cell<u32> = const { Cell::new(7) };
    static NAMES: RefCell<Vec<u32>> = RefCell::new(vec![1]);
    static PLAIN: u64 = COUNT.get().into()
}
ramie::thread_local!(static LAST: Cell<u8> = Cell::new(3));
ramie::fiber_local! {}

#[test]
fn each_fiber_has_its_own_and_keeps_it_while_others_run() {
    one_worker(|| {
        let fibers: Vec<_> = (0..20)
            .map(|n| {
                fiber::spawn(move || {
                    assert_eq!((COUNT.get(), PLAIN.with(|value| *value)), (7, 7));
                    COUNT.set(n);
                    NAMES.with_borrow_mut(|names| names.push(n));
                    fiber::yield_now();
                    assert_eq!(COUNT.replace(n + 1), n);
                    assert_eq!(NAMES.take(), [1, n]);
                    fiber::yield_now();
                    (COUNT.get(), NAMES.with_borrow(Vec::len), LAST.get())
                })
            })
            .collect();
        for (n, fiber) in (0..20).zip(fibers) {
            assert_eq!(fiber.join().unwrap(), (n + 1, 0, 3));
        }
        // The next closures on those same stacks begin anew.
        assert_eq!(fiber::spawn(|| (COUNT.get(), NAMES.take())).join().unwrap(), (7, vec![1]));
    });
}

#[test]
fn threads_and_thread_strands_have_their_own_too() {
    COUNT.set(100);
    assert_eq!(thread::spawn(|| COUNT.get()).join().unwrap(), 7);
    let strand = fiber::spawn(|| {
        COUNT.set(5);
        // A fiber of that thread.
        let local = fiber::spawn_local(|| COUNT.get()).join().unwrap();
        (COUNT.get(), local)
    });
    assert_eq!(strand.join().unwrap(), (5, 7));
    assert_eq!(one_worker(|| COUNT.get()), 7);
    assert_eq!(COUNT.take(), 100);
}

/// Reports its drop.
struct Says(&'static str);

type Said = Arc<Mutex<Vec<String>>>;

ramie::fiber_local! {
    static SAID: RefCell<Option<Said>> = const { RefCell::new(None) };
    static FIRST: Says = Says("first");
    static SECOND: Says = Says("second");
    static LATE: Says = Says("late");
}

fn say(text: &str) {
    // Gone already if it was initialized after whoever speaks.
    let _ = SAID.try_with(|said| {
        if let Some(said) = &*said.borrow() {
            said.lock().unwrap().push(text.to_owned());
        }
    });
}

impl Drop for Says {
    fn drop(&mut self) {
        say(self.0);
        match self.0 {
            "second" => {
                assert!(SECOND.try_with(|_| ()).is_err(), "its own value is gone");
                LATE.with(|late| assert_eq!(late.0, "late", "begins in a destructor"));
                fiber::yield_now();
                FIRST.with(|first| assert_eq!(first.0, "first", "still there"));
            }
            "first" => {
                let error = SECOND.try_with(|_| ()).expect_err("gone before");
                assert!(error.to_string().contains("destroyed"), "{error}");
                let caught = panic::catch_unwind(|| SECOND.with(|_| ()));
                assert!(caught.is_err(), "with panics where try_with gives an error");
            }
            _ => {}
        }
    }
}

fn speaker(said: &Said) -> impl FnOnce() + Send + 'static {
    let said = Arc::clone(said);
    move || {
        SAID.set(Some(said));
        FIRST.with(|_| ());
        SECOND.with(|_| ());
        say("end of the closure");
    }
}

#[test]
fn destructors_run_last_first_before_the_join_returns() {
    let expected = ["end of the closure", "second", "late", "first"];
    one_worker(|| {
        let said = Said::default();
        fiber::spawn(speaker(&said)).join().unwrap();
        assert_eq!(*said.lock().unwrap(), expected, "on a fiber");
        let said = Said::default();
        let closure = speaker(&said);
        let failing = fiber::spawn(move || {
            closure();
            panic!("as planned");
        });
        failing.join().expect_err("it panicked");
        assert_eq!(*said.lock().unwrap(), expected, "after a panic");
    });
    let said = Said::default();
    one_worker(speaker(&said));
    assert_eq!(*said.lock().unwrap(), expected, "of the closure of run");
    let threads = Runtime::builder().strands(Strands::Threads).build().unwrap();
    let (own, spawned) = (Said::default(), Said::default());
    threads.run(|| {
        speaker(&own)();
        fiber::spawn(speaker(&spawned)).join().unwrap();
        assert_eq!(*spawned.lock().unwrap(), expected, "on a runtime's thread");
    });
    assert_eq!(*own.lock().unwrap(), expected, "of the closure of run, on a thread");
    let said = Said::default();
    fiber::spawn(speaker(&said)).join().unwrap();
    assert_eq!(*said.lock().unwrap(), expected, "on a thread strand outside of run");
    let said = Said::default();
    thread::spawn(speaker(&said)).join().unwrap();
    assert_eq!(*said.lock().unwrap(), expected, "on a thread");
}

#[test]
fn detached_fibers_and_scopes_end_theirs() {
    let said = Said::default();
    one_worker(|| {
        drop(fiber::spawn(speaker(&said)));
        fiber::scope(|scope| {
            scope.spawn(speaker(&said));
        });
    });
    assert_eq!(said.lock().unwrap().iter().filter(|text| *text == "first").count(), 2);
}

/// A value with a destructor that uses locals: some are gone, others begin then.
struct UsesLocals;

impl Drop for UsesLocals {
    fn drop(&mut self) {
        assert!(SAID.try_with(|_| ()).is_err() == mem::needs_drop::<Said>());
        ENDED.with(|ended| assert_eq!(ended.0.get(), 0));
    }
}

ramie::fiber_local!(static ENDED: CountsItsEnd = CountsItsEnd(Cell::new(0)));

static ENDS: AtomicUsize = AtomicUsize::new(0);

struct CountsItsEnd(Cell<u8>);

impl Drop for CountsItsEnd {
    fn drop(&mut self) {
        // On the fiber still: it may wait, and is itself.
        let id = fiber::current().id();
        fiber::sleep(Duration::from_millis(1));
        assert_eq!(fiber::current().id(), id);
        ENDS.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_outcome_that_nobody_takes_may_use_locals_in_its_destructor() {
    for strands in [Strands::Fibers, Strands::Threads] {
        ENDS.store(0, Ordering::SeqCst);
        Runtime::builder().strands(strands).workers(1).build().unwrap().run(|| {
            for _ in 0..10 {
                let (let_end, may_end) = mpsc::channel();
                drop(fiber::spawn(move || {
                    SAID.set(None);
                    // When the handle is gone.
                    may_end.recv().unwrap();
                    UsesLocals
                }));
                let_end.send(()).unwrap();
            }
        });
        assert_eq!(ENDS.load(Ordering::SeqCst), 10, "{strands:?}");
    }
}

#[test]
fn a_fiber_that_is_given_up_leaks_its_own() {
    ramie::fiber_local!(static LOST: CountsDrops = const { CountsDrops });
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct CountsDrops;
    impl Drop for CountsDrops {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::SeqCst);
        }
    }
    let runtime = Runtime::builder().workers(1).grace(Duration::ZERO).build().unwrap();
    runtime.run(|| {
        let (sender, receiver) = oneshot::channel::<()>();
        drop(fiber::spawn(move || {
            LOST.with(|_| ());
            let _ = receiver.recv();
        }));
        fiber::spawn(|| LOST.with(|_| ())).join().unwrap();
        mem::forget(sender);
    });
    assert_eq!(DROPS.load(Ordering::SeqCst), 1);
}

#[test]
fn an_initializer_that_waits_panics_and_may_be_tried_again() {
    thread_local!(static MAY_WAIT: Cell<bool> = const { Cell::new(true) });
    ramie::fiber_local!(static WAITS: u8 = {
        if MAY_WAIT.get() {
            fiber::yield_now();
        }
        9
    });
    one_worker(|| {
        let caught = panic::catch_unwind(|| WAITS.with(|value| *value));
        let payload = caught.expect_err("it would have suspended");
        let text = payload.downcast_ref::<String>().expect("a sentence");
        assert!(text.contains("no_switch"), "{text}");
        MAY_WAIT.set(false);
        assert_eq!(WAITS.with(|value| *value), 9);
        fiber::yield_now();
    });
}

#[test]
fn an_initializer_may_use_other_keys_and_its_own() {
    ramie::fiber_local! {
        static DEPTH: Cell<u32> = const { Cell::new(0) };
        static OUTER: Rc<u32> = {
            DEPTH.set(DEPTH.get() + 1);
            if DEPTH.get() < 3 { Rc::new(OUTER.with(|inner| **inner) * 10) } else { Rc::new(1) }
        };
    }
    one_worker(|| {
        assert_eq!(OUTER.with(|value| **value), 100);
        assert_eq!(DEPTH.get(), 3);
    });
}

#[test]
fn setting_does_not_run_the_initializer() {
    ramie::fiber_local! {
        static CELL: Cell<u8> = panic!("not wanted");
        static SHARED: RefCell<String> = panic!("not wanted");
    }
    one_worker(|| {
        CELL.set(4);
        SHARED.set("first".to_owned());
        SHARED.set("second".to_owned());
        assert_eq!((CELL.get(), SHARED.replace(String::new())), (4, "second".to_owned()));
    });
}

#[test]
fn more_keys_than_a_table_begins_with() {
    let keys: Vec<&'static fiber::LocalKey<Cell<usize>>> =
        (0..300).map(|_| &*Box::leak(Box::new(fiber::LocalKey::new(|| Cell::new(1))))).collect();
    one_worker(|| {
        // References stay where they are while the table grows.
        keys[0].with(|first| {
            for (n, key) in keys.iter().enumerate().rev() {
                key.set(key.get() + n);
            }
            first.set(first.get() + 1000);
        });
        assert_eq!((keys[0].get(), keys[299].get()), (1001, 300));
    });
}

/// A coroutine that knows no fibers may suspend inside `with` and go on when its fiber is gone.
#[test]
fn a_value_that_a_suspended_coroutine_uses_outlives_its_fiber() {
    ramie::fiber_local!(static TEXT: RefCell<String> = RefCell::new("before".to_owned()));
    one_worker(|| {
        let coroutine = fiber::spawn_local(|| {
            let stack = StackPool::new(StackSize::default()).take().expect("memory");
            let mut coroutine = BareCoroutine::with_stack(stack, |yielder, ()| {
                TEXT.with(|text| {
                    text.borrow_mut().push_str(" and");
                    // SAFETY: on the coroutine's own stack.
                    unsafe { yielder.suspend(()) };
                    text.borrow_mut().push_str(" after");
                    text.borrow().clone()
                })
            });
            assert_eq!(coroutine.resume(()), Resumed::Yielded(()));
            coroutine
        });
        let mut coroutine = coroutine.join().unwrap();
        TEXT.set("mine".to_owned());
        assert_eq!(coroutine.resume(()), Resumed::Returned("before and after".to_owned()));
        assert_eq!(TEXT.take(), "mine");
    });
}

/// std's destructors at a thread's exit run after Ramie's: there is nothing to give them.
#[test]
fn at_a_thread_s_exit_there_is_an_error_rather_than_a_value() {
    struct Asks(mpsc::Sender<bool>);
    impl Drop for Asks {
        fn drop(&mut self) {
            let _ = self.0.send(NAMES.try_with(|_| ()).is_ok());
        }
    }
    thread_local!(static ASKS: RefCell<Option<Asks>> = const { RefCell::new(None) });
    let (sender, answer) = mpsc::channel();
    let asker = thread::spawn(|| {
        ASKS.set(Some(Asks(sender)));
        NAMES.with_borrow_mut(Vec::clear);
    });
    asker.join().unwrap();
    // std leaves the order of these destructors open; neither must end the process.
    let _: bool = answer.recv().expect("it asked");
}

#[test]
fn a_destructor_that_panics_ends_the_process() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    ramie::fiber_local!(static PANICS: Panics = const { Panics });
    if common::is_child() {
        return one_worker(|| PANICS.with(|_| ()));
    }
    let name = "a_destructor_that_panics_ends_the_process";
    let output = common::child(name);
    common::assert_aborted(&output, "the destructor of a fiber-local value panicked");
    // Also where the sentence cannot be written.
    common::assert_aborted(&common::child_with("exec 2>/dev/full", name, &[]), "");
}

struct Slow;

impl Drop for Slow {
    fn drop(&mut self) {
        fiber::sleep(std::time::Duration::from_millis(20));
    }
}

ramie::fiber_local! {
    static SLOW: Slow = Slow;
}

#[test]
fn the_grace_period_begins_when_the_locals_of_the_first_fiber_are_gone() {
    for workers in [1, 2] {
        let grace = std::time::Duration::from_millis(1);
        let runtime = ramie::Runtime::builder().workers(workers).grace(grace).build().unwrap();
        let value = runtime.run(|| {
            SLOW.with(|_| ());
            7
        });
        assert_eq!(value, 7);
    }
}
