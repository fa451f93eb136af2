//! Coroutines that are suspended inside a thread-local's `with` when their thread ends.

use std::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use ramie_coro::{Coroutine, Resumed, Yielder};

type Kept = RefCell<Option<Coroutine<(), (), ()>>>;

thread_local! {
    static KEPT: Kept = const { RefCell::new(None) };
    static VALUE: Value = const { Value };
}

/// The data that the threads of a test share.
struct Record {
    is_alive: AtomicBool,
    was_used_late: AtomicBool,
}

impl Record {
    const fn new() -> Self {
        Record { is_alive: AtomicBool::new(true), was_used_late: AtomicBool::new(false) }
    }
}

thread_local! {
    static RECORD: Cell<Option<&'static Record>> = const { Cell::new(None) };
}

/// A value of a thread-local, to which a suspended coroutine refers.
struct Value;

impl Drop for Value {
    fn drop(&mut self) {
        RECORD.get().expect("a record").is_alive.store(false, Ordering::SeqCst);
    }
}

/// Uses the value when it is unwound.
struct User<'a>(&'a Value);

impl Drop for User<'_> {
    fn drop(&mut self) {
        let _: &Value = self.0;
        let record = RECORD.get().expect("a record");
        if !record.is_alive.load(Ordering::SeqCst) {
            record.was_used_late.store(true, Ordering::SeqCst);
        }
    }
}

fn suspends_inside_with() -> Coroutine<(), (), ()> {
    Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        VALUE.with(|value| {
            let _user = User(value);
            yielder.suspend(());
        });
    })
}

/// Runs `before`, then keeps a coroutine that is suspended inside `with`, on a thread that ends.
fn at_the_end(before: impl FnOnce() + Send + 'static) -> &'static Record {
    let record: &'static Record = Box::leak(Box::new(Record::new()));
    let thread = thread::spawn(move || {
        RECORD.set(Some(record));
        before();
        KEPT.with_borrow_mut(|kept| *kept = Some(suspends_inside_with()));
        let resumed = KEPT.with_borrow(|kept| kept.as_ref().map(|kept| kept.resume(())));
        assert_eq!(resumed, Some(Resumed::Yielded(())));
    });
    thread.join().unwrap();
    assert!(!record.is_alive.load(Ordering::SeqCst), "the value was destroyed");
    record
}

#[test]
fn a_coroutine_is_leaked_once_the_value_that_it_refers_to_may_be_gone() {
    // The number of coroutines that the thread has started before. After each of these numbers the
    // next start uses a key. Between them only the stated assumption of `Coroutine` holds.
    for earlier in [0, 1, 7, 15, 31, 1023] {
        let record = at_the_end(move || {
            for _ in 0..earlier {
                Coroutine::<(), (), ()>::new(|_, ()| ()).resume(());
            }
        });
        assert!(!record.was_used_late.load(Ordering::SeqCst), "{earlier} coroutines before");
    }
}

#[test]
fn a_coroutine_in_a_threads_frame_is_unwound_as_usual() {
    let record: &'static Record = Box::leak(Box::new(Record::new()));
    let unwound = thread::spawn(move || {
        RECORD.set(Some(record));
        let unwound = std::rc::Rc::new(Cell::new(false));
        let noted = std::rc::Rc::clone(&unwound);
        let coroutine: Coroutine<(), (), ()> =
            Coroutine::new(move |yielder: &Yielder<_, _>, ()| {
                struct Note(std::rc::Rc<Cell<bool>>);
                impl Drop for Note {
                    fn drop(&mut self) {
                        self.0.set(true);
                    }
                }
                let _note = Note(noted);
                yielder.suspend(());
            });
        coroutine.resume(());
        drop(coroutine);
        unwound.get()
    });
    assert!(unwound.join().unwrap());
}
