//! One program on fibers, on OS threads, and on fibers over several threads.

use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::common::{child_with, is_child, text};
use ramie::{Runtime, Strands, fiber};

/// Runs a program on each kind of strand, with the kind as its argument.
fn on_each(program: impl Fn(Strands) + Send + Sync + Copy) {
    for (strands, workers) in
        [(Strands::Fibers, 1), (Strands::Fibers, 2), (Strands::Threads, 1), (Strands::Threads, 2)]
    {
        let runtime = Runtime::builder().strands(strands).workers(workers).build().unwrap();
        runtime.run(|| program(strands));
    }
}

#[test]
fn the_runtime_decides_the_kind_of_strands() {
    on_each(|strands| {
        let is_thread = strands == Strands::Threads;
        assert_eq!(fiber::current().id().is_thread(), is_thread);
        assert_eq!(fiber::current().name(), Some("main"));
        let here = std::thread::current().id();
        let child = fiber::Builder::new().name("child".into());
        let handle = child
            .spawn(move || {
                let current = fiber::current();
                assert_eq!(current.name(), Some("child"));
                (current.id(), std::thread::current().id() != here)
            })
            .unwrap();
        let id = handle.fiber().id();
        let (own_id, is_elsewhere) = handle.join().unwrap();
        assert_eq!(own_id, id);
        assert_eq!(id.is_thread(), is_thread);
        assert!(is_elsewhere || !is_thread);
    });
}

#[test]
fn park_unpark_scopes_and_locals_mean_the_same() {
    ramie::fiber_local! { static COUNT: Cell<u32> = const { Cell::new(0) } }
    on_each(|_| {
        COUNT.set(7);
        let mut sums = [0_u32; 4];
        let parent = fiber::current();
        fiber::scope(|s| {
            for (n, sum) in (0..).zip(&mut sums) {
                let parent = &parent;
                s.spawn(move || {
                    assert_eq!(COUNT.get(), 0);
                    COUNT.set(n);
                    fiber::sleep(Duration::from_millis(1));
                    *sum = COUNT.get();
                    parent.unpark();
                });
            }
            fiber::park();
        });
        assert_eq!(sums, [0, 1, 2, 3]);
        assert_eq!(COUNT.get(), 7);
    });
}

#[test]
fn spawn_local_keeps_its_closure_on_this_thread() {
    on_each(|_| {
        let here = std::thread::current().id();
        let count = Rc::new(Cell::new(0));
        let theirs = Rc::clone(&count);
        let local = fiber::spawn_local(move || {
            fiber::yield_now();
            theirs.set(1);
            std::thread::current().id() == here
        });
        assert!(local.join().unwrap());
        assert_eq!(count.get(), 1);
    });
}

#[test]
fn run_waits_for_detached_strands_and_their_local_fibers() {
    let ended = AtomicUsize::new(0);
    let ended: &'static AtomicUsize = Box::leak(Box::new(ended));
    for round in 1..=4 {
        let strands = if round % 2 == 0 { Strands::Threads } else { Strands::Fibers };
        let runtime = Runtime::builder().strands(strands).workers(2).build().unwrap();
        runtime.run(|| {
            drop(fiber::spawn(move || {
                drop(fiber::spawn_local(move || {
                    fiber::sleep(Duration::from_millis(5));
                    ended.fetch_add(1, SeqCst);
                }));
                drop(fiber::spawn(move || {
                    fiber::sleep(Duration::from_millis(10));
                    ended.fetch_add(1, SeqCst);
                }));
            }));
            drop(fiber::spawn_local(move || {
                fiber::sleep(Duration::from_millis(5));
                ended.fetch_add(1, SeqCst);
            }));
        });
        assert_eq!(ended.load(SeqCst), 3 * round);
    }
}

#[test]
fn after_the_grace_period_threads_are_named_and_run_on() {
    let go = Arc::new(AtomicBool::new(false));
    let named = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&named);
    let runtime = Runtime::builder()
        .strands(Strands::Threads)
        .grace(Duration::from_millis(20))
        .on_abandoned(move |fibers| names.lock().unwrap().extend(fibers.iter().map(str::to_owned)))
        .build()
        .unwrap();
    let theirs = Arc::clone(&go);
    let handle = runtime.run(move || {
        let slow = fiber::Builder::new().name("slow".into());
        slow.spawn(move || {
            while !theirs.load(SeqCst) {
                fiber::sleep(Duration::from_millis(1));
            }
            5
        })
        .unwrap()
    });
    let named = named.lock().unwrap().clone();
    assert!(named.len() == 1 && named[0].contains("thread 'slow'"), "{named:?}");
    go.store(true, SeqCst);
    assert_eq!(handle.join().unwrap(), 5);
}

#[test]
fn panics_reach_the_joiner_and_the_caller_of_run() {
    on_each(|_| {
        let payload = fiber::spawn(|| panic!("of the child")).join().unwrap_err();
        assert_eq!(text(&*payload), "of the child");
    });
    let runtime = Runtime::builder().strands(Strands::Threads).build().unwrap();
    let ended = AtomicBool::new(false);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.run(|| {
            fiber::scope(|s| {
                s.spawn(|| ended.store(true, SeqCst));
                panic!("of the closure");
            })
        })
    }));
    assert_eq!(text(&*outcome.unwrap_err()), "of the closure");
    assert!(ended.load(SeqCst));
    let nested = std::panic::catch_unwind(|| {
        let runtime = Runtime::builder().strands(Strands::Threads).build().unwrap();
        runtime.run(|| ramie::run(|| ()))
    });
    assert!(text(&*nested.unwrap_err()).contains("run was called inside run"));
}

#[test]
fn the_environment_chooses_and_garbage_is_refused() {
    let name = "the_environment_chooses_and_garbage_is_refused";
    if is_child() {
        match Runtime::builder().build() {
            Ok(runtime) => {
                runtime.run(|| println!("thread: {}", fiber::current().id().is_thread()))
            }
            Err(error) => println!("error: {error}"),
        }
        return;
    }
    let said = |value: &str| {
        let output = child_with("true", name, &[("RAMIE_STRANDS", value)]);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(said("threads").contains("thread: true"));
    assert!(said("fibers").contains("thread: false"));
    assert!(said("").contains("thread: false"));
    let sentence = "invalid value `goats` for RAMIE_STRANDS: expected fibers or threads";
    assert!(said("goats").contains(sentence));
}
