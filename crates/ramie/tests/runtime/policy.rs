//! Run-queue policies: those of the crate, one of our own, and the effects of a wrong one.

use std::{
    cell::RefCell,
    collections::VecDeque,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use crate::common;
use ramie::{
    Runtime, fiber,
    policy::{Lifo, Policy, Priority, Random, Runnable},
};

fn runtime<P: Policy + 'static>(
    workers: usize,
    make: impl Fn() -> P + Send + Sync + 'static,
) -> Runtime {
    Runtime::builder().workers(workers).policy(make).build().unwrap()
}

/// The order in which `count` fibers, spawned in a row, begin and then, after a yield, go on.
fn order_of<P: Policy + 'static>(
    make: impl Fn() -> P + Send + Sync + 'static,
    count: i8,
) -> Vec<(i8, bool)> {
    runtime(1, make).run(|| {
        let order = Rc::new(RefCell::new(Vec::new()));
        let fibers: Vec<_> = (0..count)
            .map(|n| {
                let order = Rc::clone(&order);
                let builder = fiber::Builder::new().priority(n % 3);
                let record = move || {
                    order.borrow_mut().push((n, false));
                    fiber::yield_now();
                    order.borrow_mut().push((n, true));
                };
                builder.spawn_local(record).unwrap()
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        order.take()
    })
}

#[test]
fn last_in_first_out() {
    let order = order_of(Lifo::new, 3);
    let expected = [2, 1, 0].map(|n| [(n, false), (n, true)]).concat();
    assert_eq!(order, expected, "each goes on at once, because it was runnable last");
}

#[test]
fn highest_priority_first_and_else_in_order() {
    let order = order_of(Priority::new, 6);
    let expected = [[2, 5], [1, 4], [0, 3]]
        .map(|pair| [(pair[0], false), (pair[1], false), (pair[0], true), (pair[1], true)])
        .concat();
    assert_eq!(order, expected);
}

#[test]
fn a_seed_replays_a_random_order() {
    let one = order_of(|| Random::new(1), 20);
    assert_eq!(one, order_of(|| Random::new(1), 20));
    let other = order_of(|| Random::new(2), 20);
    assert_ne!(one, other);
    let mut sorted = other.clone();
    sorted.sort_unstable();
    let all: Vec<_> = (0..20).flat_map(|n| [(n, false), (n, true)]).collect();
    assert_eq!(sorted, all, "each ran, and ran on, once");
}

/// First in, first out, but drops every third runnable that it is handed.
#[derive(Default)]
struct Clumsy {
    queue: VecDeque<Runnable>,
    count: u32,
}

impl Policy for Clumsy {
    fn push(&mut self, runnable: Runnable) {
        self.count += 1;
        if !self.count.is_multiple_of(3) {
            self.queue.push_back(runnable);
        }
    }

    fn pop(&mut self) -> Option<Runnable> {
        self.queue.pop_front()
    }
}

#[test]
fn fibers_that_a_policy_drops_are_not_lost() {
    assert_eq!(order_of(Clumsy::default, 20).len(), 40);
}

/// Drops each runnable that it is handed, until it was handed a number of them.
struct Reluctant(u32, Lifo);

impl Policy for Reluctant {
    fn push(&mut self, runnable: Runnable) {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 {
            self.1.push(runnable);
        }
    }

    fn pop(&mut self) -> Option<Runnable> {
        self.1.pop()
    }
}

#[test]
fn a_policy_may_drop_a_fiber_very_often() {
    assert_eq!(order_of(|| Reluctant(900_000, Lifo::new()), 3).len(), 6);
}

#[test]
fn a_runnable_names_its_fiber() {
    type Seen = (Option<String>, i8, bool);
    #[derive(Default)]
    struct Watcher {
        queue: VecDeque<Runnable>,
        seen: Arc<Mutex<Vec<Seen>>>,
    }
    impl Policy for Watcher {
        fn push(&mut self, runnable: Runnable) {
            assert!(runnable.id().is_some());
            let name = runnable.name().map(str::to_owned);
            self.seen.lock().unwrap().push((name, runnable.priority(), runnable.is_new()));
            self.queue.push_back(runnable);
        }
        fn pop(&mut self) -> Option<Runnable> {
            self.queue.pop_front()
        }
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&seen);
    let make = move || Watcher { seen: Arc::clone(&theirs), ..Watcher::default() };
    runtime(1, make).run(|| {
        let named = fiber::Builder::new().name("reader".into()).priority(-5);
        named.spawn(fiber::yield_now).unwrap().join().unwrap();
    });
    let seen = seen.lock().unwrap();
    assert!(seen.contains(&(Some("main".into()), 0, true)));
    assert!(seen.contains(&(Some("reader".into()), -5, true)));
    assert!(seen.contains(&(Some("reader".into()), -5, false)));
}

#[test]
fn each_worker_has_its_own_and_all_work_is_done() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let make = move || {
        count.fetch_add(1, SeqCst);
        Random::new(7)
    };
    let done = AtomicUsize::new(0);
    runtime(2, make).run(|| {
        fiber::scope(|scope| {
            for _ in 0..500 {
                scope.spawn(|| {
                    fiber::yield_now();
                    fiber::sleep(std::time::Duration::from_micros(50));
                    done.fetch_add(1, SeqCst);
                });
            }
        });
    });
    assert_eq!(made.load(SeqCst), 2);
    assert_eq!(done.load(SeqCst), 500);
}

#[test]
fn fibers_that_a_policy_still_holds_are_given_up_with_the_runtime() {
    let runtime = Runtime::builder()
        .workers(1)
        .policy(Lifo::new)
        .grace(std::time::Duration::ZERO)
        .on_abandoned(|fibers| assert!(fibers.iter().count() >= 1))
        .build()
        .unwrap();
    runtime.run(|| {
        fiber::spawn(fiber::park);
        fiber::spawn(|| {
            loop {
                fiber::yield_now();
            }
        });
        fiber::yield_now();
    });
}

#[test]
fn a_policy_that_loses_fibers_ends_the_process() {
    struct Panics;
    impl Policy for Panics {
        fn push(&mut self, _: Runnable) {
            panic!("out of order");
        }
        fn pop(&mut self) -> Option<Runnable> {
            None
        }
    }
    #[derive(Default)]
    struct Keeps(Vec<Runnable>);
    impl Policy for Keeps {
        fn push(&mut self, runnable: Runnable) {
            self.0.push(runnable);
        }
        fn pop(&mut self) -> Option<Runnable> {
            None
        }
    }
    struct Drops;
    impl Policy for Drops {
        fn push(&mut self, runnable: Runnable) {
            drop(runnable);
        }
        fn pop(&mut self) -> Option<Runnable> {
            None
        }
    }
    /// Forgets new fibers without a name, and runs the rest.
    #[derive(Default)]
    struct Forgets(Vec<Runnable>);
    impl Policy for Forgets {
        fn push(&mut self, runnable: Runnable) {
            match runnable.name() {
                Some(_) => self.0.push(runnable),
                None => std::mem::forget(runnable),
            }
        }
        fn pop(&mut self) -> Option<Runnable> {
            self.0.pop()
        }
    }
    match (common::is_child(), std::env::var("RAMIE_TEST_POLICY").as_deref()) {
        (true, Ok("panics")) => runtime(1, || Panics).run(|| ()),
        (true, Ok("drops")) => runtime(1, || Drops).run(|| ()),
        (true, Ok("keeps")) => runtime(1, Keeps::default).run(|| ()),
        (true, _) => {
            let builder = Runtime::builder().workers(1).grace(std::time::Duration::ZERO);
            builder.policy(Forgets::default).build().unwrap().run(|| {
                let spinner = fiber::Builder::new().name("spinner".into());
                drop(spinner.spawn(|| {
                    loop {
                        fiber::yield_now();
                    }
                }));
                fiber::spawn(|| ());
                fiber::yield_now();
            });
        }
        (false, _) => {
            let name = "a_policy_that_loses_fibers_ends_the_process";
            for (policy, sentence) in [
                ("panics", "the run-queue policy panicked"),
                ("keeps", "holds fibers, and gave none of them"),
                ("drops", "drops the fibers that it is handed"),
                ("forgets", "did not come back"),
            ] {
                let child = common::child_with("true", name, &[("RAMIE_TEST_POLICY", policy)]);
                common::assert_aborted(&child, sentence);
            }
        }
    }
}

/// The unwinding of the body would end the process, with a text about a panic of the policy.
#[test]
fn a_policy_finds_no_handler_of_an_effect() {
    use std::panic::catch_unwind;

    use ramie::effect::{Effect, Next, handle, perform};

    struct Ask;
    impl Effect for Ask {
        type Output = ();
    }
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    #[derive(Default)]
    struct Performs(Vec<Runnable>);
    impl Policy for Performs {
        fn push(&mut self, runnable: Runnable) {
            let refused = catch_unwind(|| perform(Ask)).is_err();
            REFUSED.fetch_add(usize::from(refused), SeqCst);
            self.0.push(runnable);
        }
        fn pop(&mut self) -> Option<Runnable> {
            self.0.pop()
        }
    }
    let body = || runtime(1, Performs::default).run(|| 7);
    assert_eq!(handle(body, |_: Ask, _resume| Next::Return(0)), 7);
    assert!(REFUSED.load(SeqCst) > 0);
}
