//! Destructors of thread-locals, while their thread ends, may do all that std's types let them.

use std::{
    cell::RefCell,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Sender},
    },
    thread::{self, ThreadId},
    time::Duration,
};

use crate::common::{assert_success, child, is_child};
use ramie::{
    channel,
    coro::{Coroutine, Yielder},
    fiber::{self, Fiber},
    sync,
};

type Act = Box<dyn FnOnce()>;

/// Calls something when its thread ends.
struct AtExit(RefCell<Option<Act>>);

impl Drop for AtExit {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

thread_local! {
    static AT_EXIT: AtExit = const { AtExit(RefCell::new(None)) };
}

/// Calls `act` after the thread's worker was notified of the thread's end, because the value
/// initialized first is destroyed last. In a process of its own, since a panic there ends it.
fn at_exit(test: &str, act: fn()) {
    if !is_child() {
        return assert_success(&child(test));
    }
    let (tell, told) = mpsc::channel();
    let late = move |tell: Sender<()>| {
        AT_EXIT.with(|at_exit| {
            *at_exit.0.borrow_mut() = Some(Box::new(move || {
                act();
                tell.send(()).unwrap();
            }));
        });
        fiber::sleep(Duration::from_millis(1));
    };
    thread::spawn(move || late(tell)).join().unwrap();
    told.recv().unwrap();
}

static MUTEX: sync::Mutex<u32> = sync::Mutex::new(0);

#[test]
fn locks_can_be_taken() {
    at_exit("locks_can_be_taken", || {
        *MUTEX.lock().unwrap() += 1;
        drop(MUTEX.try_lock().unwrap());
        drop(sync::RwLock::new(1).write().unwrap());
        assert_eq!(*sync::OnceLock::new().get_or_init(|| 1), 1);
        sync::Condvar::new().notify_all();
    });
}

#[test]
fn values_can_be_sent_and_received() {
    at_exit("values_can_be_sent_and_received", || {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        assert_eq!(receiver.recv(), Ok(1));
        let (sender, receiver) = sync::mpsc::channel();
        sender.send(1).unwrap();
        assert_eq!(receiver.recv(), Ok(1));
        let (sender, receiver) = sync::oneshot::channel();
        sender.send(1).unwrap();
        assert_eq!(receiver.recv(), Ok(1));
    });
}

#[test]
fn strands_can_be_made_and_waited_for() {
    at_exit("strands_can_be_made_and_waited_for", || {
        assert_eq!(fiber::spawn(|| 1).join().unwrap(), 1);
        assert_eq!(fiber::spawn_local(|| 1).join().unwrap(), 1);
        let (sender, receiver) = channel::bounded(0);
        thread::spawn(move || sender.send(1).unwrap());
        assert_eq!(receiver.recv(), Ok(1));
        fiber::sleep(Duration::from_millis(1));
        fiber::yield_now();
    });
}

#[test]
fn input_and_output_work() {
    at_exit("input_and_output_work", || {
        use std::io::{Read, Write};
        let (mut reader, mut writer) = ramie::io::pipe().unwrap();
        writer.write_all(b"late").unwrap();
        reader.read_exact(&mut [0; 4]).unwrap();
        ramie::println!("late");
        ramie::no_switch(|| ());
    });
}

static IS_ALIVE: AtomicBool = AtomicBool::new(true);
static WAS_USED_LATE: AtomicBool = AtomicBool::new(false);

/// A value to which a fiber refers while it waits.
struct Value;

impl Drop for Value {
    fn drop(&mut self) {
        IS_ALIVE.store(false, Ordering::SeqCst);
    }
}

thread_local! {
    static VALUE: Value = const { Value };
}

#[test]
fn a_fiber_that_waits_inside_with_goes_no_further_once_the_value_may_be_gone() {
    const NAME: &str = "a_fiber_that_waits_inside_with_goes_no_further_once_the_value_may_be_gone";
    if !is_child() {
        return assert_success(&child(NAME));
    }
    let thread = thread::spawn(|| {
        // The thread's worker is there before the local whose destructor waits.
        fiber::sleep(Duration::from_millis(1));
        AT_EXIT.with(|at_exit| {
            *at_exit.0.borrow_mut() = Some(Box::new(|| fiber::sleep(Duration::from_millis(20))));
        });
        drop(fiber::spawn_local(|| {
            VALUE.with(|_value| {
                fiber::sleep(Duration::from_millis(5));
                WAS_USED_LATE.fetch_or(!IS_ALIVE.load(Ordering::SeqCst), Ordering::SeqCst);
            });
        }));
        fiber::sleep(Duration::from_millis(1));
    });
    thread.join().unwrap();
    assert!(!IS_ALIVE.load(Ordering::SeqCst), "the value was destroyed");
    assert!(!WAS_USED_LATE.load(Ordering::SeqCst), "the fiber went on afterwards");
}

/// Uses the value when it is dropped.
struct User<'a>(&'a Value);

impl Drop for User<'_> {
    fn drop(&mut self) {
        let _: &Value = self.0;
        WAS_USED_LATE.fetch_or(!IS_ALIVE.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// A coroutine that is suspended inside `with`; the thread's worker is there before the value.
fn suspended_inside_with() -> Coroutine<(), (), ()> {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        let _ = fiber::current();
        VALUE.with(|value| {
            let _user = User(value);
            yielder.suspend(());
        });
    });
    coroutine.resume(());
    coroutine
}

/// Ends a thread that has left something behind which refers to the value, in a process of its own.
fn leave_behind(test: &str, act: fn()) {
    if !is_child() {
        return assert_success(&child(test));
    }
    thread::spawn(act).join().unwrap();
    assert!(!IS_ALIVE.load(Ordering::SeqCst), "the value was destroyed");
    assert!(!WAS_USED_LATE.load(Ordering::SeqCst), "the value was used afterwards");
}

ramie::fiber_local! {
    static KEPT: RefCell<Option<Coroutine<(), (), ()>>> = const { RefCell::new(None) };
    static WAITS: Waits = Waits;
}

#[test]
fn a_coroutine_in_a_fiber_local_is_leaked_once_the_value_may_be_gone() {
    leave_behind("a_coroutine_in_a_fiber_local_is_leaked_once_the_value_may_be_gone", || {
        let coroutine = suspended_inside_with();
        KEPT.with(|kept| *kept.borrow_mut() = Some(coroutine));
    });
}

#[test]
fn a_coroutine_of_a_closure_that_never_starts_is_leaked_once_the_value_may_be_gone() {
    let name = "a_coroutine_of_a_closure_that_never_starts_is_leaked_once_the_value_may_be_gone";
    leave_behind(name, || {
        let coroutine = suspended_inside_with();
        drop(fiber::spawn_local(move || drop(coroutine)));
    });
}

struct Waits;

impl Drop for Waits {
    fn drop(&mut self) {
        fiber::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_fiber_goes_no_further_while_a_fiber_local_of_its_thread_is_destroyed() {
    let name = "a_fiber_goes_no_further_while_a_fiber_local_of_its_thread_is_destroyed";
    leave_behind(name, || {
        WAITS.with(|_| ());
        drop(fiber::spawn_local(|| fiber::sleep(Duration::from_secs(100))));
        // So many waits that the next one uses no key of its own.
        for _ in 0..17 {
            fiber::yield_now();
            fiber::sleep(Duration::from_micros(50));
        }
        drop(fiber::spawn_local(|| {
            VALUE.with(|value| {
                let _user = User(value);
                fiber::sleep(Duration::from_millis(5));
            });
        }));
        fiber::sleep(Duration::from_micros(100));
    });
}

static LEFT: Mutex<Option<Fiber>> = Mutex::new(None);
static RAN_ON: Mutex<Option<(ThreadId, ThreadId)>> = Mutex::new(None);

/// Leaves a fiber behind that was started by the destructor of a local.
struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        let home = thread::current().id();
        drop(fiber::spawn_local(move || {
            *LEFT.lock().unwrap() = Some(fiber::current());
            fiber::park();
            *RAN_ON.lock().unwrap() = Some((home, thread::current().id()));
        }));
        fiber::sleep(Duration::from_millis(1));
    }
}

ramie::fiber_local! {
    static LATE: Late = Late;
}

struct Touch;

impl Drop for Touch {
    fn drop(&mut self) {
        LATE.with(|_| ());
    }
}

#[test]
fn a_fiber_that_a_late_destructor_made_never_runs_on_another_thread() {
    thread::spawn(|| {
        let touch = Touch;
        // Never started, because the thread does not wait: dropped when it ends.
        drop(fiber::spawn_local(move || drop(touch)));
    })
    .join()
    .unwrap();
    let left = LEFT.lock().unwrap().take().expect("it was started");
    // A thread that may have got resources that the other's worker has given back.
    let (tell, told) = mpsc::channel();
    let other = thread::spawn(move || {
        tell.send(fiber::current()).unwrap();
        fiber::park();
    });
    let there = told.recv().unwrap();
    left.unpark();
    there.unpark();
    other.join().unwrap();
    assert_eq!(*RAN_ON.lock().unwrap(), None);
}
