//! Connections for several workers: a listener for each, or one that deals them out; and fibers
//! that are placed on a worker.

use std::{
    collections::BTreeSet,
    io::{self, Read, Write},
    net::TcpStream as StdStream,
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::common;
use ramie::{
    AbandonedFibers, Driver, Runtime, Strands,
    fiber::{self, Builder, Place},
    net::{TcpListener, TcpStream},
    sync::Event,
};

/// Each kind of runtime there is, with this many workers.
fn each_kind(workers: usize, f: impl Fn(&Runtime)) {
    for driver in [Driver::Auto, Driver::Poll] {
        for strands in [Strands::Fibers, Strands::Threads] {
            let builder = Runtime::builder().driver(driver).strands(strands);
            f(&builder.workers(workers).build().unwrap());
        }
    }
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        stream.write_all(&byte)?;
    }
    Ok(())
}

/// Connects so many times at once and has a byte echoed on each.
fn visit(address: std::net::SocketAddr, count: u8) {
    let mut streams: Vec<_> = (0..count).map(|_| StdStream::connect(address).unwrap()).collect();
    for (n, stream) in streams.iter_mut().enumerate() {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(&[n as u8]).unwrap();
    }
    for (n, stream) in streams.iter_mut().enumerate() {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [n as u8]);
    }
}

#[test]
fn each_worker_accepts_its_own_connections() {
    for workers in [1, 2, 3] {
        each_kind(workers, |runtime| {
            let accepted: Vec<_> = (0..workers).map(|_| AtomicUsize::new(0)).collect();
            runtime.run(|| {
                let listeners = TcpListener::bind_per_worker("127.0.0.1:0").unwrap();
                assert_eq!(listeners.len(), fiber::workers());
                let address = listeners[0].local_addr().unwrap();
                let visit = move || visit(address, 60);
                let client = fiber::spawn(move || ramie::blocking(visit));
                let left = AtomicUsize::new(60);
                fiber::on_each_worker(|worker| {
                    let listener = &listeners[worker];
                    assert_eq!(listener.local_addr().unwrap(), address);
                    listener.set_nonblocking(true).unwrap();
                    while left.load(Ordering::SeqCst) > 0 {
                        let Ok((stream, _)) = listener.accept() else {
                            fiber::sleep(Duration::from_millis(1));
                            continue;
                        };
                        left.fetch_sub(1, Ordering::SeqCst);
                        accepted[worker].fetch_add(1, Ordering::SeqCst);
                        let home = fiber::worker();
                        fiber::spawn_local(move || {
                            assert_eq!(fiber::worker(), home);
                            echo(stream)
                        });
                    }
                });
                client.join().unwrap();
            });
            let accepted: Vec<_> = accepted.into_iter().map(AtomicUsize::into_inner).collect();
            assert_eq!(accepted.iter().sum::<usize>(), 60);
            // By a hash: that one of three gets none of sixty has a chance of 10^-10.
            let workers = runtime.run(fiber::workers);
            assert!(accepted[..workers].iter().all(|&count| count > 0), "{accepted:?}");
        });
    }
}

#[test]
fn one_listener_deals_connections_out_to_the_least_loaded() {
    each_kind(2, |runtime| {
        let homes = runtime.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let client = thread::spawn(move || visit(address, 40));
            let deal = || {
                let (stream, _) = listener.accept().unwrap();
                let serve = move || {
                    let home = fiber::worker();
                    echo(stream).unwrap();
                    home
                };
                Builder::new().on(Place::LeastLoaded).spawn(serve).unwrap()
            };
            let fibers: Vec<_> = (0..40).map(|_| deal()).collect();
            let homes: Vec<_> = fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect();
            client.join().unwrap();
            homes
        });
        if runtime.run(fiber::workers) == 2 {
            // All forty were open at once; the fiber that accepts is one more, of worker 0.
            let here = homes.iter().filter(|home| **home == Some(0)).count();
            assert!((19..=21).contains(&here), "{here} of 40 on worker 0");
        }
    });
}

#[test]
fn an_address_in_use_is_refused() {
    each_kind(2, |runtime| {
        runtime.run(|| {
            let listeners = TcpListener::bind_per_worker("127.0.0.1:0").unwrap();
            let address = listeners[0].local_addr().unwrap();
            for again in [
                TcpListener::bind_per_worker(address).map(drop),
                TcpListener::bind(address).map(drop),
            ] {
                assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
            }
            drop(listeners);
            TcpListener::bind_per_worker(address).unwrap();
        });
    });
}

#[test]
fn a_fiber_runs_where_it_was_placed() {
    common::on_each(&[1, 3], |runtime| {
        runtime.run(|| {
            let workers = fiber::workers();
            assert_eq!(workers, runtime.workers());
            for index in 0..workers {
                let placed = || Builder::new().on(Place::Worker(index));
                let there = placed().name("placed".into()).spawn(|| {
                    fiber::yield_now();
                    let nested = fiber::spawn_local(fiber::worker).join().unwrap();
                    (fiber::worker(), nested)
                });
                assert_eq!(there.unwrap().join().unwrap(), (Some(index), Some(index)));
            }
            let error = Builder::new().on(Place::Worker(workers)).spawn(|| ()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&format!("this runtime has {workers}")), "{error}");
        });
    });
    assert_eq!((fiber::worker(), fiber::workers()), (None, 1));
    let outside = Builder::new().on(Place::Worker(7)).spawn(|| 7).unwrap();
    assert_eq!(outside.join().unwrap(), 7);
}

#[test]
fn a_fiber_on_each_worker_borrows_and_all_run_at_once() {
    common::on_each(&[1, 4], |runtime| {
        let workers = runtime.workers();
        // It stops each worker's thread until all are there.
        let meeting = Barrier::new(workers);
        let homes = runtime.run(|| {
            fiber::on_each_worker(|index| {
                meeting.wait();
                assert_eq!(fiber::worker(), Some(index));
                index
            })
        });
        assert_eq!(homes, (0..workers).collect::<Vec<_>>());
    });
    let panicked = common::panic_text(|| {
        common::with_workers(2).run(|| fiber::on_each_worker(|index| assert_eq!(index, 0)))
    });
    assert!(panicked.contains("assertion"), "{panicked}");
}

/// Many placed at once, before any has started, are spread evenly.
#[test]
fn closures_on_their_way_count_as_load() {
    common::on_each(&[2], |runtime| {
        runtime.run(|| {
            let go = Event::new();
            let homes: Vec<_> = fiber::scope(|s| {
                let wait = || {
                    go.wait().unwrap();
                    fiber::worker().unwrap()
                };
                let place = || Builder::new().on(Place::LeastLoaded);
                let fibers: Vec<_> =
                    (0..1000).map(|_| place().spawn_scoped(s, wait).unwrap()).collect();
                go.set();
                fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect()
            });
            let here = homes.iter().filter(|home| **home == 0).count();
            assert!((450..=550).contains(&here), "{here} of 1000 on worker 0");
        });
    });
}

/// Fibers that are placed while the runtime gives up its fibers end with them, and trouble no
/// later runtime that gets the same memory.
#[test]
fn fibers_that_are_placed_at_the_end_are_abandoned_too() {
    for _ in 0..20 {
        let given_up = std::sync::Arc::new(AtomicUsize::new(0));
        let theirs = std::sync::Arc::clone(&given_up);
        let count = move |fibers: &AbandonedFibers| {
            theirs.fetch_add(fibers.count(), Ordering::SeqCst);
        };
        let builder = Runtime::builder().workers(3).grace(Duration::from_millis(2));
        let runtime = builder.on_abandoned(count).build().unwrap();
        runtime.run(|| {
            for from in 0..3 {
                let send = move || {
                    loop {
                        for to in 0..3 {
                            let place = Builder::new().on(Place::Worker(to));
                            drop(place.spawn(fiber::yield_now).unwrap());
                        }
                        fiber::yield_now();
                    }
                };
                Builder::new().on(Place::Worker(from)).spawn(send).unwrap();
            }
        });
        assert!(given_up.load(Ordering::SeqCst) >= 3);
        let homes = common::with_workers(3).run(|| fiber::on_each_worker(|index| index));
        assert_eq!(homes.into_iter().collect::<BTreeSet<_>>().len(), 3);
    }
}
