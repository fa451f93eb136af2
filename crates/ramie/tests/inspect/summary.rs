//! Summaries: counts by state and by place, the slowest waits, stalls; and dumps of one strand.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ramie::{
    channel, fiber,
    inspect::{self, DumpOptions, StrandState, Summary, WaitPlace, WorkerStatus},
    sync::{Event, Mutex},
};

use crate::{common, named, recorded::is_alone, served::Folder, spawned_in, unique, waiting};

/// Ends the waits for the event when it is dropped: also if a check fails, because otherwise the
/// scope would wait for ever.
struct Released<'a>(&'a Event);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// The places of this file at which strands wait for this.
fn places<'a>(summary: &'a Summary, purpose: &str) -> Vec<&'a WaitPlace> {
    let is_meant = |place: &&WaitPlace| {
        place.purpose == purpose && place.location.file.ends_with("inspect/summary.rs")
    };
    summary.places.iter().filter(is_meant).collect()
}

#[test]
fn strands_are_counted_by_what_they_wait_for_and_where() {
    // The waits of other tests would be counted, too.
    if !is_alone("strands_are_counted_by_what_they_wait_for_and_where") {
        return;
    }
    common::one_worker().run(|| {
        let (event, lock) = (Event::new(), Mutex::new(()));
        let (sender, receiver) = channel::unbounded::<()>();
        let guard = lock.lock().unwrap();
        fiber::scope(|s| {
            let _released = Released(&event);
            for _ in 0..300 {
                s.spawn(|| event.wait());
            }
            for _ in 0..20 {
                s.spawn(|| event.wait());
            }
            s.spawn(|| drop(lock.lock().unwrap()));
            s.spawn(|| receiver.recv().is_ok());
            while ramie::metrics::metrics().unstarted() > 0 {
                fiber::yield_now();
            }
            // One that has not started, and does not while this strand keeps its worker.
            s.spawn(|| ());
            let summary = ramie::no_switch(inspect::summary);
            let events = places(&summary, "an Event");
            let counts: Vec<_> = events.iter().map(|place| place.strands).collect();
            assert_eq!(counts, [300, 20], "{summary}");
            assert_ne!(events[0].location.line, events[1].location.line);
            assert_eq!(places(&summary, "a Mutex")[0].strands, 1, "{summary}");
            let states = summary.states;
            assert_eq!((states.waiting, states.not_started), (322, 1), "{states:?}");
            assert_eq!(summary.waiting_elsewhere, 0);
            assert!(states.running >= 1, "{states:?}");
            assert!(states.total() >= 324);
            let own = fiber::worker().expect("a worker");
            let worker = summary.workers.iter().find(|worker| worker.waiting == 322);
            let worker = worker.expect("the worker of this test");
            assert_eq!((worker.index, worker.status), (Some(own), WorkerStatus::Complete));
            assert!(worker.fibers >= 323 && worker.cpu.is_some() && worker.run_queue.is_some());
            assert!(summary.spawned >= 324 && summary.resumed > 0);
            drop(guard);
            drop(sender);
        });
    });
}

#[test]
fn the_waits_that_have_lasted_longest_are_described_in_order() {
    // The waits of other tests might be longer.
    if !is_alone("the_waits_that_have_lasted_longest_are_described_in_order") {
        return;
    }
    common::one_worker().run(|| {
        let (event, first) = (Event::new(), unique("first"));
        fiber::scope(|s| {
            let _released = Released(&event);
            let wait = || event.wait().unwrap();
            spawned_in(s, &first, wait);
            waiting(&first);
            fiber::sleep(Duration::from_millis(60));
            for _ in 0..200 {
                s.spawn(wait);
            }
            while ramie::metrics::metrics().unstarted() > 0 {
                fiber::yield_now();
            }
            let summary = inspect::summary();
            assert_eq!(summary.slowest.len(), 50);
            let since = |at: usize| summary.slowest[at].wait.as_ref().unwrap().since;
            assert!((1..50).all(|at| since(at - 1) >= since(at)), "{summary}");
            let strand = summary.slowest.iter().find(|s| s.name.as_ref() == Some(&first));
            let strand = strand.expect("the one that has waited longest");
            assert_eq!(strand.state, StrandState::Waiting);
            assert!(strand.wait.as_ref().unwrap().since >= Duration::from_millis(50));
            assert!(strand.worker.is_some_and(|place| place < summary.workers.len()));
            let places = places(&summary, "an Event");
            let [place] = places[..] else { panic!("{summary}") };
            assert_eq!(place.strands, 201);
            assert!(place.longest >= Duration::from_millis(50), "{summary}");
            let text = summary.to_string();
            assert!(text.contains(&format!("fiber '{first}' ({}) waits for", strand.id)), "{text}");
        });
    });
}

#[test]
fn the_json_of_a_summary_parses_and_equals_that_of_serde() {
    common::one_worker().run(|| {
        let (event, name) = (Event::new(), format!("{} \"\\\n\u{1b}[31m\u{202e}", unique("json")));
        fiber::scope(|s| {
            let _released = Released(&event);
            spawned_in(s, &name, || event.wait().unwrap());
            waiting(&name);
            // The 50 slowest of all tests of this process may not have it yet.
            let summary = std::cell::RefCell::new(Summary::default());
            common::wait_until(|| {
                *summary.borrow_mut() = inspect::summary();
                summary.borrow().slowest.iter().any(|strand| strand.name.as_ref() == Some(&name))
            });
            let summary = summary.into_inner();
            let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
            assert_eq!(json["process"], std::process::id());
            assert_eq!(json["states"]["waiting"], summary.states.waiting);
            let slowest = json["slowest"].as_array().unwrap();
            let strand = slowest.iter().find(|strand| strand["name"] == *name).unwrap();
            assert_eq!(strand["wait"]["purpose"], "an Event");
            #[cfg(feature = "serde")]
            assert_eq!(json, serde_json::to_value(&summary).unwrap());
            // No character of a name reaches a terminal that would control it.
            let text = summary.to_string() + &inspect::dump().to_string();
            let controls = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!text.contains(controls) && text.contains("\\u{1b}[31m"), "{text}");
        });
    });
}

/// It is neither among the slowest waits nor in a dump of the other strand.
#[test]
fn the_holder_of_a_lock_is_named_also_while_it_runs() {
    if !is_alone("the_holder_of_a_lock_is_named_also_while_it_runs") {
        return;
    }
    common::one_worker().run(|| {
        let (lock, is_over) = (Mutex::new(()), AtomicBool::new(false));
        let holds = || {
            let _guard = lock.lock().unwrap();
            while !is_over.load(Ordering::SeqCst) {
                fiber::yield_now();
            }
        };
        fiber::scope(|s| {
            let holder = spawned_in(s, "holder", holds).fiber().id();
            fiber::yield_now();
            spawned_in(s, "waiter", || drop(lock.lock().unwrap()));
            let id = waiting("waiter").id;
            let (summary, dump) = (inspect::summary(), DumpOptions::new().only(id).dump());
            is_over.store(true, Ordering::SeqCst);
            let text = format!("held by fiber 'holder' ({holder})");
            assert!(summary.to_string().contains(&text), "{summary}");
            assert!(dump.to_string().contains(&format!("{text}, which is not in")), "{dump}");
            for json in [summary.to_json(), dump.to_json()] {
                let json: serde_json::Value = serde_json::from_str(&json).unwrap();
                let expected = serde_json::json!({ "id": holder.to_string(), "name": "holder" });
                assert_eq!(json["awaited"], serde_json::json!([expected]));
            }
        });
    });
}

#[test]
fn the_path_of_a_descriptor_does_not_control_a_terminal() {
    common::one_worker().run(|| {
        let (folder, name) = (Folder::new(), unique("accepts"));
        let path = folder.0.join("\u{1b}[31m.sock");
        let listener = ramie::os::unix::net::UnixListener::bind(&path).unwrap();
        fiber::scope(|s| {
            spawned_in(s, &name, || drop(listener.accept().unwrap()));
            let id = waiting(&name).id;
            let text = DumpOptions::new().only(id).dump().to_string();
            drop(ramie::os::unix::net::UnixStream::connect(&path).unwrap());
            assert!(text.contains("\\u{1b}[31m.sock") && !text.contains('\u{1b}'), "{text:?}");
        });
    });
}

#[test]
fn stalls_are_kept_with_their_ends() {
    let name = unique("hog");
    let runtime = ramie::Runtime::builder()
        .workers(1)
        .strands(ramie::Strands::Fibers)
        .on_stall(ramie::Reaction::Ignore)
        .build()
        .unwrap();
    let label = format!("fiber '{name}'");
    let stall = || inspect::summary().stalls.into_iter().find(|stall| stall.fiber == label);
    runtime.run(|| {
        // Not a wait of Ramie: it blocks the worker until the watchdog has seen it.
        let hog = || {
            thread::scope(|threads| {
                threads.spawn(|| common::wait_until(|| stall().is_some())).join().unwrap();
            });
        };
        fiber::scope(|s| drop(spawned_in(s, &name, hog)));
        // The watchdog notes the end at its next look.
        common::wait_until(|| stall().is_some_and(|stall| stall.has_ended));
        let stall = stall().unwrap();
        assert_eq!(stall.worker, 0);
        assert!(stall.cause.contains("futex") && !stall.cause.contains('\n'), "{}", stall.cause);
        assert!(stall.lasted >= Duration::from_millis(20) && stall.ago > Duration::ZERO);
        assert!(inspect::summary().to_string().contains(&format!("{label} kept worker 0 for ")));
    });
}

#[test]
fn a_worker_that_does_not_answer_is_named() {
    let name = unique("silent");
    let runtime = ramie::Runtime::builder().workers(1).stall_limit(None).build().unwrap();
    runtime.run(|| {
        let ask = move || {
            let summary = thread::scope(|threads| threads.spawn(inspect::summary).join().unwrap());
            let silent = summary.workers.iter().filter(|w| w.status == WorkerStatus::Silent);
            assert!(silent.count() >= 1, "{summary}");
            assert!(summary.took >= Duration::from_secs(1));
            assert!(summary.to_string().contains("has not counted all its strands"), "{summary}");
        };
        fiber::Builder::new().name(name).spawn(ask).unwrap().join().unwrap();
    });
}

#[test]
fn a_dump_of_one_strand_has_no_other() {
    common::one_worker().run(|| {
        let (event, [one, other]) = (Event::new(), ["one", "other"].map(unique));
        fiber::scope(|s| {
            let _released = Released(&event);
            spawned_in(s, &one, || event.wait().unwrap());
            spawned_in(s, &other, || event.wait().unwrap());
            let id = waiting(&one).id;
            let dump = DumpOptions::new().only(id).dump();
            assert_eq!(dump.strands.len(), 1, "{dump}");
            let strand = named(&dump, &one).expect("the strand");
            assert!(strand.backtrace.is_none() && !dump.workers.is_empty());
            let dump = DumpOptions::new().only(id).backtraces(true).dump();
            let makes_backtraces = cfg!(all(feature = "backtrace", target_arch = "x86_64"));
            assert_eq!(dump.strands[0].backtrace.is_some(), makes_backtraces);
            // One that has not started, one that has ended, and a thread.
            let unstarted = s.spawn(|| ());
            let options = DumpOptions::new().only(unstarted.fiber().id());
            // It does not start while this strand keeps its worker.
            let dump = ramie::no_switch(|| options.dump());
            assert_eq!(dump.strands[0].state, StrandState::NotStarted);
            let ended = unstarted.fiber().id();
            unstarted.join().unwrap();
            assert!(DumpOptions::new().only(ended).dump().strands.is_empty());
        });
    });
}

#[test]
fn a_thread_that_runs_its_own_code_counts_as_running() {
    // The threads of other tests would be counted, too.
    if !is_alone("a_thread_that_runs_its_own_code_counts_as_running") {
        return;
    }
    let runtime = ramie::Runtime::builder().strands(ramie::Strands::Threads).build().unwrap();
    runtime.run(|| {
        let (started, has_started) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        fiber::scope(|s| {
            // Not a wait of Ramie, so its thread cannot answer.
            spawned_in(s, "computes", move || {
                started.send(()).unwrap();
                released.recv().unwrap_err();
            });
            has_started.recv().unwrap();
            let summary = inspect::summary();
            drop(release);
            assert_eq!(summary.states.running, 2, "{summary}");
        });
    });
}
