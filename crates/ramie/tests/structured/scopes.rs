//! The calls of `structured`: cancellations, merged failures, borrows.

use std::{
    error::Error,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::common::{cancel::until_cancelled, on_workers, panic_text, with_workers};
use ramie::{
    Runtime, actor,
    cancel::{self, Cancelled},
    channel, fiber,
    structured::{
        BackOff, Failure, Failures, Racers, Ready, Restart, Strategy, Supervised, Supervisor,
        TryScope, any, par_map, par_map_unordered, race, set, try_par_map, try_scope,
    },
    sync::{self, Barrier, broadcast, oneshot, watch},
    time::ManualClock,
};

#[test]
fn a_value_is_returned_and_children_borrow() {
    on_workers(|| {
        let words = ["one", "three"];
        let total = try_scope(|scope: &TryScope<'_, '_, io::Error>| {
            let lengths = words.each_ref().map(|word| scope.spawn(|| Ok(word.len())));
            let mut total = 0;
            for length in lengths {
                total += length.join()?;
            }
            Ok(total)
        });
        assert_eq!(total.unwrap(), 8);
    });
}

#[test]
fn the_first_failure_cancels_the_siblings_and_is_the_cause() {
    on_workers(|| {
        let ended = AtomicUsize::new(0);
        let result = try_scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    let end = until_cancelled();
                    ended.fetch_add(1, SeqCst);
                    end
                });
            }
            scope.spawn(|| Err::<(), _>(io::Error::other("the cause")));
            until_cancelled()
        });
        let failures = result.unwrap_err();
        assert_eq!(failures.to_string(), "the cause");
        assert_eq!(failures.iter().count(), 1, "what followed is dropped");
        assert_eq!(ended.load(SeqCst), 5);
    });
}

#[test]
fn all_errors_are_kept_in_the_order_in_which_they_happened() {
    with_workers(1).run(|| {
        let result: Result<(), Failures<String>> = try_scope(|scope| {
            for n in 1..=3 {
                scope.spawn(move || {
                    (0..n).for_each(|_| fiber::yield_now());
                    Err::<(), _>(n.to_string())
                });
            }
            Ok(())
        });
        let failures = result.unwrap_err();
        assert_eq!(failures.to_string(), "1; also: 2; also: 3");
        assert_eq!(failures.into_iter().collect::<Vec<_>>(), ["1", "2", "3"]);
    });
}

#[test]
fn the_scopes_own_closure_counts_as_a_strand() {
    with_workers(1).run(|| {
        let result = try_scope(|scope| {
            scope.spawn(until_cancelled);
            Err::<(), _>(io::Error::other("no"))
        });
        assert_eq!(result.unwrap_err().into_cause().to_string(), "no");
    });
}

#[test]
fn a_cancellation_from_outside_is_kept_if_there_is_no_other_error() {
    with_workers(1).run(|| {
        let error = cancel::scope(|outer| {
            try_scope(|scope| {
                scope.spawn(until_cancelled);
                scope.spawn(until_cancelled);
                fiber::yield_now();
                outer.cancel_because("closing");
                Ok(())
            })
            .unwrap_err()
        });
        assert_eq!(error.to_string(), "cancelled: closing");
        let io: io::Error = error.into();
        assert!(cancel::is_cancelled(&io));
    });
}

/// Waits for longer than the limit that it has set itself.
fn too_slow() -> io::Result<()> {
    cancel::with_timeout(Duration::from_millis(1), until_cancelled)?
}

#[test]
fn a_limit_that_a_strand_has_set_itself_is_a_failure() {
    on_workers(|| {
        let result: Result<(), Failures<io::Error>> = try_scope(|scope| {
            scope.spawn(until_cancelled);
            scope.spawn(too_slow);
            Ok(())
        });
        let failures = result.unwrap_err();
        assert_eq!(failures.cause().kind(), io::ErrorKind::TimedOut);
        assert_eq!(failures.iter().count(), 1, "the other was cancelled: {failures}");

        let none = any(|racers: &Racers<'_, '_, (), io::Error>| {
            racers.spawn_try(too_slow);
            racers.spawn_try(|| Err(io::Error::other("no such host")));
        });
        assert_eq!(none.unwrap_err().unwrap().iter().count(), 2);
    });
}

#[test]
fn an_error_that_contains_a_cancellation_reports_it() {
    #[derive(Debug)]
    struct Loading(io::Error);
    impl std::fmt::Display for Loading {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("cannot load")
        }
    }
    impl Error for Loading {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }
    type Boxed = Box<dyn Error + Send + Sync>;
    let cancelled = || io::Error::from(Cancelled::because("closing"));
    let closed = || io::Error::other(channel::RecvError::Cancelled);
    let unsent = || io::Error::other(channel::SendError::Cancelled(1));
    assert!(closed().is_cancelled() && unsent().is_cancelled());
    assert!(Boxed::from(Loading(cancelled())).is_cancelled());
    assert!(Boxed::from(Loading(closed())).is_cancelled());
    assert!(Boxed::from(channel::SendTimeoutError::Cancelled(1)).is_cancelled());
    assert!(io::Error::other(Loading(closed())).is_cancelled());
    assert!(!Boxed::from(Loading(io::Error::other("no disk"))).is_cancelled());
    assert!(!io::Error::other(channel::RecvError::Disconnected).is_cancelled());
}

/// As each error with a variant for a cancellation does.
#[test]
fn errors_that_report_a_cancellation_have_it_as_their_source() {
    let errors: [Box<dyn Error + Send + Sync>; 13] = [
        actor::CallError::Cancelled.into(),
        channel::RecvError::Cancelled.into(),
        channel::RecvTimeoutError::Cancelled.into(),
        channel::SendError::Cancelled(1).into(),
        channel::SendTimeoutError::Cancelled(1).into(),
        sync::AcquireError::Cancelled.into(),
        sync::AcquireTimeoutError::Cancelled.into(),
        broadcast::RecvError::Cancelled.into(),
        broadcast::RecvTimeoutError::Cancelled.into(),
        oneshot::RecvError::Cancelled.into(),
        oneshot::RecvTimeoutError::Cancelled.into(),
        watch::RecvError::Cancelled.into(),
        watch::RecvTimeoutError::Cancelled.into(),
    ];
    for error in errors {
        assert!(error.is_cancelled(), "{error:?}");
        assert!(error.source().is_some_and(|source| source.is::<Cancelled>()), "{error:?}");
        let as_io = io::Error::other(error);
        assert!(as_io.is_cancelled() && cancel::is_cancelled(&as_io), "{as_io:?}");
        assert!(cancel::is_cancelled(&io::Error::other(as_io)), "inside of another");
    }
    let by_question_mark = || -> io::Result<()> { Err(channel::RecvError::Cancelled)? };
    assert!(cancel::is_cancelled(&by_question_mark().unwrap_err()));
    let late = io::Error::from(channel::RecvTimeoutError::Timeout);
    assert!(late.kind() == io::ErrorKind::TimedOut && !cancel::is_cancelled(&late));
    let gone = || -> io::Result<()> { Err(channel::RecvError::Disconnected)? };
    assert!(!cancel::is_cancelled(&gone().unwrap_err()));
}

#[test]
fn errors_of_std_are_failures() {
    with_workers(1).run(|| {
        let numbers: Result<Vec<u8>, _> = try_par_map(["1", "x"], 2, str::parse);
        assert_eq!(numbers.unwrap_err().to_string(), "invalid digit found in string");
        let texts = try_par_map([b"a", b"\xff"], 2, |bytes| std::str::from_utf8(bytes));
        assert!(texts.is_err());
    });
}

#[test]
fn a_panic_takes_precedence_over_errors_and_is_resumed_at_the_end() {
    on_workers(|| {
        let ended = AtomicUsize::new(0);
        let text = panic_text(|| {
            try_scope(|scope| {
                scope.spawn(|| {
                    let end = until_cancelled();
                    ended.fetch_add(1, SeqCst);
                    end
                });
                scope.spawn(|| -> io::Result<()> { panic!("of its own") });
                scope.spawn(|| Err::<(), _>(io::Error::other("an error")));
                Ok(())
            })
        });
        assert_eq!(text, "of its own");
        assert_eq!(ended.load(SeqCst), 1);
    });
}

#[test]
fn joining_a_failed_strand_leaves_the_closure_with_the_cause() {
    with_workers(1).run(|| {
        let result = try_scope(|scope| {
            let failing = scope.spawn(|| Err::<(), _>(io::Error::other("deep")));
            failing.join()?;
            Ok(())
        });
        assert_eq!(result.unwrap_err().to_string(), "deep");
    });
}

#[test]
fn a_child_reports_that_it_is_ready_or_ends_earlier() {
    on_workers(|| {
        let value = try_scope(|scope| {
            let value = scope.start(|ready: Ready<i32>| {
                ready.set(7);
                until_cancelled()
            })?;
            scope.cancel_handle().cancel();
            Ok::<_, io::Error>(value)
        });
        assert!(value.is_err(), "the strand was cancelled by the scope's own handle");
        let failed: Result<(), Failures<io::Error>> = try_scope(|scope| {
            scope.start(|_: Ready<()>| Err(io::Error::other("no port")))?;
            unreachable!("it was never ready");
        });
        assert_eq!(failed.unwrap_err().to_string(), "no port");
        let silent = try_scope(|scope| scope.start(|_: Ready<()>| Ok::<_, Cancelled>(())));
        let sentence = "cancelled: the fiber ended before it was ready";
        assert_eq!(silent.unwrap_err().to_string(), sentence);
    });
}

#[test]
fn a_race_ends_when_one_strand_has_ended() {
    on_workers(|| {
        let lost = AtomicUsize::new(0);
        let winner = race(|racers| {
            for _ in 0..3 {
                racers.spawn(|| {
                    let _ = until_cancelled();
                    lost.fetch_add(1, SeqCst);
                    0
                });
            }
            racers.spawn(|| 7);
        });
        assert_eq!((winner, lost.load(SeqCst)), (Some(7), 3));
        assert_eq!(race::<(), _>(|_| ()), None);
        let text = panic_text(|| {
            race(|racers| {
                racers.spawn(|| until_cancelled().is_err());
                racers.spawn(|| panic!("fell"));
            })
        });
        assert_eq!(text, "fell");
    });
}

#[test]
fn any_waits_until_one_strand_succeeds() {
    on_workers(|| {
        let found = any(|racers| {
            racers.spawn_try(|| Err(io::Error::other("first mirror")));
            racers.spawn_try(|| until_cancelled().map(|()| 0));
            racers.spawn_try(|| {
                fiber::yield_now();
                Ok(7)
            });
        });
        assert_eq!(found.unwrap(), 7);
        let none = any::<(), _, _>(|racers| {
            racers.spawn_try(|| Err("one"));
            racers.spawn_try(|| Err("two"));
        });
        assert_eq!(none.unwrap_err().unwrap().into_iter().count(), 2);
        assert!(any::<(), &str, _>(|_| ()).unwrap_err().is_none());
    });
}

#[test]
fn join_returns_all_values_and_try_join_the_first_error() {
    on_workers(|| {
        let text = String::from("abc");
        let (a, b, c) = ramie::join!(text.len(), text.as_str(), [1.5]);
        assert_eq!((a, b, c), (3, "abc", [1.5]));
        assert_eq!(ramie::join!(1), (1,));
        let both = ramie::try_join!(Ok::<_, io::Error>(text.len()), io::Result::Ok(text.as_str()));
        assert_eq!(both.unwrap(), (3, "abc"));
        let failed = ramie::try_join!(until_cancelled(), Err::<i32, _>(io::Error::other("no")));
        assert_eq!(failed.unwrap_err().to_string(), "no");
        assert_eq!(panic_text(|| ramie::join!(1, panic!("half"), 2)), "half");
    });
}

#[test]
fn a_set_returns_outcomes_in_the_order_of_the_ends() {
    with_workers(1).run(|| {
        let order = set(|set| {
            for n in [3, 1, 2] {
                set.spawn(move || {
                    (0..n).for_each(|_| fiber::yield_now());
                    n
                });
            }
            assert_eq!(set.len(), 3);
            set.outcomes().map(Result::unwrap).collect::<Vec<_>>()
        });
        assert_eq!(order, [1, 2, 3]);
        let grown = set(|set| {
            set.spawn(|| {
                set.spawn(|| 2);
                1
            });
            let first = set.next().unwrap().unwrap();
            let second = set.next().unwrap().unwrap();
            assert!(set.next().is_none() && set.is_empty());
            first + second
        });
        assert_eq!(grown, 3);
    });
}

#[test]
fn a_set_keeps_panics_until_they_are_taken() {
    on_workers(|| {
        let caught = set(|set| {
            set.spawn(|| panic!("taken"));
            set.next().unwrap().is_err()
        });
        assert!(caught);
        assert_eq!(panic_text(|| set(|set| set.spawn(|| panic!("left")))), "left");
        let cancelled = set(|set| {
            set.spawn(until_cancelled);
            set.cancel();
            set.next().unwrap().unwrap().is_err()
        });
        assert!(cancelled);
    });
}

#[test]
fn par_map_runs_no_more_fibers_than_its_limit() {
    on_workers(|| {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let map = |n: u64| {
            most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
            (0..n % 5).for_each(|_| fiber::yield_now());
            running.fetch_sub(1, SeqCst);
            n * 2
        };
        let doubled: Vec<_> = (0..100).map(|n| n * 2).collect();
        assert_eq!(par_map(0..100, 7, map), doubled);
        let mut unordered = Vec::new();
        par_map_unordered(0..100, 7, map, |result| unordered.push(result));
        unordered.sort_unstable();
        assert_eq!(unordered, doubled);
        assert_eq!(try_par_map(0..100, 7, |n| Ok::<_, String>(map(n))).unwrap(), doubled);
        assert!(most.load(SeqCst) <= 7, "{most:?} of them ran at once");
        assert_eq!(par_map(0..0, 3, map), []);
    });
}

#[test]
fn par_map_runs_as_many_fibers_as_its_limit() {
    on_workers(|| {
        let all_are_here = Barrier::new(7);
        let meet = |_| all_are_here.wait().is_leader();
        assert_eq!(par_map(0..14, 7, meet).iter().filter(|is_leader| **is_leader).count(), 2);
        par_map_unordered(0..14, 7, meet, |_| {});
        assert_eq!(try_par_map(0..14, 7, |n| Ok::<_, String>(meet(n))).unwrap().len(), 14);
    });
}

#[test]
fn a_map_that_fails_takes_no_more_items() {
    with_workers(1).run(|| {
        let taken = AtomicUsize::new(0);
        let items = (0..1000).inspect(|_| {
            taken.fetch_add(1, SeqCst);
        });
        let failed = try_par_map(items, 4, |n| {
            fiber::yield_now();
            if n == 10 { Err("ten") } else { Ok(n) }
        });
        assert_eq!(failed.unwrap_err().into_cause(), "ten");
        assert!(taken.load(SeqCst) < 20);
        let taken = AtomicUsize::new(0);
        let map = |n| {
            taken.fetch_add(1, SeqCst);
            assert_ne!(n, 3, "three");
        };
        assert!(panic_text(|| par_map(0..1000, 1, map)).contains("three"));
        assert_eq!(taken.load(SeqCst), 4);
        assert!(panic_text(|| par_map(0..3, 0, |n| n)).contains("the limit is 0"));
        let each = |n| assert_ne!(n, 3, "each");
        assert!(panic_text(|| par_map_unordered(0..1000, 2, |n| n, each)).contains("each"));
    });
}

#[test]
fn a_value_that_comes_second_is_dropped_once() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    on_workers(|| {
        let drops = AtomicUsize::new(0);
        let winner = race(|racers| {
            (0..10).for_each(|_| racers.spawn(|| Counted(&drops)));
        });
        assert_eq!(drops.load(SeqCst), 9);
        drop(winner);
        assert_eq!(drops.load(SeqCst), 10);
    });
}

const AT_ONCE: BackOff = BackOff { first: Duration::ZERO, longest: Duration::ZERO };

#[test]
fn a_child_is_restarted_until_it_succeeds_or_fails_too_often() {
    on_workers(|| {
        let runs = AtomicUsize::new(0);
        let flaky = || match runs.fetch_add(1, SeqCst) {
            0 => panic!("the first time"),
            1 => Err("the second time"),
            _ => Ok(()),
        };
        let supervisor = Supervisor::new().back_off(AT_ONCE);
        assert!(supervisor.run(|children| children.add("flaky", flaky)).is_ok());
        assert_eq!(runs.swap(0, SeqCst), 3);
        let hopeless = || {
            runs.fetch_add(1, SeqCst);
            Err::<(), _>(io::Error::other("still no disk"))
        };
        let gave_up = supervisor.run(|children| {
            children.add("disk", hopeless);
            children.add("other", until_cancelled);
        });
        let gave_up = gave_up.unwrap_err();
        let sentence =
            "the supervisor gave up on 'disk' after 5 restarts within 60s: still no disk";
        assert_eq!(gave_up.to_string(), sentence);
        assert_eq!((gave_up.child(), runs.swap(0, SeqCst)), ("disk", 6));
        let never = supervisor.restart(Restart::Never).run(|children| {
            children.add("disk", hopeless);
        });
        let never = never.unwrap_err();
        assert!(never.error().is_some());
        assert_eq!(never.to_string(), "the supervisor gave up on 'disk': still no disk");
        assert_eq!(runs.load(SeqCst), 1);
    });
}

#[test]
fn a_supervisor_that_gives_up_reports_how_the_child_ended() {
    with_workers(1).run(|| {
        let supervisor = Supervisor::new().back_off(AT_ONCE).limit(1, Duration::from_secs(1));
        let panics = |children: &mut Supervised<'_, String>| {
            children.add("disk", || panic!("no {}", "disk"));
        };
        let gave_up = supervisor.run(panics).unwrap_err();
        let sentence =
            "the supervisor gave up on 'disk' after 1 restart within 1s: it panicked: no disk";
        assert_eq!((gave_up.to_string().as_str(), gave_up.error()), (sentence, None));
        let returns = |children: &mut Supervised<'_, String>| children.add("server", || Ok(()));
        let gave_up = supervisor.restart(Restart::Always).run(returns).unwrap_err();
        let sentence = "the supervisor gave up on 'server' after 1 restart within 1s: it returned";
        assert_eq!((gave_up.to_string().as_str(), gave_up.error()), (sentence, None));
    });
}

#[test]
fn one_for_all_restarts_the_others_too() {
    on_workers(|| {
        let (first, second) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let supervisor = Supervisor::new().back_off(AT_ONCE).strategy(Strategy::OneForAll);
        let ended = supervisor.run(|children| {
            children.add("waits", || match first.fetch_add(1, SeqCst) {
                0 | 1 => until_cancelled(),
                _ => Ok(()),
            });
            children.add("fails", || {
                let round = second.fetch_add(1, SeqCst);
                // After the child has begun, because a child that is cancelled earlier is not
                // called at all.
                while first.load(SeqCst) <= round {
                    fiber::yield_now();
                }
                if round < 2 { Err(io::Error::other("again")) } else { Ok(()) }
            });
        });
        assert!(ended.is_ok());
        assert_eq!((first.load(SeqCst), second.load(SeqCst)), (3, 3));
    });
}

#[test]
fn pauses_before_restarts_grow_and_old_restarts_do_not_count() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    let starts = Mutex::new(Vec::new());
    runtime.run(|| {
        let mover = clock.clone();
        let begin = clock.now();
        fiber::scope(|scope| {
            let ticking = scope.spawn(|| {
                let child = || {
                    let mut starts = starts.lock().unwrap();
                    starts.push(clock.now().duration_since(begin).as_millis());
                    if starts.len() < 8 { Err("not yet") } else { Ok(()) }
                };
                let back_off = BackOff {
                    first: Duration::from_millis(10),
                    longest: Duration::from_millis(100),
                };
                let supervisor = Supervisor::new().back_off(back_off);
                supervisor.limit(5, Duration::from_millis(200)).run(|children| {
                    children.add("child", child);
                })
            });
            while !ticking.is_finished() {
                mover.advance(Duration::from_millis(1));
                // Later than the pause, because the worker checks its timers only from time to
                // time.
                (0..100).for_each(|_| fiber::yield_now());
            }
            assert!(ticking.join().unwrap().is_ok());
        });
    });
    let starts = starts.into_inner().unwrap();
    let pauses: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let expected = [10, 20, 40, 80, 100, 100, 100];
    assert!(pauses.iter().zip(expected).all(|(is, due)| (due..due + 5).contains(is)), "{pauses:?}");
}

#[test]
fn a_supervisor_that_is_cancelled_restarts_nothing() {
    on_workers(|| {
        let runs = AtomicUsize::new(0);
        let ended = cancel::scope(|scope| {
            let handle = scope.handle();
            Supervisor::new().restart(Restart::Always).run(|children| {
                children.add("server", || {
                    runs.fetch_add(1, SeqCst);
                    handle.cancel();
                    until_cancelled()
                });
            })
        });
        assert!(ended.is_ok());
        assert_eq!(runs.load(SeqCst), 1);
    });
}

#[test]
fn scopes_work_on_a_thread_outside_run_too() {
    let failed: Result<(), _> = try_scope(|scope| {
        scope.spawn(until_cancelled);
        scope.spawn(|| Err::<(), _>(io::Error::other("no")));
        Ok(())
    });
    assert_eq!(failed.unwrap_err().to_string(), "no");
    assert_eq!(par_map(0..4, 2, |n| n + 1), [1, 2, 3, 4]);
    let caught = catch_unwind(AssertUnwindSafe(|| set(|set| set.spawn(|| panic!("left")))));
    assert!(caught.is_err());
}
