//! The end of a worker that another loop drives.

use std::{
    cell::{Cell, RefCell},
    panic,
    rc::Rc,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use ramie::{Driver, GuestRuntime, Runtime, RuntimeEnded, Strands, Turned, channel, fiber};

use super::{
    common::{Limit, assert_success, child, is_child, on_each, text},
    ends::in_child,
    guest::is_readable,
};

fn guest(workers: usize) -> GuestRuntime {
    let builder = Runtime::builder().strands(Strands::Fibers).workers(workers);
    builder.build().unwrap().start_guest().unwrap()
}

#[test]
fn a_drop_runs_the_fibers_to_their_ends() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let guest = runtime.start_guest().unwrap();
        let ended = Rc::new(Cell::new(0));
        for n in 0..10 {
            let ended = Rc::clone(&ended);
            let fiber = guest.spawn_local(move || {
                fiber::sleep(Duration::from_micros(100 * n));
                ended.set(ended.get() + 1);
            });
            drop(fiber.unwrap());
        }
        let handle = guest.handle();
        drop(guest);
        assert_eq!(ended.get(), 10);
        assert!(RuntimeEnded::of(&handle.spawn(|| ()).unwrap_err()).is_some());
    });
}

#[test]
fn turns_end_once_a_shutdown_has_begun_and_all_fibers_have_ended() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let (sender, receiver) = channel::bounded::<()>(1);
        let fiber = guest.spawn_local(move || assert!(receiver.recv().is_err())).unwrap();
        guest.handle().begin_shutdown(Duration::MAX);
        assert!(guest.spawn_local(|| ()).is_err());
        while !matches!(guest.turn(Duration::from_millis(1)), Turned::Idle(_)) {}
        drop(sender);
        while guest.turn(Duration::from_millis(1)) != Turned::Ended {}
        fiber.join().unwrap();
        for _ in 0..3 {
            assert!(is_readable(&guest, Duration::from_secs(10)), "the loop has to hear of it");
            assert_eq!(guest.turn(Duration::ZERO), Turned::Ended);
        }
        assert_eq!(guest.shutdown(Duration::MAX).count(), 0);
    });
}

#[test]
fn a_shutdown_abandons_what_is_left_after_its_timeout() {
    let _limit = Limit::of_this_test();
    for workers in [1, 2] {
        let mut guest = guest(workers);
        let fiber = guest.spawn_local(fiber::park).unwrap();
        guest.turn(Duration::from_millis(1));
        let unstarted = guest.spawn_local(|| unreachable!("it has no turn")).unwrap();
        let abandoned = guest.shutdown(Duration::ZERO);
        assert!((1..=2).contains(&abandoned.count()), "{abandoned:?}");
        assert!(text(&*fiber.join().unwrap_err()).contains("abandoned"));
        drop(unstarted);
    }
}

/// Another thread waits for the end, which needs the turns of this one.
#[test]
fn a_shutdown_by_another_thread_ends_with_the_turns_of_the_loop() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let handle = guest.handle();
        let ends = thread::spawn(move || handle.shutdown(Duration::MAX).count());
        while guest.turn(Duration::from_millis(1)) != Turned::Ended {}
        drop(guest);
        assert_eq!(ends.join().unwrap(), 0);
    });
}

#[test]
fn a_drop_in_a_panic_abandons_the_fibers() {
    let _limit = Limit::of_this_test();
    for workers in [1, 2] {
        let mut guest = guest(workers);
        let ran_on = Rc::new(Cell::new(false));
        let theirs = Rc::clone(&ran_on);
        let fiber = guest.spawn_local(move || {
            fiber::park();
            theirs.set(true);
        });
        let fiber = fiber.unwrap();
        guest.turn(Duration::from_millis(1));
        fiber.fiber().unpark();
        let start = Instant::now();
        let dropped = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            let _guest = guest;
            panic::resume_unwind(Box::new("while it runs"));
        }));
        assert!(dropped.is_err() && start.elapsed() < Duration::from_secs(10));
        assert!(!ran_on.get(), "it would have seen the thread panicking");
        assert!(text(&*fiber.join().unwrap_err()).contains("abandoned"));
    }
}

#[test]
fn a_drop_on_a_fiber_of_another_runtime_abandons_the_fibers() {
    let _limit = Limit::of_this_test();
    for workers in [1, 2] {
        let mut guest = guest(workers);
        let fiber = guest.spawn_local(fiber::park).unwrap();
        guest.turn(Duration::from_millis(1));
        super::common::one_worker().run(|| drop(guest));
        assert!(text(&*fiber.join().unwrap_err()).contains("abandoned"));
    }
}

/// A fiber that is suspended inside `LocalKey::with` would refer to a value that is destroyed.
#[test]
fn a_runtime_in_a_thread_local_runs_no_fiber_while_the_thread_ends() {
    let _limit = Limit::of_this_test();
    struct Noisy(Cell<bool>);
    impl Drop for Noisy {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    thread_local! {
        static GUEST: RefCell<Option<GuestRuntime>> = const { RefCell::new(None) };
        static VALUE: Noisy = const { Noisy(Cell::new(false)) };
    }
    for _ in 0..5 {
        let (report, reports) = mpsc::channel();
        let ends = thread::spawn(move || {
            GUEST.with_borrow_mut(|place| {
                let mut guest = guest(1);
                let fiber = guest.spawn_local(move || {
                    VALUE.with(|value| {
                        fiber::park();
                        report.send(value.0.get()).unwrap();
                    });
                });
                let fiber = fiber.unwrap();
                guest.turn(Duration::from_millis(1));
                fiber.fiber().unpark();
                *place = Some(guest);
            });
        });
        ends.join().unwrap();
        assert_ne!(reports.try_recv(), Ok(true), "the fiber saw a destroyed value");
    }
}

#[test]
fn one_that_is_forgotten_never_runs_again_and_others_may_still_wake_it() {
    let _limit = Limit::of_this_test();
    for workers in [1, 2] {
        let ends = thread::spawn(move || {
            let mut guest = guest(workers);
            let (sender, receiver) = channel::bounded::<i32>(4);
            let fiber = guest.spawn_local(move || receiver.iter().for_each(drop)).unwrap();
            guest.turn(Duration::from_millis(1));
            let handle = guest.handle();
            std::mem::forget(guest);
            sender.send(1).unwrap();
            let placed = handle.spawn_on(fiber::Place::Worker(0), || ()).unwrap();
            (sender, handle, placed.is_finished(), fiber.is_finished())
        });
        let (sender, handle, placed, fiber) = ends.join().unwrap();
        sender.send(2).unwrap();
        handle.begin_shutdown(Duration::MAX);
        assert!(!placed && !fiber && !handle.is_open());
    }
}

#[test]
fn turns_fail_in_the_child_of_a_fork() {
    if !is_child() {
        return assert_success(&child("turns_fail_in_the_child_of_a_fork"));
    }
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let mut guest = Some(runtime.start_guest().unwrap());
        guest.as_mut().unwrap().turn(Duration::ZERO);
        let fails = in_child(|| {
            let mut guest = guest.take().unwrap();
            let turn = panic::AssertUnwindSafe(|| guest.turn(Duration::ZERO));
            let said = panic::catch_unwind(turn).unwrap_err();
            let is_refused = guest.spawn_local(|| ()).is_err();
            guest.shutdown(Duration::MAX);
            is_refused && text(&*said).contains("in the child of a fork")
        });
        assert!(fails, "a call in the child does not fail");
        drop(guest);
    });
}

/// The kernel takes a ring apart when its last descriptor is closed, and the drop of every ninth
/// ring of a thread waits for that, for a second at most.
#[test]
fn a_drop_does_not_wait_for_the_descriptor_that_it_holds_itself() {
    let _limit = Limit::of_this_test();
    if !super::common::has_ring() {
        return;
    }
    let slowest_of_nine = || {
        let times = (0..9).map(|_| {
            let builder = Runtime::builder().strands(Strands::Fibers).workers(1);
            let guest = builder.driver(Driver::Uring).build().unwrap().start_guest().unwrap();
            let start = Instant::now();
            drop(guest);
            start.elapsed()
        });
        times.max().unwrap()
    };
    // A machine that is busy may delay one of them.
    let quickest = (0..3).map(|_| slowest_of_nine()).min().unwrap();
    assert!(quickest < Duration::from_millis(900), "{quickest:?}");
}

#[test]
fn a_destructor_that_runs_in_a_panic_gets_no_turn() {
    let _limit = Limit::of_this_test();
    struct Turns(GuestRuntime, mpsc::Sender<String>);
    impl Drop for Turns {
        fn drop(&mut self) {
            let said = super::common::panic_text(|| self.0.turn(Duration::ZERO));
            self.1.send(said).unwrap();
        }
    }
    let (report, reports) = mpsc::channel();
    let dropped = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let _turns = Turns(guest(1), report);
        panic::resume_unwind(Box::new("while it runs"));
    }));
    assert!(dropped.is_err());
    let said = reports.recv().unwrap();
    assert!(said.contains("in a destructor that runs during a panic"), "{said}");
}

#[test]
fn what_a_guest_abandons_is_reported_on_its_thread() {
    let _limit = Limit::of_this_test();
    let (report, reports) = mpsc::channel();
    let builder = Runtime::builder().strands(Strands::Fibers).workers(1);
    let builder = builder.on_abandoned(move |fibers| {
        report.send((fibers.count(), thread::current().id())).unwrap();
    });
    let mut guest = builder.build().unwrap().start_guest().unwrap();
    guest.spawn_local(fiber::park).unwrap();
    guest.turn(Duration::from_millis(1));
    assert_eq!(guest.shutdown(Duration::ZERO).count(), 1);
    assert_eq!(reports.recv().unwrap(), (1, thread::current().id()));
}
