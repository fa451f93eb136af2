//! The states of strands, their tree, strands on threads, and the forms of a dump.

use std::{
    sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use ramie::{
    Runtime, Strands, cancel,
    fiber::{self, Builder},
    inspect::{self, DumpOptions, StrandState, WaitTarget, WorkerStatus},
    no_switch,
    sync::Event,
    time::ManualClock,
};

use crate::{common, named, spawned_in, unique, waiting};

#[test]
fn states_parents_and_counts_are_those_of_the_strands() {
    let runtime = common::one_worker();
    runtime.run(|| {
        let event = Event::new();
        let (waits, ready, fresh) = (unique("waits"), unique("ready"), unique("fresh"));
        fiber::scope(|s| {
            spawned_in(s, &waits, || event.wait().unwrap());
            spawned_in(s, &ready, || fiber::yield_now());
            fiber::yield_now();
            let line = line!() + 1;
            let unstarted = s.spawn(|| ());
            let unstarted = unstarted.fiber().id();
            // In the region the strand answers for its own worker without giving it away.
            let dump = no_switch(inspect::dump);
            let me = fiber::current().id();

            let strand = named(&dump, &waits).unwrap();
            assert_eq!((strand.state, strand.parent), (StrandState::Waiting, Some(me)));
            assert_eq!(strand.waits, 1);
            let stack = strand.stack.unwrap();
            assert!(stack.size >= 32 * 1024 && stack.high_water_mark() > 0);
            let worker = &dump.workers[strand.worker.unwrap()];
            assert_eq!((worker.index, worker.status), (Some(0), WorkerStatus::Complete));
            assert_eq!(named(&dump, &ready).unwrap().state, StrandState::Runnable);
            let running = dump.strands.iter().find(|strand| strand.id == me).unwrap();
            assert_eq!(
                (running.state, running.name.as_deref()),
                (StrandState::Running, Some("main"))
            );
            let strand = dump.strands.iter().find(|strand| strand.id == unstarted).unwrap();
            assert_eq!(strand.state, StrandState::NotStarted);
            assert_eq!(strand.spawned_at.unwrap().line, line);
            let _ = fresh;
            event.set();
        });
    });
}

fn thread_id() -> i32 {
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    thread.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Neither of the two workers can answer from its loop.
#[test]
fn two_strands_that_must_not_suspend_dump_at_the_same_time() {
    let arrived = AtomicUsize::new(0);
    common::with_workers(2).run(|| {
        let dumps = fiber::on_each_worker(|_| {
            no_switch(|| {
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < 2 {
                    std::hint::spin_loop();
                }
                (thread_id(), inspect::dump())
            })
        });
        let threads: Vec<_> = dumps.iter().map(|(thread, _)| *thread).collect();
        for (_, dump) in dumps {
            let both = dump.workers.iter().filter(|worker| threads.contains(&worker.thread_id));
            let statuses: Vec<_> = both.map(|worker| worker.status).collect();
            assert_eq!(statuses, [WorkerStatus::Complete; 2], "{dump}");
        }
    });
}

/// The asker looks at the strands that have not started, and each worker answers for those that
/// have. A strand that starts between the two is in one of them at least, and shown once.
#[test]
fn a_strand_that_starts_during_a_dump_is_in_it() {
    let mut random = common::Random::new("a_strand_that_starts_during_a_dump_is_in_it");
    common::one_worker().run(|| {
        for _ in 0..100 {
            let (event, is_asking) = (Event::new(), AtomicBool::new(false));
            let (id, dump) = fiber::scope(|s| {
                let strand = s.spawn(|| event.wait().unwrap());
                let id = strand.fiber().id();
                let dump = thread::scope(|threads| {
                    let asker = threads.spawn(|| {
                        is_asking.store(true, Ordering::Release);
                        inspect::dump()
                    });
                    while !is_asking.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    (0..random.below(10_000)).for_each(|_| std::hint::spin_loop());
                    // From now on the worker answers, and then starts the strand.
                    while !asker.is_finished() {
                        fiber::yield_now();
                    }
                    asker.join().unwrap()
                });
                event.set();
                (id, dump)
            });
            let found = dump.strands.iter().filter(|strand| strand.id == id).count();
            assert_eq!(found, 1, "{dump}");
        }
    });
}

/// A worker answers between two turns, when none of its fibers runs.
#[test]
fn a_fiber_that_has_just_suspended_does_not_run() {
    common::one_worker().run(|| {
        let (names, stop) = ([unique("ping"), unique("pong")], AtomicBool::new(false));
        let dumps = thread::scope(|threads| {
            let asker = threads.spawn(|| {
                let dumps: Vec<_> = (0..20).map(|_| inspect::dump()).collect();
                stop.store(true, Ordering::Relaxed);
                dumps
            });
            let turns = || {
                while !stop.load(Ordering::Relaxed) {
                    fiber::yield_now();
                }
            };
            fiber::scope(|s| names.iter().for_each(|name| drop(spawned_in(s, name, turns))));
            asker.join().unwrap()
        });
        let in_dump = |dump| names.iter().filter_map(move |name| named(dump, name));
        let strands = dumps.iter().flat_map(in_dump);
        let states: Vec<_> = strands.map(|strand| strand.state).collect();
        assert!(states.contains(&StrandState::Runnable), "{states:?}");
        assert!(!states.contains(&StrandState::Running), "{states:?}");
    });
}

#[test]
fn limits_and_cancellations_around_a_strand_are_described() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let (event, name) = (Event::new(), unique("limited"));
            fiber::scope(|s| {
                spawned_in(s, &name, || {
                    let _ = cancel::with_timeout(Duration::from_secs(3600), || {
                        cancel::shield(|| drop(event.wait()));
                        drop(event.wait());
                    });
                });
                let hidden = waiting(&name).cancel;
                assert!(hidden.is_none(), "a shield hides the limit: {hidden:?}");
                event.set();
            });
            event.reset();
            fiber::scope(|s| {
                spawned_in(s, &name, || {
                    let _ = cancel::with_timeout(Duration::from_secs(3600), || event.wait());
                });
                let left = waiting(&name).cancel.unwrap().left.unwrap();
                assert!(left > Duration::from_secs(3000), "{left:?}");
                event.set();
            });
            event.reset();
            let joined = unique("cancelled");
            fiber::scope(|s| {
                let stays = s.spawn(|| event.wait());
                spawned_in(s, &joined, || {
                    cancel::scope(|scope| {
                        scope.cancel_because("enough");
                        // No cancel point.
                        let _ = stays.join();
                    });
                });
                let cancel = waiting(&joined).cancel.unwrap();
                assert_eq!(cancel.cancelled.as_deref(), Some("enough"));
                assert!(cancel.scope.is_some());
                event.set();
            });
        });
    });
}

#[test]
fn a_plain_thread_dumps_and_threads_are_strands() {
    let event = Event::new();
    let name = unique("thread");
    thread::scope(|s| {
        thread::Builder::new().name(name.clone()).spawn_scoped(s, || event.wait()).unwrap();
        let strand = waiting(&name);
        assert!(strand.id.is_thread() && strand.stack.is_none());
        assert!(matches!(strand.wait.unwrap().target, WaitTarget::Object { .. }));
        event.set();
    });
    let runtime = Runtime::builder().strands(Strands::Threads).build().unwrap();
    event.reset();
    runtime.run(|| {
        let name = unique("spawned");
        fiber::scope(|s| {
            spawned_in(s, &name, || drop(event.wait()));
            let strand = waiting(&name);
            assert!(strand.id.is_thread() && strand.spawned_at.is_some());
            event.set();
        });
    });
}

#[test]
fn a_thread_outside_of_waits_is_named_and_not_waited_for() {
    let (name, stop) = (unique("busy thread"), AtomicBool::new(false));
    let has_waited = std::sync::Barrier::new(2);
    thread::scope(|s| {
        let busy = || {
            fiber::sleep(Duration::from_millis(1));
            has_waited.wait();
            while !stop.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        };
        thread::Builder::new().name(name.clone()).spawn_scoped(s, busy).unwrap();
        has_waited.wait();
        let dump = DumpOptions::new().limit(Duration::MAX).dump();
        stop.store(true, Ordering::Relaxed);
        let strand = named(&dump, &name).expect("it has waited before");
        assert_eq!(strand.state, StrandState::Running);
        assert_eq!(dump.workers[strand.worker.unwrap()].status, WorkerStatus::OutsideLoop);
    });
}

#[test]
fn a_worker_that_does_not_answer_is_named() {
    let runtime = common::with_workers(2);
    let (busy_thread, stop) = (AtomicI32::new(0), AtomicBool::new(false));
    runtime.run(|| {
        fiber::scope(|s| {
            let other = 1 - fiber::worker().unwrap();
            let busy = || {
                busy_thread.store(thread_id(), Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            };
            let builder = Builder::new().on(fiber::Place::Worker(other));
            builder.spawn_scoped(s, busy).unwrap();
            common::wait_until(|| busy_thread.load(Ordering::Relaxed) != 0);
            let dump = DumpOptions::new().limit(Duration::from_millis(20)).dump();
            stop.store(true, Ordering::Relaxed);
            // By its thread, because workers of other tests may be silent, too.
            let id = busy_thread.load(Ordering::Relaxed);
            let mut workers = dump.workers.iter();
            let busy = workers.find(|worker| worker.thread_id == id).expect("the busy worker");
            assert_eq!((busy.index, busy.fibers), (Some(other), 1));
            assert_eq!(busy.status, WorkerStatus::Silent);
            assert!(dump.to_string().contains("did not answer"));
        });
    });
}

/// A wait that returns early in a cancelled scope pauses, and each pause is longer than the last
/// one, up to 50 ms. The pauses of a dump must not be of that kind.
#[test]
fn dumps_in_a_cancelled_scope_do_not_become_slower() {
    let stop = AtomicBool::new(false);
    common::with_workers(2).run(|| {
        fiber::scope(|s| {
            let other = 1 - fiber::worker().unwrap();
            // A worker looks for questions after some tens of turns. These are so long that the
            // other worker pauses before it has the answer.
            let turns = || {
                while !stop.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(50) {}
                    fiber::yield_now();
                }
            };
            Builder::new().on(fiber::Place::Worker(other)).spawn_scoped(s, turns).unwrap();
            let times = cancel::scope(|scope| {
                scope.handle().cancel();
                (0..30).map(|_| inspect::dump().took).skip(10).collect::<Vec<_>>()
            });
            stop.store(true, Ordering::Relaxed);
            // The fastest one, because other programs may delay any of them.
            let fastest = times.iter().min().unwrap();
            assert!(*fastest < Duration::from_millis(40), "{times:?}");
        });
    });
}

#[test]
fn a_dump_needs_no_clock_of_the_runtime() {
    for clock in [ManualClock::new(), ManualClock::jumping()] {
        let runtime = Runtime::builder().workers(2).clock(clock.clone()).build().unwrap();
        runtime.run(|| {
            let (event, name) = (Event::new(), unique("beside a clock"));
            fiber::scope(|s| {
                spawned_in(s, &name, || drop(event.wait()));
                let start = clock.now();
                waiting(&name);
                assert_eq!(clock.now(), start);
                event.set();
            });
        });
    }
}

#[test]
fn each_of_many_strands_is_in_the_dump_once_while_others_come_and_go() {
    let runtime = common::with_workers(2);
    runtime.run(|| {
        let (event, stop) = (Event::new(), AtomicBool::new(false));
        fiber::scope(|s| {
            let ids: Vec<_> = (0..5_000).map(|_| s.spawn(|| event.wait()).fiber().id()).collect();
            common::wait_until(|| ramie::metrics::metrics().unstarted() == 0);
            let churn = || {
                while !stop.load(Ordering::Relaxed) {
                    fiber::scope(|s| (0..50).for_each(|_| drop(s.spawn(fiber::yield_now))));
                }
            };
            s.spawn(churn);
            s.spawn(churn);
            for _ in 0..10 {
                let dump = inspect::dump();
                let mut found: Vec<_> = dump.strands.iter().map(|strand| strand.id).collect();
                found.sort_unstable();
                let count = found.len();
                found.dedup();
                assert_eq!(found.len(), count, "a strand is in the dump twice");
                let is_missing = |id: &&fiber::FiberId| found.binary_search(id).is_err();
                assert_eq!(ids.iter().filter(is_missing).count(), 0);
            }
            stop.store(true, Ordering::Relaxed);
            event.set();
        });
    });
}

#[test]
fn dumps_may_be_made_at_once_and_while_runtimes_begin_and_end() {
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _ = inspect::dump().to_string();
                }
            });
        }
        for _ in 0..50 {
            common::with_workers(2).run(|| {
                fiber::scope(|s| {
                    (0..10).for_each(|_| drop(s.spawn(|| inspect::dump().strands.len())));
                });
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_text_is_a_tree_and_names_what_is_waited_for() {
    common::one_worker().run(|| {
        let (mutex, event) = (ramie::sync::Mutex::new(()), Event::new());
        let (owner, child) = (unique("owner"), unique("child"));
        fiber::scope(|s| {
            spawned_in(s, &owner, || {
                let _guard = mutex.lock().unwrap();
                fiber::scope(|s| drop(s.spawn(|| event.wait())));
            });
            waiting(&owner);
            spawned_in(s, &child, || drop(mutex.lock()));
            waiting(&child);
            let text = inspect::dump().to_string();
            let held = format!("fiber '{owner}'");
            let line = text.lines().find(|line| line.contains(&format!("'{child}'"))).unwrap();
            assert!(line.contains("waits for a Mutex (0x") && line.contains(&held), "{text}");
            let mut after = text.lines().skip_while(|line| !line.trim_start().starts_with(&held));
            let indent = |line: &str| line.len() - line.trim_start().len();
            let own = indent(after.next().unwrap());
            let inner = after.find(|line| line.contains("an Event")).unwrap();
            assert_eq!(indent(inner), own + 2, "{text}");
            assert!(text.contains(file!()), "{text}");
            event.set();
        });
    });
}

/// With their ancestors, and the name of a strand that is left out and holds a lock.
#[test]
fn a_dump_by_name_has_these_strands_and_their_ancestors() {
    common::one_worker().run(|| {
        let (mutex, event) = (ramie::sync::Mutex::new(()), Event::new());
        let (outer, wanted, other) = (unique("outer"), unique("wanted"), unique("other"));
        let holds = || {
            let _guard = mutex.lock().unwrap();
            event.wait().unwrap();
        };
        let opens_a_scope = || {
            fiber::scope(|s| {
                s.spawn(|| event.wait());
                spawned_in(s, &wanted, || drop(mutex.lock()));
            });
        };
        fiber::scope(|s| {
            let holder = spawned_in(s, &other, holds).fiber().id();
            waiting(&other);
            spawned_in(s, &outer, opens_a_scope);
            waiting(&wanted);
            // One that has not started, and does not while this strand keeps its worker.
            let fresh = spawned_in(s, &format!("{wanted} fresh"), || ()).fiber().id();
            let options = DumpOptions::new().name(&wanted);
            let dump = ramie::no_switch(|| options.clone().backtraces(true).dump());
            event.set();
            let names: Vec<_> = dump.strands.iter().filter_map(|s| s.name.as_deref()).collect();
            assert!([&outer, &wanted].iter().all(|name| names.contains(&&***name)), "{dump}");
            assert!(!names.contains(&&*other) && dump.left_out >= 2, "{dump}");
            let found = named(&dump, &wanted).unwrap();
            assert_eq!(found.parent, Some(named(&dump, &outer).unwrap().id));
            // `main`, or the root of the thread, has opened the outermost scope.
            let root = named(&dump, &outer).unwrap().parent.unwrap();
            assert_eq!(dump.strands.iter().filter(|strand| strand.id == root).count(), 1);
            assert_eq!(dump.strands.len(), 4, "{dump}");
            assert!(dump.strands.iter().any(|strand| strand.id == fresh), "{dump}");
            let has_calls = cfg!(all(feature = "backtrace", target_arch = "x86_64"));
            assert_eq!(found.backtrace.is_some(), has_calls);
            let text = dump.to_string();
            let held = format!("held by fiber '{other}' ({holder}), which is not in this dump");
            assert!(text.contains(&held) && text.contains("with other names left out"), "{text}");
            assert_eq!(options.name("no such name").dump().strands.len(), 0);
        });
    });
}

#[test]
fn ages_follow_the_clock() {
    common::one_worker().run(|| {
        let (event, name) = (Event::new(), unique("old"));
        fiber::scope(|s| {
            spawned_in(s, &name, || drop(event.wait()));
            let start = Instant::now();
            let first = waiting(&name);
            let pause = Duration::from_millis(60);
            fiber::sleep(pause);
            let later = waiting(&name);
            let (first, later) = (first.wait.unwrap().since, later.wait.unwrap().since);
            let tick = Duration::from_millis(25);
            assert!(later + tick >= first + pause, "{first:?}, then {later:?}");
            assert!(later <= start.elapsed() + tick + pause);
            event.set();
        });
    });
}

#[test]
fn the_json_parses_and_equals_that_of_serde() {
    common::one_worker().run(|| {
        let (event, name) = (Event::new(), format!("{} \"\\\n\u{1}é", unique("json")));
        fiber::scope(|s| {
            spawned_in(s, &name, || {
                let _ = cancel::with_timeout(Duration::from_secs(60), || event.wait());
            });
            waiting(&name);
            let mut dump = inspect::dump();
            dump.name_descriptors();
            let json: serde_json::Value = serde_json::from_str(&dump.to_json()).unwrap();
            let strands = json["strands"].as_array().unwrap();
            let strand = strands.iter().find(|strand| strand["name"] == *name).unwrap();
            assert_eq!(strand["wait"]["purpose"], "an Event");
            assert_eq!(strand["wait"]["target"]["kind"], "object");
            assert_eq!(strand["state"], "waiting");
            #[cfg(feature = "serde")]
            assert_eq!(json, serde_json::to_value(&dump).unwrap());
            event.set();
        });
    });
}
