//! Fibers that have not ended when the grace period is over.

use std::{
    sync::{
        Arc, Mutex as StdMutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::common::{Counted, on_each, one_worker, text, wait_until};
use ramie::{
    Driver, Runtime,
    fiber::{self, Builder, JoinHandle},
    sync::{Mutex, RwLock, Semaphore, oneshot},
};

type Lines = Arc<StdMutex<Vec<String>>>;

/// A runtime without patience, and its report about the fibers that it gives up.
fn impatient(driver: Driver, workers: usize) -> (Runtime, Lines) {
    let lines = Lines::default();
    let reported = Arc::clone(&lines);
    let runtime =
        Runtime::builder().driver(driver).workers(workers).grace(Duration::ZERO).on_abandoned(
            move |fibers| {
                assert_eq!(fibers.count(), fibers.iter().count());
                reported.lock().unwrap().extend(fibers.iter().map(str::to_owned));
            },
        );
    (runtime.build().unwrap(), lines)
}

fn on_each_impatient(workers: &[usize], f: impl Fn(&Runtime, &Lines)) {
    on_each(workers, |runtime| {
        let driver =
            if format!("{runtime:?}").contains("Poll") { Driver::Poll } else { Driver::Uring };
        let (runtime, lines) = impatient(driver, runtime.workers());
        f(&runtime, &lines);
    });
}

fn spawn_named<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    Builder::new().name(name.into()).spawn(f).unwrap()
}

#[track_caller]
fn assert_abandoned<T>(handle: JoinHandle<T>) {
    assert!(handle.is_finished());
    let payload = handle.join().err().expect("it was abandoned");
    assert!(text(&*payload).contains("abandoned"), "{}", text(&*payload));
}

#[test]
fn parked_fibers_are_named_with_their_waits() {
    on_each_impatient(&[1], |runtime, lines| {
        let parked = runtime.run(|| {
            let lock = Arc::new(Mutex::new(()));
            let held = lock.lock().unwrap();
            let theirs = Arc::clone(&lock);
            let (sender, receiver) = oneshot::channel::<()>();
            std::mem::forget(sender);
            let arrived = Arc::new(AtomicUsize::new(0));
            let arrive = |arrived: &Arc<AtomicUsize>| {
                let arrived = Arc::clone(arrived);
                move || {
                    arrived.fetch_add(1, Ordering::SeqCst);
                }
            };
            let arrivals = [(); 5].map(|()| arrive(&arrived));
            let [a, b, c, d, e] = arrivals;
            let mut parked = vec![
                spawn_named("parks", move || {
                    a();
                    fiber::park();
                }),
                spawn_named("sleeps", move || {
                    b();
                    fiber::sleep(Duration::from_secs(3600));
                }),
                spawn_named("locks", move || {
                    c();
                    drop(theirs.lock());
                }),
                spawn_named("receives", move || {
                    d();
                    let _ = receiver.recv();
                }),
            ];
            parked.push(spawn_named("joins", move || {
                e();
                drop(fiber::spawn(fiber::park).join());
            }));
            wait_until(|| arrived.load(Ordering::SeqCst) == 5);
            (0..10).for_each(|_| fiber::yield_now());
            std::mem::forget(held);
            parked
        });
        let lines = lines.lock().unwrap();
        let is_reported = |start: &str| lines.iter().any(|line| line.starts_with(start));
        assert!(is_reported("fiber 'parks' waits for an unpark at "), "{lines:?}");
        assert!(is_reported("fiber 'sleeps' waits for a sleep at "), "{lines:?}");
        assert!(is_reported("fiber 'locks' waits for a Mutex (held by strand "), "{lines:?}");
        assert!(is_reported("fiber 'receives' waits for a oneshot's value at "), "{lines:?}");
        assert!(is_reported("fiber 'joins' waits for the end of a strand (fiber "), "{lines:?}");
        let is_placed = |line: &&String| line.contains("abandon.rs:");
        assert_eq!(lines.iter().filter(is_placed).count(), 5, "{lines:?}");
        assert_eq!(lines.len(), 6);
        parked.into_iter().for_each(assert_abandoned);
    });
}

#[test]
fn runnable_fibers_and_unstarted_closures_are_given_up_too() {
    let (runtime, lines) = impatient(Driver::Auto, 1);
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let handles = runtime.run(|| {
        let spin = || {
            let _never_dropped = Counted(&DROPS);
            loop {
                fiber::yield_now();
            }
        };
        let mut handles: Vec<JoinHandle<()>> =
            (0..100).map(|_| spawn_named("spins", spin)).collect();
        fiber::yield_now();
        let counted: Vec<_> = (0..10).map(|_| Counted(&DROPS)).collect();
        handles.extend(
            counted.into_iter().map(|counted| spawn_named("unstarted", move || drop(counted))),
        );
        handles
    });
    let lines = lines.lock().unwrap();
    let count = |line: &str| lines.iter().filter(|found| found.starts_with(line)).count();
    let here = "runnable_fibers_and_unstarted_closures_are_given_up_too::";
    let here = format!("it runs {}::{here}", module_path!());
    assert_eq!(count(&format!("fiber 'spins' waits for its turn to run; {here}")), 100);
    assert_eq!(count(&format!("fiber 'unstarted' waits for its turn to run; {here}")), 10);
    assert_eq!(DROPS.load(Ordering::SeqCst), 10, "only what never ran is dropped");
    handles.into_iter().for_each(assert_abandoned);
}

#[test]
fn a_job_on_the_pool_outlives_its_fiber() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static GATE: AtomicBool = AtomicBool::new(false);
    static SEEN: OnceLock<usize> = OnceLock::new();
    let (runtime, lines) = impatient(Driver::Auto, 1);
    let waits = runtime.run(|| {
        let waits = spawn_named("blocks", || {
            let borrowed = String::from("borrowed by the job");
            ramie::blocking(|| {
                STARTED.store(true, Ordering::SeqCst);
                while !GATE.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                SEEN.set(borrowed.len()).unwrap();
            });
        });
        wait_until(|| STARTED.load(Ordering::SeqCst));
        waits
    });
    let reported = lines.lock().unwrap().concat();
    assert!(reported.contains("'blocks' waits for a job on the blocking pool"), "{reported}");
    assert_abandoned(waits);
    GATE.store(true, Ordering::SeqCst);
    wait_until(|| SEEN.get().is_some());
    assert_eq!(SEEN.get(), Some(&"borrowed by the job".len()));
}

#[test]
fn a_joiner_of_a_fiber_abandoned_elsewhere_wakes() {
    let (runtime, _) = impatient(Driver::Auto, 1);
    let joiner = runtime.run(|| {
        let parked = spawn_named("parks", fiber::park);
        fiber::yield_now();
        std::thread::spawn(move || parked.join())
    });
    assert!(joiner.join().unwrap().is_err());
}

#[test]
fn nothing_is_given_up_in_time() {
    let called = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&called);
    let runtime = Runtime::builder()
        .grace(Duration::from_secs(3600))
        .on_abandoned(move |_| theirs.store(true, Ordering::SeqCst))
        .build()
        .unwrap();
    let handle = runtime.run(|| {
        fiber::spawn(|| {
            (0..100).for_each(|_| fiber::yield_now());
            5
        })
    });
    assert_eq!(handle.join().unwrap(), 5);
    assert!(!called.load(Ordering::SeqCst));
}

#[test]
fn a_runtime_that_gave_fibers_up_runs_again() {
    let (runtime, lines) = impatient(Driver::Auto, 2);
    for _ in 0..50 {
        runtime.run(|| {
            drop(spawn_named("parks", fiber::park));
            fiber::yield_now();
        });
    }
    assert_eq!(lines.lock().unwrap().len(), 50);
}

/// The first waiter is given up after it was woken; the second must get the lock nevertheless.
fn pass_on_a_lock(is_handed_over: bool) {
    let lock: &'static Mutex<()> = Box::leak(Box::default());
    let second_waits: &'static AtomicBool = Box::leak(Box::default());
    let second = move || {
        one_worker().run(|| {
            let waits = fiber::spawn(|| drop(lock.lock().unwrap()));
            fiber::yield_now();
            second_waits.store(true, Ordering::SeqCst);
            waits.join().unwrap();
        });
    };
    let (impatient, lines) = impatient(Driver::Auto, 1);
    let second = impatient.run(|| {
        let mut held = lock.lock().unwrap();
        drop(spawn_named("first", || drop(lock.lock())));
        fiber::yield_now();
        // Woken, but the lock is taken again when its turn comes. After so many losses
        // (`LOSSES` of the lock) it asks to be handed it.
        for _ in 0..if is_handed_over { 16 } else { 0 } {
            drop(held);
            held = lock.lock().unwrap();
            fiber::yield_now();
        }
        let second = std::thread::spawn(second);
        wait_until(|| second_waits.load(Ordering::SeqCst));
        for _ in 0..100 {
            drop(fiber::spawn(|| {
                loop {
                    fiber::yield_now();
                }
            }));
        }
        fiber::yield_now();
        drop(held);
        second
    });
    let reported = lines.lock().unwrap().concat();
    assert!(reported.contains("'first' waits for a Mutex"), "{reported}");
    wait_until(|| second.is_finished());
    second.join().unwrap();
    assert!(lock.try_lock().is_ok());
}

#[test]
fn the_wake_up_of_a_waiter_that_is_given_up_goes_to_the_next() {
    pass_on_a_lock(false);
}

#[test]
fn a_lock_handed_to_a_waiter_that_is_given_up_goes_to_the_next() {
    pass_on_a_lock(true);
}

#[test]
fn a_waiter_that_is_given_up_leaves_its_queue() {
    let lock: &'static Mutex<()> = Box::leak(Box::default());
    let held = lock.lock().unwrap();
    let (runtime, _) = impatient(Driver::Auto, 1);
    runtime.run(|| {
        (0..3).for_each(|_| drop(fiber::spawn(|| drop(lock.lock()))));
        (0..5).for_each(|_| fiber::yield_now());
    });
    let next = std::thread::spawn(|| drop(lock.lock().unwrap()));
    drop(held);
    next.join().unwrap();
}

#[test]
fn a_fiber_in_io_is_given_up_and_its_op_with_it() {
    on_each_impatient(&[1, 2], |runtime, lines| {
        let handle = runtime.run(|| {
            let listener = ramie::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let begun = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&begun);
            // Local, so that it has suspended in the accept when this fiber's turn comes again.
            let accepts = Builder::new().name("accepts".into()).spawn_local(move || {
                theirs.store(true, Ordering::SeqCst);
                drop(listener.accept());
            });
            wait_until(|| begun.load(Ordering::SeqCst));
            accepts.unwrap()
        });
        let reported = lines.lock().unwrap().concat();
        assert!(reported.contains("fiber 'accepts' waits for"), "{reported}");
        assert!(reported.contains("abandon.rs:"), "{reported}");
        assert_abandoned(handle);
    });
}

#[test]
fn items_for_an_abandoned_receiver_wake_nobody() {
    use std::io::Write;
    on_each_impatient(&[1, 2], |runtime, lines| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let (told, came) = std::sync::mpsc::channel();
        let mut second = peer.try_clone().unwrap();
        let handle = runtime.run(|| {
            let handle = spawn_named("receiver", move || {
                let stream = ramie::net::TcpStream::from(stream);
                for bytes in stream.recv_each() {
                    told.send(bytes.unwrap().len()).unwrap();
                }
            });
            // It has waited once, so its op is on its way.
            second.write_all(b"first").unwrap();
            wait_until(|| came.try_recv() == Ok(5));
            fiber::yield_now();
            handle
        });
        assert_abandoned(handle);
        let line = lines.lock().unwrap().pop().expect("one was given up");
        assert!(line.contains("fiber 'receiver' waits for"), "{line}");
        // Data that has come since is nobody's, and the worker runs others.
        let _ = peer.write_all(b"second");
        runtime.run(|| (0..100).for_each(|_| fiber::spawn(fiber::yield_now).join().unwrap()));
    });
}

#[test]
fn a_fiber_that_has_waited_and_runs_again_is_reported_as_runnable() {
    let (runtime, lines) = impatient(Driver::Auto, 1);
    runtime.run(|| {
        let busy = spawn_named("busy", || {
            fiber::park();
            loop {
                fiber::yield_now();
            }
        });
        fiber::yield_now();
        busy.fiber().unpark();
        (0..5).for_each(|_| fiber::yield_now());
    });
    let reported = lines.lock().unwrap().concat();
    assert!(reported.contains("'busy' waits for its turn to run"), "{reported}");
}

/// Waits until the thread with this id sleeps in the kernel.
fn wait_until_asleep(thread: &AtomicUsize) {
    wait_until(|| {
        let id = thread.load(Ordering::SeqCst);
        let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat"));
        stat.is_ok_and(|stat| stat.contains(") S "))
    });
}

/// Runs `first` on a fiber that is given up while it waits, and `second` on a thread that waits
/// behind it: the thread must go on then.
#[track_caller]
fn pass_over_one_that_is_given_up(first: fn(), second: fn()) {
    static THREAD: AtomicUsize = AtomicUsize::new(0);
    THREAD.store(0, Ordering::SeqCst);
    let (runtime, lines) = impatient(Driver::Auto, 1);
    let behind = runtime.run(|| {
        drop(spawn_named("first", first));
        (0..5).for_each(|_| fiber::yield_now());
        let behind = std::thread::spawn(move || {
            // SAFETY: it has no conditions.
            THREAD.store(unsafe { libc::gettid() } as usize, Ordering::SeqCst);
            second();
        });
        wait_until_asleep(&THREAD);
        behind
    });
    let reported = lines.lock().unwrap().concat();
    assert!(reported.contains("'first' waits for"), "{reported}");
    wait_until(|| behind.is_finished());
    behind.join().unwrap();
}

/// One test, because both use the one thread's id.
#[test]
fn those_behind_a_waiter_that_is_given_up_go_on() {
    static LOCK: RwLock<()> = RwLock::new(());
    static PERMITS: Semaphore = Semaphore::new(1);
    let held = LOCK.read().unwrap();
    pass_over_one_that_is_given_up(|| drop(LOCK.write()), || drop(LOCK.read().unwrap()));
    drop(held);
    pass_over_one_that_is_given_up(
        || drop(PERMITS.acquire_many(2)),
        || drop(PERMITS.acquire().unwrap()),
    );
}
