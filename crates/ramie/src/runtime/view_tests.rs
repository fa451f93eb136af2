//! What a watchdog can see of a worker (`core/worker/view.rs`).
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::{
    core::worker::{WorkerView, current},
    fiber,
};

fn view() -> WorkerView {
    // SAFETY: the tests use it while the runtime runs.
    unsafe { WorkerView::new(&current()) }.expect("a member of a runtime")
}

fn one_worker() -> crate::Runtime {
    crate::Runtime::builder().workers(1).build().unwrap()
}

#[test]
fn the_running_fiber_is_named_with_its_closure() {
    one_worker().run(|| {
        let theirs = view();
        let look = move || theirs.running(theirs.turn());
        let seen = std::thread::scope(|s| s.spawn(look).join());
        let seen = seen.unwrap().expect("the worker runs this fiber");
        assert_eq!(seen.label, "fiber 'main'");
        assert!(seen.closure.contains("run_main"), "{seen:?}");
        assert!(!seen.is_in_no_switch);
        let view = view();
        let masked = crate::no_switch(|| view.running(view.turn()));
        assert!(masked.is_some_and(|fiber| fiber.is_in_no_switch));
    });
}

#[test]
fn a_turn_ends_with_each_switch_and_each_closure() {
    one_worker().run(|| {
        let turn = view().turn();
        assert!(turn.runs_fibers());
        assert_eq!(view().turn(), turn);
        fiber::yield_now();
        assert_ne!(view().turn(), turn);
        assert_eq!(view().running(turn), None);
        let turns: Vec<_> = (0..3).map(|_| fiber::spawn(|| view().turn())).collect();
        let turns: Vec<_> = turns.into_iter().map(|turn| turn.join().unwrap()).collect();
        assert!(turns[0] != turns[1] && turns[1] != turns[2], "{turns:?}");
    });
}

#[test]
fn parked_fibers_are_listed_with_their_waits() {
    one_worker().run(|| {
        let lock = Box::new(std::sync::Mutex::new(()));
        let address = (&raw const *lock).addr();
        let is_over = AtomicBool::new(false);
        fiber::scope(|s| {
            let builder = fiber::Builder::new().name("holder".to_owned());
            let holder_handle = builder
                .spawn_scoped(s, || {
                    let _guard = lock.lock().unwrap();
                    while !is_over.load(SeqCst) {
                        fiber::park();
                    }
                })
                .unwrap();
            let waiter_handle = s.spawn(|| {
                while !is_over.load(SeqCst) {
                    fiber::park();
                }
            });
            s.spawn(|| fiber::yield_now());
            fiber::yield_now();
            let view = view();
            let parked = view.parked(address, || true);
            let changed = view.parked(address, || false);
            is_over.store(true, SeqCst);
            for handle in [holder_handle, waiter_handle] {
                handle.thread().unpark();
            }
            let parked = parked.expect("nothing has changed");
            assert!(!parked.is_cut && changed.is_none());
            let [holding, others @ ..] = &parked.fibers[..] else { panic!("there are some") };
            assert_eq!(holding.label, "fiber 'holder'");
            assert!(holding.refers && holding.wait.is_some_and(|(_, at)| at.file() == file!()));
            assert!(others.iter().all(|other| !other.refers), "they do not use the lock");
            let waiting = others.iter().filter(|other| other.wait.is_some()).count();
            assert_eq!((waiting, others.len()), (1, 2), "the other one waits for its turn");
        });
    });
}
