//! Backtraces of suspended fibers. The functions of the program are called by name here, so the
//! tests hold in builds with and without debug information.
#![cfg(all(feature = "backtrace", target_arch = "x86_64"))]

use std::hint::black_box;

use ramie::{
    coro::Coroutine,
    fiber,
    inspect::{Backtrace, BacktraceFrame, DumpOptions, StrandDump, StrandState},
    sync::Event,
};

use crate::{common, named, spawned_in, unique, waiting};

fn dumped(name: &str) -> StrandDump {
    let dump = DumpOptions::new().backtraces(true).dump();
    named(&dump, name).cloned().expect("a strand of that name")
}

fn backtrace_of(name: &str) -> Backtrace {
    waiting(name);
    dumped(name).backtrace.expect("a backtrace")
}

fn functions(backtrace: &Backtrace) -> Vec<String> {
    backtrace.frames().into_iter().filter_map(|frame| frame.function).collect()
}

fn count(functions: &[String], part: &str) -> usize {
    functions.iter().filter(|function| function.contains(part)).count()
}

/// Whether a function has that name, with or without its path: `debug = "line-tables-only"` leaves
/// out some paths.
fn is_named(function: &str, name: &str) -> bool {
    function.rsplit("::").next() == Some(name)
}

#[inline(never)]
fn descends(depth: u32, event: &Event) {
    match depth {
        0 => drop(event.wait()),
        _ => descends(depth - 1, event),
    }
    black_box(depth);
}

/// Calls a function when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs `body` in a fiber, and `check` while it waits for the event.
fn while_waiting(body: impl Fn(&Event) + Sync, check: impl FnOnce(&str)) {
    let (event, name) = (Event::new(), unique("traced"));
    common::one_worker().run(|| {
        fiber::scope(|s| {
            spawned_in(s, &name, || body(&event));
            // Also if the check fails, because otherwise the scope would wait for ever.
            let _release = OnDrop(|| event.set());
            check(&name);
        });
    });
}

#[test]
fn each_call_of_a_suspended_fiber_is_named() {
    while_waiting(
        |event| descends(3, event),
        |name| {
            let backtrace = backtrace_of(name);
            let functions = functions(&backtrace);
            assert_eq!(count(&functions, "backtraces::descends"), 4, "{functions:#?}");
            // The switch is below the call that waits, and the worker's loop is not on this stack.
            let wait = functions.iter().position(|f| f.contains("Event::wait")).unwrap();
            assert!(functions[..wait].iter().any(|f| f.contains("suspend")), "{functions:#?}");
            check_end(&functions, 1);
            // Addresses lie inside the calls.
            assert!(backtrace.addresses().len() > 8);
        },
    );
}

#[test]
fn the_short_text_begins_with_the_call_that_waits() {
    while_waiting(
        |event| descends(1, event),
        |name| {
            let backtrace = backtrace_of(name);
            let text = backtrace.to_string();
            let lines: Vec<_> = text.lines().collect();
            assert!(lines[0].contains("Event::wait"), "{text}");
            assert!(lines[1].contains("backtraces::descends"), "{text}");
            assert!(lines[2].contains("backtraces::descends"), "{text}");
            assert!(!text.contains("begin_short_backtrace"), "{text}");
            assert!(format!("{backtrace:#}").contains("suspend"), "{backtrace:#}");
            let has_line = |frame: &&BacktraceFrame| frame.file.is_some();
            let frames = backtrace.frames();
            let user = |frame: &&BacktraceFrame| {
                frame.function.as_ref().is_some_and(|f| f.contains("backtraces::descends"))
            };
            if let Some(frame) = frames.iter().filter(user).find(has_line) {
                assert!(frame.file.as_ref().unwrap().ends_with("inspect/backtraces.rs"));
                assert!(frame.line.unwrap() < 60);
            }
        },
    );
}

/// Resumes a coroutine, which resumes another one, and so on; the innermost one waits.
#[inline(never)]
fn nests(depth: u32) {
    match depth {
        0 => waits_inside(),
        _ => drop(Coroutine::<(), (), ()>::new(move |_, ()| nests(depth - 1)).resume(())),
    }
    // After the calls, because a call at the end would replace this function's frame.
    black_box(depth);
}

#[inline(never)]
fn waits_inside() {
    fiber::park();
    black_box(());
}

/// The frames lie on several stacks, in any order of addresses.
#[test]
fn a_fiber_that_waits_inside_coroutines_has_the_frames_of_all_stacks() {
    for depth in 1..5 {
        // Stacks that were used before come in another order.
        let _kept: Vec<_> = (0..depth).map(|_| Coroutine::<(), (), ()>::new(|_, ()| ())).collect();
        check_nested(depth);
    }
}

fn check_nested(depth: u32) {
    let name = unique("inside");
    common::one_worker().run(|| {
        fiber::scope(|s| {
            let handle = spawned_in(s, &name, || nests(depth));
            let _release = OnDrop(|| handle.fiber().unpark());
            let functions = functions(&backtrace_of(&name));
            let inner = functions.iter().position(|f| is_named(f, "waits_inside"));
            let outer = functions.iter().rposition(|f| is_named(f, "nests"));
            assert!(inner.is_some() && inner < outer, "{functions:#?}");
            let is_nests = |f: &&String| is_named(f, "nests");
            assert_eq!(functions.iter().filter(is_nests).count() as u32, depth + 1);
            check_end(&functions, depth + 1);
        });
    });
}

/// The last call is the first one of the fiber's stack, and each stack has one of them.
fn check_end(functions: &[String], stacks: u32) {
    let first = "stack_init_trampoline";
    assert_eq!(functions.last().map(String::as_str), Some(first), "{functions:#?}");
    assert_eq!(count(functions, first) as u32, stacks, "{functions:#?}");
}

#[inline(never)]
fn takes_a_turn() {
    fiber::yield_now();
    black_box(());
}

#[test]
fn a_fiber_that_waits_for_its_turn_has_one_and_others_do_not() {
    let (name, fresh) = (unique("ready"), unique("fresh"));
    common::one_worker().run(|| {
        fiber::scope(|s| {
            spawned_in(s, &name, takes_a_turn);
            fiber::yield_now();
            spawned_in(s, &fresh, || ());
            let dump = ramie::no_switch(|| DumpOptions::new().backtraces(true).dump());
            let ready = named(&dump, &name).unwrap();
            assert_eq!(ready.state, StrandState::Runnable);
            let functions = functions(ready.backtrace.as_ref().unwrap());
            let taken = functions.iter().filter(|f| is_named(f, "takes_a_turn")).count();
            assert_eq!(taken, 1, "{functions:#?}");
            let without = dump.strands.iter().filter(|strand| strand.backtrace.is_none());
            let states: Vec<_> = without.map(|strand| strand.state).collect();
            assert!(states.contains(&StrandState::Running), "{states:?}");
            assert!(!states.contains(&StrandState::Runnable), "{states:?}");
            assert!(dump.to_string().contains("calls, the innermost first:\n"), "{dump}");
        });
    });
    assert!(ramie::inspect::dump().strands.iter().all(|strand| strand.backtrace.is_none()));
}

/// Frames are moved over by fibers that continue; the walk must end with the copy.
#[test]
fn backtraces_of_fibers_that_run_meanwhile_are_whole() {
    let names: Vec<_> = (0..20).map(|_| unique("busy")).collect();
    let stop = std::sync::atomic::AtomicBool::new(false);
    common::with_workers(2).run(|| {
        fiber::scope(|s| {
            for name in &names {
                spawned_in(s, name, || turns(&stop));
            }
            common::wait_until(|| ramie::metrics::metrics().unstarted() == 0);
            let _stop = OnDrop(|| stop.store(true, std::sync::atomic::Ordering::Relaxed));
            let mut seen = 0;
            for _ in 0..20 {
                let dump = DumpOptions::new().backtraces(true).dump();
                let strands = names.iter().filter_map(|name| named(&dump, name));
                for backtrace in strands.filter_map(|strand| strand.backtrace.as_ref()) {
                    let functions = functions(backtrace);
                    let turns = functions.iter().filter(|f| is_named(f, "turns")).count();
                    assert_eq!(turns, 1, "{functions:#?}");
                    seen += 1;
                }
            }
            assert!(seen > 100, "{seen}");
        });
    });
}

#[inline(never)]
fn turns(stop: &std::sync::atomic::AtomicBool) {
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        fiber::yield_now();
    }
    black_box(stop);
}
