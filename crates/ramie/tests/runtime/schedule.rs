//! Scheduling: order, fairness, stealing, idling, memory.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::ThreadId,
    time::{Duration, Instant},
};

use crate::common::{
    self, assert_success, child, cpu_time, is_child, on_each, one_worker, wait_until, with_workers,
};
use ramie::fiber;

#[test]
fn yields_go_round_in_order() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let turns = Rc::new(RefCell::new(Vec::new()));
            let strands: Vec<_> = (0..5)
                .map(|n| {
                    let turns = Rc::clone(&turns);
                    fiber::spawn_local(move || {
                        for _ in 0..4 {
                            turns.borrow_mut().push(n);
                            fiber::yield_now();
                        }
                    })
                })
                .collect();
            strands.into_iter().for_each(|strand| strand.join().unwrap());
            let expected: Vec<_> = (0..4).flat_map(|_| 0..5).collect();
            assert_eq!(*turns.borrow(), expected);
        });
    });
}

/// Spins that yield all the time, each counting its turns, until they are stopped.
struct Yielders {
    turns: Arc<Vec<(AtomicUsize, std::sync::OnceLock<ThreadId>)>>,
    stop: Arc<AtomicBool>,
}

impl Yielders {
    fn start(count: usize) -> Self {
        let turns = Arc::new((0..count).map(|_| Default::default()).collect::<Vec<_>>());
        let yielders = Yielders { turns, stop: Arc::default() };
        for n in 0..count {
            let (turns, stop) = (Arc::clone(&yielders.turns), Arc::clone(&yielders.stop));
            drop(fiber::spawn(move || {
                turns[n].1.set(std::thread::current().id()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    turns[n].0.fetch_add(1, Ordering::Relaxed);
                    fiber::yield_now();
                }
            }));
        }
        let started = |yielder: &(AtomicUsize, _)| yielder.0.load(Ordering::Relaxed) > 0;
        wait_until(|| yielders.turns.iter().all(started));
        yielders
    }

    /// The turns so far of those on this thread.
    fn counts_here(&self) -> Vec<usize> {
        let here = std::thread::current().id();
        let is_here = |yielder: &&(_, std::sync::OnceLock<_>)| yielder.1.get() == Some(&here);
        self.turns.iter().filter(is_here).map(|turns| turns.0.load(Ordering::Relaxed)).collect()
    }

    fn total_here(&self) -> usize {
        self.counts_here().iter().sum()
    }
}

impl Drop for Yielders {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_spawned_fiber_runs_before_others_run_twice_more() {
    on_each(&[1, 2], |runtime| {
        for count in [1, 1000] {
            runtime.run(|| {
                let yielders = Arc::new(Yielders::start(count));
                for _ in 0..20 {
                    let here = std::thread::current().id();
                    let before = yielders.counts_here();
                    let theirs = Arc::clone(&yielders);
                    let spawned = fiber::spawn(move || {
                        (std::thread::current().id() == here).then(|| theirs.counts_here())
                    });
                    // Where another worker was idle and took it, there is nothing to count.
                    let Some(after) = spawned.join().unwrap() else { continue };
                    for (before, after) in before.iter().zip(after) {
                        assert!(after <= before + 2, "{count} yield, one ran {}", after - before);
                    }
                }
            });
        }
    });
}

#[test]
fn due_timers_are_seen_within_64_switches() {
    on_each(&[1, 2], |runtime| {
        for count in [1, 1000] {
            let clock = ramie::time::ManualClock::new();
            let manual = ramie::Runtime::builder().workers(runtime.workers()).clock(clock.clone());
            manual.build().unwrap().run(|| {
                let yielders = Arc::new(Yielders::start(count));
                for _ in 0..20 {
                    let theirs = Arc::clone(&yielders);
                    let is_due = Rc::new(Cell::new(false));
                    let seen = Rc::clone(&is_due);
                    let sleeper = fiber::spawn_local(move || {
                        fiber::sleep(Duration::from_secs(1));
                        seen.set(true);
                        theirs.total_here()
                    });
                    fiber::yield_now();
                    clock.advance(Duration::from_secs(1));
                    let before = yielders.total_here();
                    let after = sleeper.join().unwrap();
                    assert!(is_due.get());
                    // Seen within 64 switches, then those run that were runnable before it.
                    assert!(after - before <= 64 + count + 3, "{count} ran {}", after - before);
                }
            });
        }
    });
}

#[test]
fn a_finished_job_is_seen_though_others_yield() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let _yielders = Yielders::start(100);
            (0..50).for_each(|n| assert_eq!(ramie::blocking(|| n), n));
        });
    });
}

#[test]
fn started_fibers_stay_on_their_thread() {
    on_each(&[4], |runtime| {
        runtime.run(|| {
            let wanders = || {
                let here = std::thread::current().id();
                for round in 0..50 {
                    match round % 4 {
                        0 => fiber::yield_now(),
                        1 => fiber::sleep(Duration::from_micros(10)),
                        2 => fiber::spawn(|| ()).join().unwrap(),
                        _ => ramie::blocking(|| ()),
                    }
                    assert_eq!(std::thread::current().id(), here);
                }
            };
            let strands: Vec<_> = (0..40).map(|_| fiber::spawn(wanders)).collect();
            strands.into_iter().for_each(|strand| strand.join().unwrap());
        });
    });
}

#[test]
fn unstarted_closures_are_stolen_from_a_busy_worker() {
    on_each(&[2, 4], |runtime| {
        runtime.run(|| {
            let ended = Arc::new(AtomicUsize::new(0));
            for _ in 0..100 {
                let ended = Arc::clone(&ended);
                drop(fiber::spawn(move || ended.fetch_add(1, Ordering::SeqCst)));
            }
            // This fiber never suspends: all of them have to run elsewhere.
            let start = Instant::now();
            while ended.load(Ordering::SeqCst) < 100 {
                assert!(start.elapsed() < Duration::from_secs(60), "nobody stole them");
                std::hint::spin_loop();
            }
        });
    });
}

/// Busy fibers of one batch do not queue behind each other while workers sleep.
#[test]
fn busy_fibers_spread_over_the_workers() {
    with_workers(4).run(|| {
        for _ in 0..50 {
            let together = Arc::new(AtomicUsize::new(0));
            let meets = || {
                let together = Arc::clone(&together);
                move || {
                    together.fetch_add(1, Ordering::SeqCst);
                    let start = Instant::now();
                    while together.load(Ordering::SeqCst) < 4 {
                        assert!(start.elapsed() < Duration::from_secs(60), "one waits forever");
                        std::thread::yield_now();
                    }
                }
            };
            let strands = [(); 3].map(|()| fiber::spawn(meets()));
            meets()();
            strands.into_iter().for_each(|strand| strand.join().unwrap());
        }
    });
}

/// In a process of its own: the other tests use the CPU too.
#[test]
fn an_idle_runtime_costs_no_cpu() {
    if is_child() {
        return on_each(&[1, 4], |runtime| {
            runtime.run(|| {
                let parked: Vec<_> = (0..1000).map(|_| fiber::spawn(fiber::park)).collect();
                fiber::sleep(Duration::from_millis(100));
                let (cpu, wall) = (cpu_time(), Instant::now());
                fiber::sleep(Duration::from_millis(400));
                let (cpu, wall) = (cpu_time() - cpu, wall.elapsed());
                assert!(cpu * 10 <= wall, "{cpu:?} in {wall:?}");
                parked.iter().for_each(|strand| strand.fiber().unpark());
            });
        });
    }
    assert_success(&child("an_idle_runtime_costs_no_cpu"));
}

fn use_stack(bytes: usize) -> usize {
    #[inline(never)]
    fn descend(left: usize) -> usize {
        let frame = std::hint::black_box([1_u8; 4096]);
        if left <= 4096 { frame[0].into() } else { descend(left - 4096) + usize::from(frame[9]) }
    }
    descend(bytes)
}

/// The program's own pages, which are read from its file when code first runs, do not count.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: Vec<usize> = statm.split_whitespace().map(|pages| pages.parse().unwrap()).collect();
    let [_, resident, of_files, ..] = pages[..] else { panic!("statm has fields: {statm}") };
    (resident - of_files) * 4096
}

/// In a process of its own, whose memory is this test's alone.
#[test]
fn the_memory_of_a_deep_call_is_given_back() {
    if common::memory_is_the_sanitizers() {
        return;
    }
    const DEEP: usize = 64;
    const BYTES: usize = 100 * 1024;
    if is_child() {
        return one_worker().run(|| {
            let before = resident_bytes();
            let deep = || {
                use_stack(BYTES);
                fiber::yield_now();
            };
            let strands: Vec<_> = (0..DEEP).map(|_| fiber::spawn(deep)).collect();
            fiber::yield_now();
            assert!(resident_bytes() >= before + DEEP * BYTES);
            strands.into_iter().for_each(|strand| strand.join().unwrap());
            let start = Instant::now();
            while resident_bytes() > before + DEEP * BYTES / 4 {
                assert!(start.elapsed() < Duration::from_secs(20), "{} stay", resident_bytes());
                fiber::sleep(Duration::from_millis(60));
            }
        });
    }
    assert_success(&child("the_memory_of_a_deep_call_is_given_back"));
}

#[test]
fn giving_memory_back_makes_no_timer_late() {
    let lateness = || {
        fiber::scope(|scope| (0..10_000).for_each(|_| drop(scope.spawn(fiber::yield_now))));
        // The worker takes 50 ms without work for a sign that it may give back thousands of stacks.
        let deadline = Instant::now() + Duration::from_millis(51);
        fiber::sleep_until(deadline.into());
        deadline.elapsed()
    };
    // The best of some: others run on this machine, too.
    let best = one_worker().run(|| (0..5).map(|_| lateness()).min());
    assert!(best < Some(Duration::from_millis(4)), "{best:?} late");
}

/// Closures that run one after another on one stack count as switches do.
#[test]
fn closures_that_spawn_one_another_keep_no_timer_waiting() {
    fn chain(stop: &Arc<AtomicBool>, links: u64) {
        assert!(links < 100_000_000, "a timer of 1 ms has not fired");
        if !stop.load(Ordering::Relaxed) {
            let stop = Arc::clone(stop);
            drop(fiber::spawn(move || chain(&stop, links + 1)));
        }
    }
    one_worker().run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        drop(fiber::spawn(move || chain(&theirs, 0)));
        fiber::sleep(Duration::from_millis(1));
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_stack_is_used_again_when_its_fiber_has_ended() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            for _ in 0..500 {
                // Local, and it suspends: it does not run on the stack of the one before.
                fiber::spawn_local(fiber::yield_now).join().unwrap();
            }
            let stacks = ramie::metrics::metrics().worker.stacks;
            assert!(stacks < 20, "{stacks} stacks for two fibers at a time");
        });
    });
}
