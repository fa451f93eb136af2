//! Contexts that are attached to strands: when their hooks are called, and by whom they are
//! inherited.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    collections::VecDeque,
    io::{Read, Write},
    mem,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::common::{everywhere, on_each, one_worker, panic_text, tcp_pair, with_workers};
use ramie::{
    Runtime, Strands, channel,
    coro::{ContinuationScope, Coroutine, Resumed, suspend_to},
    fiber::{self, AttachedContext, InheritedContext, StrandContext},
    no_switch,
    policy::{Policy, Runnable},
};

/// What the hooks of one test's contexts have done.
type Events = Rc<RefCell<Vec<String>>>;

/// Takes the events so far, joined by spaces.
fn taken(events: &Events) -> String {
    mem::take(&mut *events.borrow_mut()).join(" ")
}

/// A context that records the calls of its hooks, and its end.
struct Recorded {
    name: &'static str,
    events: Events,
}

impl Recorded {
    fn note(&self, what: &str) {
        self.events.borrow_mut().push(format!("{what}{}", self.name));
    }
}

impl StrandContext for Recorded {
    fn suspend(&self) {
        self.note("-");
    }

    fn resume(&self) {
        self.note("+");
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.note("x");
    }
}

fn attach(name: &'static str, events: &Events) -> AttachedContext {
    fiber::attach_context(Recorded { name, events: Rc::clone(events) })
}

/// A context whose hooks are closures.
struct Hooks<S, R>(S, R);

impl<S: Fn() + 'static, R: Fn() + 'static> StrandContext for Hooks<S, R> {
    fn suspend(&self) {
        (self.0)();
    }

    fn resume(&self) {
        (self.1)();
    }
}

thread_local! {
    /// State of a library for the code that runs.
    static LABEL: Cell<&'static str> = const { Cell::new("") };
}

/// Keeps a value of `LABEL` for one strand; its strands of scopes have the value, too.
struct Label {
    own: &'static str,
    other: Cell<&'static str>,
}

fn label(own: &'static str) -> AttachedContext {
    fiber::attach_context(Label { own, other: Cell::new(LABEL.replace(own)) })
}

impl StrandContext for Label {
    fn suspend(&self) {
        LABEL.set(self.other.get());
    }

    fn resume(&self) {
        self.other.set(LABEL.replace(self.own));
    }

    fn inherit(&self) -> Option<Box<dyn InheritedContext>> {
        struct Inherited(&'static str);
        impl InheritedContext for Inherited {
            fn attach(&self) -> Box<dyn Any> {
                Box::new(Unset(label(self.0)))
            }
        }
        struct Unset(#[expect(dead_code, reason = "detaches when it is dropped")] AttachedContext);
        impl Drop for Unset {
            fn drop(&mut self) {
                LABEL.set("");
            }
        }
        Some(Box::new(Inherited(self.own)))
    }
}

#[test]
fn hooks_are_called_in_turns_at_each_suspension() {
    one_worker().run(|| {
        let events = Events::default();
        let a = attach("a", &events);
        let b = attach("b", &events);
        fiber::yield_now();
        assert_eq!(taken(&events), "-b -a +a +b");
        fiber::sleep(Duration::from_millis(1));
        assert_eq!(taken(&events), "-b -a +a +b");
        drop(a);
        assert_eq!(taken(&events), "xa");
        fiber::yield_now();
        assert_eq!(taken(&events), "-b +b");
        let c = attach("c", &events);
        drop(b);
        fiber::yield_now();
        assert_eq!(taken(&events), "xb -c +c");
        drop(c);
        fiber::yield_now();
        assert_eq!(taken(&events), "xc");
    });
}

/// Waits in each of the ways in which a strand suspends.
fn wait_in_each_way() {
    fiber::yield_now();
    fiber::sleep(Duration::from_millis(1));
    let (sender, receiver) = channel::bounded(1);
    let child = fiber::spawn(move || sender.send(1).unwrap());
    assert_eq!(receiver.recv(), Ok(1));
    child.join().unwrap();
    let (mut client, mut server) = tcp_pair();
    let child = fiber::spawn(move || server.write_all(b"ok").unwrap());
    let mut buffer = [0; 2];
    client.read_exact(&mut buffer).unwrap();
    child.join().unwrap();
    assert!(ramie::blocking(|| true));
}

#[test]
fn each_strand_sees_its_own_state() {
    let check = || {
        let strands = ["one", "two", "three", "four"].map(|name| {
            fiber::spawn(move || {
                let _label = label(name);
                for _ in 0..3 {
                    wait_in_each_way();
                    assert_eq!(LABEL.get(), name);
                }
                LABEL.set("");
            })
        });
        for _ in 0..10 {
            fiber::yield_now();
            assert_eq!(LABEL.get(), "");
        }
        strands.into_iter().for_each(|strand| strand.join().unwrap());
        assert_eq!(LABEL.get(), "");
    };
    everywhere(check);
    Runtime::builder().strands(Strands::Threads).build().unwrap().run(check);
}

#[test]
fn a_strand_without_a_context_calls_no_hook() {
    one_worker().run(|| {
        let events = Events::default();
        let _attached = attach("a", &events);
        let other = fiber::spawn_local({
            let events = Rc::clone(&events);
            move || {
                for _ in 0..3 {
                    assert_eq!(taken(&events), "-a");
                    fiber::yield_now();
                }
            }
        });
        for _ in 0..3 {
            fiber::yield_now();
            assert_eq!(taken(&events), "+a");
        }
        other.join().unwrap();
    });
}

#[test]
fn a_forgotten_context_ends_with_its_strand() {
    let check = || {
        let events = Events::default();
        let theirs = Rc::clone(&events);
        let forgetful = fiber::spawn_local(move || {
            mem::forget(attach("a", &theirs));
            fiber::yield_now();
        });
        forgetful.join().unwrap();
        // The next fiber has the same stack.
        let next = fiber::spawn_local(|| {
            fiber::yield_now();
            fiber::with_attached_context::<Recorded, _>(|_| ()).is_none()
        });
        assert!(next.join().unwrap());
        assert_eq!(taken(&events), "-a +a -a xa");
    };
    everywhere(check);
}

/// The outcome is there only when the contexts have ended.
#[test]
fn a_forgotten_context_of_a_thread_ends_with_it() {
    struct Ends(Arc<Mutex<bool>>);
    impl StrandContext for Ends {
        fn suspend(&self) {
            *self.0.lock().unwrap() = true;
        }
        fn resume(&self) {
            unreachable!("no fiber runs on the thread");
        }
    }
    Runtime::builder().strands(Strands::Threads).build().unwrap().run(|| {
        let ended = Arc::new(Mutex::new(false));
        let theirs = Arc::clone(&ended);
        let strand = fiber::spawn(move || {
            let seen = Arc::clone(&theirs);
            mem::forget(fiber::attach_context(Ends(theirs)));
            fiber::sleep(Duration::from_millis(1));
            assert!(!*seen.lock().unwrap());
        });
        strand.join().unwrap();
        assert!(*ended.lock().unwrap());
    });
}

#[test]
fn a_guard_may_end_on_another_fiber() {
    one_worker().run(|| {
        let events = Events::default();
        let slot = Rc::new(RefCell::new(None));
        let (theirs, their_slot) = (Rc::clone(&events), Rc::clone(&slot));
        let owner = fiber::spawn_local(move || {
            let _b = attach("b", &theirs);
            *their_slot.borrow_mut() = Some(attach("a", &theirs));
            fiber::yield_now();
            assert_eq!(taken(&theirs), "xa +b");
            fiber::yield_now();
            assert_eq!(taken(&theirs), "-b +b");
        });
        fiber::yield_now();
        assert_eq!(taken(&events), "-a -b");
        // This strand has a context, too, which stays.
        let attached = label("other");
        drop(slot.take().expect("the owner has attached it"));
        assert_eq!(fiber::with_attached_context(|context: &Label| context.own), Some("other"));
        owner.join().unwrap();
        assert_eq!(LABEL.get(), "other");
        drop(attached);
        assert_eq!(taken(&events), "xb");
    });
}

#[test]
fn a_context_may_keep_its_own_guard() {
    struct Keeps(RefCell<Option<AttachedContext>>, Events);
    impl StrandContext for Keeps {
        fn suspend(&self) {}
        fn resume(&self) {}
    }
    impl Drop for Keeps {
        fn drop(&mut self) {
            self.1.borrow_mut().push("dropped".into());
        }
    }
    everywhere(|| {
        let events = Events::default();
        let guard = fiber::attach_context(Keeps(RefCell::default(), Rc::clone(&events)));
        fiber::with_attached_context(|keeps: &Keeps| *keeps.0.borrow_mut() = Some(guard)).unwrap();
        fiber::yield_now();
        assert_eq!(taken(&events), "");
        let take = |keeps: &Keeps| drop(keeps.0.take());
        fiber::with_attached_context(take).unwrap();
        assert_eq!(taken(&events), "dropped");
        assert!(fiber::with_attached_context(take).is_none());
    });
}

#[test]
fn a_panic_of_a_hook_leaves_the_strand_as_it_is() {
    everywhere(|| {
        let events = Events::default();
        let _a = attach("a", &events);
        let _bad = fiber::attach_context(Hooks(|| panic!("on purpose"), || panic!("on purpose")));
        let _b = attach("b", &events);
        // A fiber that runs meanwhile lets a thread call its hooks, too.
        let other = fiber::spawn_local(fiber::yield_now);
        fiber::yield_now();
        assert_eq!(taken(&events), "-b -a +a +b");
        other.join().unwrap();
    });
}

#[test]
fn a_hook_that_would_suspend_panics() {
    one_worker().run(|| {
        let texts = Events::default();
        let theirs = Rc::clone(&texts);
        let wait = move || theirs.borrow_mut().push(panic_text(fiber::yield_now));
        let other = wait.clone();
        let attached = fiber::attach_context(Hooks(wait, other));
        fiber::yield_now();
        drop(attached);
        let texts = texts.take();
        assert_eq!(texts.len(), 2);
        assert!(texts.iter().all(|text| text.contains("inside no_switch")), "{texts:?}");
    });
}

/// A hook may run in the middle of a wait, whose frame a suspended coroutine would take away.
#[test]
fn a_hook_cannot_suspend_a_coroutine_around_the_wait() {
    struct Around;
    impl ContinuationScope for Around {
        type Input = ();
        type Yield = ();
    }
    one_worker().run(|| {
        let texts = Events::default();
        let theirs = Rc::clone(&texts);
        let coroutine = Coroutine::in_scope(Around, move |_, ()| {
            let leave = move || {
                let text = panic_text(|| suspend_to(Around, ()));
                theirs.borrow_mut().push(text);
            };
            let _attached = fiber::attach_context(Hooks(leave.clone(), leave));
            fiber::sleep(Duration::from_millis(1));
            suspend_to(Around, ());
            fiber::yield_now();
        });
        assert_eq!(coroutine.resume(()), Resumed::Yielded(()));
        assert_eq!(texts.borrow().len(), 2);
        assert_eq!(coroutine.resume(()), Resumed::Returned(()));
        let texts = texts.take();
        assert_eq!(texts.len(), 4);
        assert!(texts.iter().all(|text| text.contains("no coroutine")), "{texts:?}");
    });
}

#[test]
fn hooks_may_attach_and_detach() {
    one_worker().run(|| {
        let events = Events::default();
        let slot = Rc::new(RefCell::new(Some(attach("a", &events))));
        let (own, theirs) = (Rc::clone(&slot), Rc::clone(&events));
        let detach = move || drop(own.take());
        let add = move || *slot.borrow_mut() = Some(attach("b", &theirs));
        let hooks = fiber::attach_context(Hooks(detach, add));
        fiber::yield_now();
        // `a` was detached before its turn; `b` was attached while the strand resumed.
        assert_eq!(taken(&events), "xa");
        fiber::yield_now();
        // `b` was suspended first, then detached; a new `b` was attached.
        assert_eq!(taken(&events), "-b xb");
        // The hooks own the guard of `b`.
        drop(hooks);
        fiber::yield_now();
        assert_eq!(taken(&events), "xb");
    });
}

#[test]
fn no_switch_holds_with_contexts() {
    one_worker().run(|| {
        let events = Events::default();
        let a = attach("a", &events);
        no_switch(|| {
            assert!(panic_text(fiber::yield_now).contains("inside no_switch"));
            let _b = attach("b", &events);
            assert!(panic_text(fiber::park).contains("inside no_switch"));
        });
        fiber::yield_now();
        assert_eq!(taken(&events), "xb -a +a");
        no_switch(|| {
            drop(a);
            assert!(panic_text(fiber::yield_now).contains("inside no_switch"));
        });
        fiber::yield_now();
        no_switch(|| mem::forget(attach("c", &events)));
        fiber::yield_now();
        assert_eq!(taken(&events), "xa -c +c");
    });
}

/// Calls that complete at once give way to others after 64, with a context as without.
#[test]
fn a_fiber_with_a_context_gives_way() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let events = Events::default();
            let _a = attach("a", &events);
            let (mut client, mut server) = tcp_pair();
            let has_run = Rc::new(Cell::new(false));
            let theirs = Rc::clone(&has_run);
            let other = fiber::spawn_local(move || theirs.set(true));
            client.write_all(&[0; 1000]).unwrap();
            for _ in 0..1000 {
                server.read_exact(&mut [0]).unwrap();
            }
            assert!(has_run.get());
            other.join().unwrap();
        });
    });
}

#[test]
fn strands_of_a_scope_inherit() {
    let check = || {
        let attached = label("parent");
        fiber::scope(|scope| {
            let child = scope.spawn(|| {
                wait_in_each_way();
                let own = LABEL.get();
                // Scopes inside inherit as well; detached strands do not.
                let inner = fiber::scope(|scope| scope.spawn(|| LABEL.get()).join().unwrap());
                let detached = fiber::spawn(|| LABEL.get()).join().unwrap();
                (own, inner, detached)
            });
            assert_eq!(child.join().unwrap(), ("parent", "parent", ""));
            // The scope was opened with the other one.
            let inner = label("later");
            assert_eq!(scope.spawn(|| LABEL.get()).join().unwrap(), "parent");
            drop(inner);
            LABEL.set("parent");
        });
        drop(attached);
        LABEL.set("");
        fiber::scope(|scope| assert_eq!(scope.spawn(|| LABEL.get()).join().unwrap(), ""));
    };
    on_each(&[1, 2], |runtime| runtime.run(check));
    Runtime::builder().strands(Strands::Threads).build().unwrap().run(check);
    std::thread::spawn(check).join().unwrap();
}

#[test]
fn an_inherited_context_is_left_after_the_closure() {
    struct Counts(Arc<AtomicUsize>);
    impl StrandContext for Counts {
        fn suspend(&self) {}
        fn resume(&self) {}
        fn inherit(&self) -> Option<Box<dyn InheritedContext>> {
            Some(Box::new(Counts(Arc::clone(&self.0))))
        }
    }
    impl InheritedContext for Counts {
        fn attach(&self) -> Box<dyn Any> {
            Box::new(Left(Arc::clone(&self.0)))
        }
    }
    struct Left(Arc<AtomicUsize>);
    impl Drop for Left {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    everywhere(|| {
        let left = Arc::new(AtomicUsize::new(0));
        let _attached = fiber::attach_context(Counts(Arc::clone(&left)));
        fiber::scope(|scope| {
            let child = scope.spawn(|| left.load(SeqCst));
            assert_eq!(child.join().unwrap(), 0);
            assert_eq!(left.load(SeqCst), 1);
        });
    });
}

#[test]
fn a_panic_while_inheriting_is_the_openers_or_only_reported() {
    /// Whether it can be inherited, and whether its destructor panics.
    struct Broken(bool, bool);
    impl StrandContext for Broken {
        fn suspend(&self) {}
        fn resume(&self) {}
        fn inherit(&self) -> Option<Box<dyn InheritedContext>> {
            assert!(self.0, "inherits nothing");
            Some(Box::new(Broken(true, true)))
        }
    }
    impl InheritedContext for Broken {
        fn attach(&self) -> Box<dyn Any> {
            panic!("cannot be attached")
        }
    }
    impl Drop for Broken {
        fn drop(&mut self) {
            // Of the context and of the part that is inherited.
            assert!(!self.1, "ends badly");
        }
    }
    std::thread::spawn(|| {
        let refuses = fiber::attach_context(Broken(false, false));
        let text = panic_text(|| one_worker().run(|| unreachable!("it does not run")));
        assert_eq!(text, "inherits nothing");
        drop(refuses);
        let _attached = fiber::attach_context(Broken(true, false));
        assert_eq!(one_worker().run(|| 5), 5);
    })
    .join()
    .unwrap();
    everywhere(|| {
        let refuses = fiber::attach_context(Broken(false, false));
        let text = panic_text(|| fiber::scope(|_| unreachable!("the scope is not opened")));
        assert_eq!(text, "inherits nothing");
        drop(refuses);
        let _attached = fiber::attach_context(Broken(true, false));
        fiber::scope(|scope| assert_eq!(scope.spawn(|| 5).join().unwrap(), 5));
    });
}

/// A context of the thread that calls `run` leaves the thread for the fibers, and the closure of
/// `run` inherits it.
#[test]
fn the_closure_of_run_inherits() {
    for workers in [1, 2] {
        std::thread::spawn(move || {
            let attached = label("outside");
            with_workers(workers).run(|| {
                fiber::yield_now();
                assert_eq!(LABEL.get(), "outside");
                let detached = fiber::spawn_local(|| LABEL.get());
                assert_eq!(detached.join().unwrap(), "");
                assert_eq!(LABEL.get(), "outside");
            });
            assert_eq!(LABEL.get(), "outside");
            drop(attached);
        })
        .join()
        .unwrap();
    }
}

/// Code that the worker's loop calls belongs to no strand.
#[test]
fn code_of_the_loop_has_no_context() {
    #[derive(Default)]
    struct Attaches(VecDeque<Runnable>);
    impl Policy for Attaches {
        fn push(&mut self, runnable: Runnable) {
            mem::forget(label("policy"));
            assert!(fiber::with_attached_context(|_: &Label| ()).is_none());
            self.0.push_back(runnable);
        }
        fn pop(&mut self) -> Option<Runnable> {
            self.0.pop_front()
        }
    }
    let runtime = Runtime::builder().workers(1).policy(Attaches::default).build().unwrap();
    runtime.run(|| {
        fiber::yield_now();
        assert!(fiber::with_attached_context(|_: &Label| ()).is_none());
        let attached = label("main");
        fiber::yield_now();
        assert_eq!(fiber::with_attached_context(|context: &Label| context.own), Some("main"));
        drop(attached);
    });
}

/// Nobody else uses the thread-locals of a thread without fibers.
#[test]
fn a_thread_calls_hooks_only_for_its_fibers() {
    std::thread::spawn(|| {
        let events = Events::default();
        let _attached = attach("a", &events);
        fiber::sleep(Duration::from_millis(1));
        assert_eq!(taken(&events), "");
        let theirs = Rc::clone(&events);
        let fiber = fiber::spawn_local(move || taken(&theirs));
        assert_eq!(fiber.join().unwrap(), "-a");
        assert_eq!(taken(&events), "+a");
    })
    .join()
    .unwrap();
}

#[test]
fn a_fiber_that_panics_leaves_its_contexts() {
    one_worker().run(|| {
        let events = Events::default();
        let theirs = Rc::clone(&events);
        let fails = fiber::spawn_local(move || {
            let _attached = attach("a", &theirs);
            fiber::yield_now();
            panic!("on purpose");
        });
        assert!(fails.join().is_err());
        assert_eq!(taken(&events), "-a +a xa");
        let theirs = Rc::clone(&events);
        let fails = fiber::spawn_local(move || {
            mem::forget(attach("a", &theirs));
            panic!("on purpose");
        });
        assert!(fails.join().is_err());
        assert_eq!(taken(&events), "-a xa");
    });
}

#[test]
fn an_abandoned_fiber_calls_no_hook_again() {
    struct Notes(Arc<Mutex<Vec<&'static str>>>);
    impl StrandContext for Notes {
        fn suspend(&self) {
            self.0.lock().unwrap().push("suspended");
        }
        fn resume(&self) {
            self.0.lock().unwrap().push("resumed");
        }
    }
    impl Drop for Notes {
        fn drop(&mut self) {
            self.0.lock().unwrap().push("dropped");
        }
    }
    let events = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&events);
    let impatient = Runtime::builder().workers(1).grace(Duration::ZERO).build().unwrap();
    impatient.run(|| {
        drop(fiber::spawn(|| {
            let _attached = fiber::attach_context(Notes(theirs));
            fiber::park();
        }));
        fiber::yield_now();
    });
    assert_eq!(*events.lock().unwrap(), ["suspended"]);
}

/// The strand that resumes a coroutine has the contexts that are attached on its stack.
#[test]
fn a_context_of_a_coroutine_belongs_to_the_strand() {
    one_worker().run(|| {
        let events = Events::default();
        let theirs = Rc::clone(&events);
        let coroutine = Coroutine::new(move |yielder, ()| {
            let attached = attach("a", &theirs);
            yielder.suspend(());
            drop(attached);
        });
        let theirs = Rc::clone(&events);
        let first = fiber::spawn_local(move || {
            coroutine.resume(());
            fiber::yield_now();
            assert_eq!(taken(&theirs), "-a +a");
            coroutine
        });
        // The context ends with its strand, the guard later and on another one.
        let coroutine = first.join().unwrap();
        assert_eq!(taken(&events), "-a xa");
        coroutine.resume(());
        fiber::yield_now();
        assert_eq!(taken(&events), "");
    });
}

/// The destructors of fiber-locals, which run last, find no old state and may leave new.
#[test]
fn a_destructor_that_attaches_leaves_nothing_behind() {
    struct Attaches(Events);
    impl Drop for Attaches {
        fn drop(&mut self) {
            mem::forget(attach("late", &self.0));
            fiber::yield_now();
        }
    }
    ramie::fiber_local! {
        static LATE: RefCell<Option<Attaches>> = const { RefCell::new(None) };
    }
    one_worker().run(|| {
        let events = Events::default();
        let theirs = Rc::clone(&events);
        let strand = fiber::spawn_local(move || LATE.set(Some(Attaches(theirs))));
        strand.join().unwrap();
        assert_eq!(taken(&events), "-late +late -late xlate");
        let next = fiber::spawn_local(|| {
            fiber::yield_now();
            fiber::with_attached_context::<Recorded, _>(|_| ()).is_none()
        });
        assert!(next.join().unwrap());
        assert_eq!(taken(&events), "");
    });
}
