//! Spawning, joining, detaching: values, panics, drops, identities.

use std::{
    cell::Cell,
    collections::HashSet,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use crate::common::{
    self, Counted, child, child_with, is_child, on_each, one_worker, stderr, text, wait_until,
    with_workers,
};
use ramie::fiber::{self, Builder};

#[test]
fn joining_gives_the_value() {
    on_each(&[1, 4], |runtime| {
        let sum: u64 = runtime.run(|| {
            let handles: Vec<_> = (0..1000_u64).map(|n| fiber::spawn(move || n * n)).collect();
            handles.into_iter().map(|handle| handle.join().unwrap()).sum()
        });
        assert_eq!(sum, (0..1000).map(|n| n * n).sum());
    });
}

#[test]
fn joining_gives_the_payload_of_a_panic() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let plain = fiber::spawn(|| panic!("a plain text")).join().unwrap_err();
            assert_eq!(plain.downcast_ref::<&'static str>(), Some(&"a plain text"));
            let number = 7;
            let formatted = fiber::spawn(move || panic!("made of {number}")).join().unwrap_err();
            assert_eq!(formatted.downcast_ref::<String>().unwrap(), "made of 7");
            let any = fiber::spawn(|| std::panic::panic_any(9_u8)).join().unwrap_err();
            assert_eq!(any.downcast_ref::<u8>(), Some(&9));
        });
    });
}

#[test]
fn detached_fibers_run_on() {
    on_each(&[1, 2], |runtime| {
        let ran = Arc::new(AtomicUsize::new(0));
        runtime.run(|| {
            for _ in 0..100 {
                let ran = Arc::clone(&ran);
                drop(fiber::spawn(move || {
                    fiber::yield_now();
                    ran.fetch_add(1, Ordering::SeqCst);
                }));
            }
        });
        assert_eq!(ran.load(Ordering::SeqCst), 100);
    });
}

/// The ways in which a fiber may end, each with closures and values of another shape.
fn each_end_drops_once<const N: usize>(runtime: &ramie::Runtime) {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let made = Cell::new(0);
    let counted = || {
        made.set(made.get() + 1);
        (Counted(&DROPS), [0_u8; N])
    };
    DROPS.store(0, Ordering::SeqCst);
    runtime.run(|| {
        let (captured, value) = (counted(), counted());
        let joined = fiber::spawn(move || (captured, value).1);
        drop(joined.join().unwrap());

        let value = counted();
        let gate = Arc::new(AtomicBool::new(false));
        let opened = Arc::clone(&gate);
        let detached_before = fiber::spawn(move || {
            wait_until(|| opened.load(Ordering::SeqCst));
            value
        });
        drop(detached_before);
        gate.store(true, Ordering::SeqCst);

        let value = counted();
        let detached_after = fiber::spawn(move || value);
        wait_until(|| detached_after.is_finished());
        drop(detached_after);

        let captured = counted();
        let panics = fiber::spawn(move || {
            let _captured = captured;
            panic!("expected");
        });
        drop(panics.join().unwrap_err());

        let captured = counted();
        drop(fiber::spawn(move || -> () { std::panic::panic_any(captured) }));
    });
    assert_eq!(DROPS.load(Ordering::SeqCst), made.get(), "values of {N} bytes and more");
}

#[test]
fn closures_and_values_are_dropped_once() {
    on_each(&[1, 2], |runtime| {
        each_end_drops_once::<0>(runtime);
        each_end_drops_once::<1>(runtime);
        each_end_drops_once::<24>(runtime);
        each_end_drops_once::<25>(runtime);
        each_end_drops_once::<41>(runtime);
        each_end_drops_once::<5000>(runtime);
    });
}

#[test]
fn alignment_is_kept() {
    #[repr(align(64))]
    struct Line(u8);
    #[repr(align(4096))]
    struct Page(u8);
    fn is_aligned<T>(value: &T) -> bool {
        std::ptr::from_ref(value).addr().is_multiple_of(align_of::<T>())
    }
    one_worker().run(|| {
        let (line, page) = (Line(1), Page(2));
        let handle = fiber::spawn(move || {
            let (line, page) = (line, page);
            assert!(is_aligned(&line) && is_aligned(&page));
            (line, page)
        });
        let (line, page) = handle.join().unwrap();
        assert!(is_aligned(&line) && is_aligned(&page));
        assert_eq!((line.0, page.0), (1, 2));
        let wide = 3_u128;
        assert_eq!(fiber::spawn(move || wide).join().unwrap(), 3);
    });
}

#[test]
fn local_fibers_share_values_that_are_not_send() {
    on_each(&[1, 4], |runtime| {
        runtime.run(|| {
            let shared = Rc::new(Cell::new(0));
            let add = |by: usize| {
                let shared = Rc::clone(&shared);
                move || {
                    for _ in 0..by {
                        shared.set(shared.get() + 1);
                        fiber::yield_now();
                    }
                    shared
                }
            };
            let handles = [fiber::spawn_local(add(10)), fiber::spawn_local(add(20))];
            for handle in handles {
                assert!(Rc::ptr_eq(&handle.join().unwrap(), &shared));
            }
            assert_eq!(shared.get(), 30);
            assert_eq!(Rc::strong_count(&shared), 1);
        });
    });
}

#[test]
fn handles_may_be_joined_elsewhere() {
    with_workers(2).run(|| {
        let strand = fiber::spawn(|| {
            fiber::yield_now();
            String::from("value")
        });
        let by_fiber = fiber::spawn(move || strand.join().unwrap());
        let by_thread = ramie::blocking(move || {
            let join = move || by_fiber.join().unwrap();
            std::thread::spawn(join).join().unwrap()
        });
        assert_eq!(by_thread, "value");
    });
}

#[test]
fn handles_may_outlive_their_runtime() {
    let (done, dropped) = one_worker().run(|| (fiber::spawn(|| 5), fiber::spawn(|| [1; 100])));
    assert!(done.is_finished());
    assert_eq!(done.join().unwrap(), 5);
    drop(dropped);
}

#[test]
fn is_finished_returns_whether_join_would_wait() {
    one_worker().run(|| {
        let strand = fiber::spawn(fiber::park);
        assert!(!strand.is_finished());
        fiber::yield_now();
        assert!(!strand.is_finished());
        strand.fiber().unpark();
        fiber::yield_now();
        assert!(strand.is_finished());
        strand.join().unwrap();
    });
}

#[test]
fn names_and_ids() {
    one_worker().run(|| {
        assert_eq!(fiber::current().name(), Some("main"));
        let named = Builder::new().name("reader".into()).spawn(fiber::current).unwrap();
        assert_eq!(named.thread().name(), Some("reader"));
        let id = named.fiber().id();
        let itself = named.join().unwrap();
        assert_eq!((itself.id(), itself.name()), (id, Some("reader")));
        assert!(!id.is_thread());
        assert_eq!(fiber::spawn(|| fiber::current().name().is_none()).join().ok(), Some(true));
        let shown = format!("{itself:?}");
        assert!(shown.contains("reader") && shown.contains("FiberId("), "{shown}");
    });
}

#[test]
fn ids_are_unique_and_stale_ones_harmless() {
    one_worker().run(|| {
        let mut seen = HashSet::new();
        let mut ended = Vec::new();
        for _ in 0..1000 {
            let strand = fiber::spawn(|| ());
            assert!(seen.insert(strand.fiber().id()), "an id came twice");
            ended.push(strand.fiber().clone());
            strand.join().unwrap();
        }
        let parked = fiber::spawn(fiber::park);
        fiber::yield_now();
        ended.iter().for_each(fiber::Fiber::unpark);
        fiber::yield_now();
        assert!(!parked.is_finished(), "an unpark went to the wrong fiber");
        parked.fiber().unpark();
        parked.join().unwrap();
    });
}

#[inline(never)]
fn descend(levels: usize) -> usize {
    let room = std::hint::black_box([1_u8; 4096]);
    if levels == 0 { 0 } else { descend(levels - 1) + usize::from(room[levels]) }
}

#[test]
fn a_fiber_has_its_own_stack_size_whatever_ran_before_it() {
    one_worker().run(|| {
        let small = Builder::new().stack_size(32 * 1024).spawn(|| 1).unwrap();
        let plain = fiber::spawn(|| descend(25));
        assert_eq!(small.join().unwrap() + plain.join().unwrap(), 26);
    });
}

#[test]
fn stack_sizes_out_of_range_are_refused() {
    one_worker().run(|| {
        for size in [1, 32 * 1024 - 1, usize::MAX] {
            let error = Builder::new().stack_size(size).spawn(|| ()).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
            let error = Builder::new().stack_size(size).spawn_local(|| ()).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        }
        let sizes = [32 * 1024, 50_001, 1 << 20, 64 << 20];
        let strands = sizes.map(|size| Builder::new().stack_size(size).spawn(fiber::park).unwrap());
        fiber::yield_now();
        for strand in strands {
            strand.fiber().unpark();
            strand.join().unwrap();
        }
    });
}

#[test]
fn a_value_whose_destructor_panics_harms_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("expected");
        }
    }
    one_worker().run(|| {
        drop(fiber::spawn(|| Bomb));
        let ended = fiber::spawn(|| Bomb);
        fiber::yield_now();
        fiber::yield_now();
        drop(ended);
        drop(fiber::spawn(|| -> () { std::panic::panic_any(Bomb) }));
        fiber::yield_now();
        assert_eq!(fiber::spawn(|| 1).join().unwrap(), 1);
    });
}

#[test]
fn messages_of_panics_name_the_fiber() {
    if is_child() {
        return one_worker().run(|| {
            let named = Builder::new().name("careless".into());
            assert!(named.spawn(|| panic!("first")).unwrap().join().is_err());
            let masked = Builder::new().name("masked".into());
            let masked = masked.spawn(|| ramie::no_switch(|| panic!("second"))).unwrap();
            assert!(masked.join().is_err());
            let nameless = || drop(Builder::new().name("a\0b".into()).spawn(|| ()));
            assert!(std::panic::catch_unwind(nameless).is_err());
            let unnamed = fiber::spawn(|| panic!("third"));
            println!("{:?}", unnamed.fiber().id());
            assert!(unnamed.join().is_err());
        });
    }
    let output = child("messages_of_panics_name_the_fiber");
    common::assert_success(&output);
    let report = stderr(&output);
    assert!(report.contains(concat!("fiber 'careless' panicked at ", file!())), "{report}");
    assert!(report.contains(concat!("fiber 'masked' panicked at ", file!())), "{report}");
    // A wrong name, at the place of the spawn.
    assert!(report.contains(concat!("fiber 'main' panicked at ", file!())), "{report}");
    let has_id = |line: &str| line.starts_with(|c: char| c.is_ascii_digit());
    assert!(report.lines().filter_map(|l| l.strip_prefix("fiber ")).any(has_id), "{report}");
    assert!(report.contains("first") && report.contains("third"), "{report}");
    // Where they cannot be written, the panics are caught all the same.
    let silent = child_with("exec 2>/dev/full", "messages_of_panics_name_the_fiber", &[]);
    common::assert_success(&silent);
}

#[test]
fn fibers_spawn_fibers() {
    fn tree(depth: u32) -> u32 {
        if depth == 0 {
            return 1;
        }
        let left = fiber::spawn(move || tree(depth - 1));
        let right = fiber::spawn(move || tree(depth - 1));
        left.join().unwrap() + right.join().unwrap()
    }
    on_each(&[1, 4], |runtime| assert_eq!(runtime.run(|| tree(10)), 1024));
}

#[test]
fn many_fibers_are_alive_at_once() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let parked: Vec<_> = (0..10_000).map(|_| fiber::spawn(fiber::park)).collect();
            fiber::yield_now();
            parked.iter().for_each(|strand| strand.fiber().unpark());
            parked.into_iter().for_each(|strand| strand.join().unwrap());
        });
    });
}

#[test]
fn the_text_of_a_panic_is_found() {
    assert_eq!(text(&"plain"), "plain");
}
