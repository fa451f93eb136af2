//! How fibers that are spawned in a row spread over the workers.
//!
//! Fibers stay where they start, so their first worker counts, and the fibers here stay. If another
//! worker has nothing to do, each of two gets a third of them at least. It need not when the system
//! stops one worker's thread for more than a millisecond just then: for the other that is a fiber
//! that does not suspend, whose closures it is to start. So most bursts must do.
//! For the same reason this is a program of its own: other tests would keep the processors busy.

mod common;

use std::{
    collections::VecDeque,
    fmt::Debug,
    io::{Read, Write},
    net::TcpStream as StdStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use common::{on_each, wait_until, with_workers};
use ramie::{
    AbandonedFibers, Runtime,
    fiber::{self, JoinHandle},
    io::PipeReader,
    net::TcpListener,
    sync::Event,
};

const FIBERS: usize = 96;
const BURSTS: usize = 20;
/// On a busy machine, one burst may take some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes bursts until most of the last ones have been good; fails after some seconds. A machine
/// that gives its processors to others for a while spoils all bursts of that while, so a fixed
/// number of bursts would say more about the machine than about the runtime.
fn most_are_good<T: Debug>(mut burst: impl FnMut() -> T, is_good: impl Fn(&T) -> bool) {
    let mut last = VecDeque::with_capacity(BURSTS);
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        last.push_back(burst());
        if last.iter().filter(|burst| is_good(burst)).count() > BURSTS / 2 {
            return;
        }
        if last.len() == BURSTS {
            last.pop_front();
        }
    }
    panic!("the last bursts within {PATIENCE:?} were {last:?}");
}

/// Makes bursts until most have been spread well over two workers.
fn most_are_spread(mut burst: impl FnMut() -> Vec<usize>) {
    let elsewhere_of_all = || {
        let homes = burst();
        (homes.iter().filter(|home| **home == 1).count(), homes.len())
    };
    most_are_good(elsewhere_of_all, |&(elsewhere, all)| {
        (all / 3..=all - all / 3).contains(&elsewhere)
    });
}

fn homes(fibers: Vec<JoinHandle<usize>>) -> Vec<usize> {
    fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect()
}

fn home() -> usize {
    fiber::worker().unwrap()
}

/// One that counts itself and stays until it is asked to go.
fn stay(started: &Arc<AtomicUsize>, go: &Arc<Event>) -> impl FnOnce() -> usize + Send + 'static {
    let (started, go) = (Arc::clone(started), Arc::clone(go));
    move || {
        started.fetch_add(1, SeqCst);
        go.wait().unwrap();
        home()
    }
}

/// `between` happens before each spawn, `behind` when all are spawned.
fn burst_of_waiters(between: impl Fn(), behind: impl Fn()) -> Vec<usize> {
    let (started, go) = (Arc::default(), Arc::new(Event::new()));
    let spawn = |_| {
        between();
        fiber::spawn(stay(&started, &go))
    };
    let fibers: Vec<_> = (0..FIBERS).map(spawn).collect();
    behind();
    wait_until(|| started.load(SeqCst) == FIBERS);
    go.set();
    homes(fibers)
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn those_spawned_by_a_fiber_that_then_waits() {
    on_each(&[2], |runtime| {
        runtime.run(|| most_are_spread(|| burst_of_waiters(|| (), || ())));
    });
}

#[test]
fn those_spawned_by_a_fiber_that_computes() {
    let (little, more) = (Duration::from_micros(5), Duration::from_micros(200));
    on_each(&[2], |runtime| {
        runtime.run(|| {
            most_are_spread(|| burst_of_waiters(|| (), || compute(more)));
            most_are_spread(|| burst_of_waiters(|| compute(little), || ()));
        });
    });
}

#[test]
fn those_that_wait_for_io() {
    fn read(mut pipe: PipeReader) -> usize {
        pipe.read_exact(&mut [0]).unwrap();
        home()
    }
    on_each(&[2], |runtime| {
        runtime.run(|| {
            most_are_spread(|| {
                let pipe = || ramie::io::pipe().unwrap();
                let (fibers, writers): (Vec<_>, Vec<_>) = (0..FIBERS)
                    .map(|_| pipe())
                    .map(|(reader, writer)| (fiber::spawn(move || read(reader)), writer))
                    .unzip();
                fiber::sleep(Duration::from_millis(1));
                writers.into_iter().for_each(|mut writer| writer.write_all(b"!").unwrap());
                homes(fibers)
            });
        });
    });
}

/// The two ends of a pipe are spawned one after the other. On two workers they would cost each of
/// them more system calls; and where one worker has more pairs, the other one is done sooner.
#[test]
fn pairs_that_talk_stay_together_in_even_halves() {
    const PAIRS: usize = 48;
    // Parted pairs, and fibers on the other worker.
    let burst = || -> (usize, usize) {
        let fibers = (0..PAIRS).map(|_| {
            let (mut reader, mut writer) = ramie::io::pipe().unwrap();
            let write = move || {
                (0..200).for_each(|_| writer.write_all(&[1; 1024]).unwrap());
                home()
            };
            let read = move || {
                while reader.read(&mut [0; 1024]).unwrap() > 0 {}
                home()
            };
            (fiber::spawn(write), fiber::spawn(read))
        });
        let fibers: Vec<_> = fibers.collect();
        let homes: Vec<_> = fibers
            .into_iter()
            .map(|(one, other)| (one.join().unwrap(), other.join().unwrap()))
            .collect();
        let parted = homes.iter().filter(|(one, other)| one != other).count();
        (parted, homes.iter().map(|(one, other)| one + other).sum())
    };
    on_each(&[2], |runtime| {
        runtime.run(|| {
            let is_good = |&(parted, elsewhere): &(usize, usize)| {
                parted <= 1 && (PAIRS - 6..=PAIRS + 6).contains(&elsewhere)
            };
            most_are_good(burst, is_good);
        });
    });
}

/// With two fibers that always have something to do it is never idle.
#[test]
fn those_spawned_beside_a_worker_that_is_never_idle() {
    on_each(&[2], |runtime| {
        runtime.run(|| {
            most_are_spread(|| {
                let (turns, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
                let take_turns = || {
                    while !is_over.load(SeqCst) {
                        turns.fetch_add(1, SeqCst);
                        fiber::yield_now();
                    }
                };
                fiber::scope(|s| {
                    for _ in 0..2 {
                        let place = fiber::Builder::new().on(fiber::Place::Worker(1));
                        place.spawn_scoped(s, take_turns).unwrap();
                    }
                    // The other worker runs meanwhile; it looks at the outside every 61 turns.
                    let for_turns = || {
                        let end = turns.load(SeqCst) + 10;
                        while turns.load(SeqCst) < end {
                            std::thread::yield_now();
                        }
                    };
                    let homes = burst_of_waiters(for_turns, || ());
                    is_over.store(true, SeqCst);
                    homes
                })
            });
        });
    });
}

#[test]
fn connections_that_one_fiber_accepts() {
    on_each(&[2], |runtime| {
        runtime.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            most_are_spread(|| {
                let connect = move |_| StdStream::connect(address).unwrap();
                let visit = move || drop((0..64).map(connect).collect::<Vec<_>>());
                let (go, started) = (Arc::new(Event::new()), Arc::default());
                let visitors = std::thread::spawn(visit);
                let serve = |_| {
                    let (stream, _) = listener.accept().unwrap();
                    let stay = stay(&started, &go);
                    fiber::spawn(move || {
                        let _stream = stream;
                        stay()
                    })
                };
                let fibers: Vec<_> = (0..64).map(serve).collect();
                wait_until(|| started.load(SeqCst) == 64);
                go.set();
                visitors.join().unwrap();
                homes(fibers)
            });
        });
    });
}

/// However many fibers a worker has, it starts closures behind a fiber that does not suspend.
#[test]
fn nobody_waits_for_a_fiber_that_never_suspends() {
    on_each(&[2, 3], |runtime| {
        runtime.run(|| {
            let (started, go) = (Arc::default(), Arc::new(Event::new()));
            let fibers: Vec<_> = (0..300).map(|_| fiber::spawn(stay(&started, &go))).collect();
            let start = Instant::now();
            while started.load(SeqCst) < 300 {
                assert!(start.elapsed() < Duration::from_secs(60), "{started:?} have started");
                std::thread::yield_now();
            }
            go.set();
            assert!(homes(fibers).into_iter().all(|home| home > 0));
        });
    });
}

#[test]
fn local_ones_stay() {
    on_each(&[2], |runtime| {
        runtime.run(|| {
            let here = home();
            let spawn = || {
                fiber::spawn_local(|| {
                    fiber::sleep(Duration::from_micros(100));
                    home()
                })
            };
            let fibers: Vec<_> = (0..300).map(|_| spawn()).collect();
            assert!(homes(fibers).into_iter().all(|home| home == here));
        });
    });
}

/// Closures that end at once are worked off by all workers, although one of them has many more
/// fibers.
#[test]
fn work_is_shared_regardless_of_the_numbers_of_fibers() {
    on_each(&[2], |runtime| {
        for crowded in 0..2 {
            runtime.run(|| {
                let go = Arc::new(Event::new());
                let place = || fiber::Builder::new().on(fiber::Place::Worker(crowded));
                let crowd: Vec<_> =
                    (0..200).map(|_| place().spawn(stay(&Arc::default(), &go)).unwrap()).collect();
                // Each needs both workers at the same time.
                for _ in 0..50 {
                    let met = AtomicUsize::new(0);
                    let meet = || {
                        met.fetch_add(1, SeqCst);
                        let start = Instant::now();
                        while met.load(SeqCst) < 2 {
                            assert!(start.elapsed() < Duration::from_secs(60), "alone");
                            std::thread::yield_now();
                        }
                    };
                    fiber::scope(|s| {
                        s.spawn(meet);
                        s.spawn(meet);
                    });
                }
                go.set();
                homes(crowd);
            });
        }
    });
}

/// Closures that are handed over while the runtime gives up its fibers are given up, too, each
/// once, and trouble no later runtime that gets the same memory.
#[test]
fn fibers_that_arrive_at_the_end_are_abandoned_too() {
    for _ in 0..20 {
        let (spawned, given_up) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let theirs = Arc::clone(&given_up);
        let count = move |fibers: &AbandonedFibers| {
            theirs.fetch_add(fibers.count(), SeqCst);
        };
        let builder = Runtime::builder().workers(3).grace(Duration::from_millis(2));
        builder.on_abandoned(count).build().unwrap().run(|| {
            let spawned = Arc::clone(&spawned);
            drop(fiber::spawn(move || {
                loop {
                    for _ in 0..30 {
                        spawned.fetch_add(1, SeqCst);
                        drop(fiber::spawn(fiber::park));
                    }
                    fiber::sleep(Duration::from_micros(50));
                }
            }));
        });
        assert_eq!(given_up.load(SeqCst), spawned.load(SeqCst) + 1);
        with_workers(3).run(|| fiber::on_each_worker(|_| ()));
    }
}

/// One that is woken to look for closures may find its own fiber runnable first, and that one may
/// never suspend: then another has to be woken to look.
#[test]
fn a_searcher_that_finds_other_work_wakes_the_next() {
    on_each(&[3], |runtime| {
        runtime.run(|| {
            for _ in 0..50 {
                let started = Arc::new(AtomicUsize::new(0));
                let (mut reader, mut writer) = ramie::io::pipe().unwrap();
                let theirs = Arc::clone(&started);
                let place = fiber::Builder::new().on(fiber::Place::Worker(1));
                let other = place.spawn(move || {
                    reader.read_exact(&mut [0]).unwrap();
                    spin_until_started(&theirs);
                });
                // Meanwhile the others fall asleep.
                fiber::sleep(Duration::from_millis(2));
                let theirs = Arc::clone(&started);
                let closure = fiber::spawn(move || theirs.fetch_add(1, SeqCst));
                writer.write_all(b"!").unwrap();
                spin_until_started(&started);
                closure.join().unwrap();
                other.unwrap().join().unwrap();
            }
        });
    });
}

/// Does not suspend.
fn spin_until_started(started: &AtomicUsize) {
    let start = Instant::now();
    while started.load(SeqCst) == 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "nobody has started it");
        std::thread::yield_now();
    }
}
