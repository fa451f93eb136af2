//! The figures of a runtime: each follows the things that it counts, and comes back.

use std::{io::Write, time::Duration};

use crate::common::{on_each, wait_until};
use ramie::{
    cancel, fiber, io,
    metrics::metrics,
    net::{TcpListener, TcpStream},
    sync::Event,
};

#[test]
fn strands_are_counted_from_spawn_to_end() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            assert_eq!((metrics().workers, metrics().alive()), (runtime.workers(), 1));
            let event = Event::new();
            fiber::scope(|s| {
                (0..100).for_each(|_| _ = s.spawn(|| event.wait()));
                let before = metrics();
                assert_eq!((before.alive(), before.spawned), (101, 101));
                wait_until(|| metrics().unstarted() == 0);
                let now = metrics();
                assert_eq!((now.started, now.ended), (101, 0));
                assert!(now.stacks.in_use >= 101 && now.at >= before.at);
                let of_each = fiber::on_each_worker(|_| metrics().worker);
                // With the fiber that asks.
                let sum: usize = of_each.iter().map(|worker| worker.fibers - 1).sum();
                assert_eq!(sum, 101);
                assert!(of_each.iter().all(|worker| worker.stacks >= worker.fibers));
                event.set();
            });
            wait_until(|| metrics().alive() == 1);
            assert_eq!(metrics().started, 1);
        });
    });
}

#[test]
fn the_length_of_a_run_queue_is_the_number_of_runnable_fibers() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            assert_eq!(metrics().worker.run_queue, 0);
            let fresh: Vec<_> = (0..70).map(|_| fiber::spawn_local(fiber::yield_now)).collect();
            assert_eq!(metrics().worker.run_queue, 70);
            // All have yielded, and are queued again.
            fiber::yield_now();
            assert_eq!(metrics().worker.run_queue, 70);
            fresh.into_iter().for_each(|fiber| fiber.join().unwrap());
            assert_eq!(metrics().worker.run_queue, 0);
        });
    });
}

#[test]
fn ops_timers_and_buffers_are_counted_by_their_worker() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let before = metrics().worker;
            let (read, write) = io::pipe().unwrap();
            let reader = fiber::spawn_local(move || io::read_to_string(read).unwrap());
            let sleeper = fiber::spawn_local(|| {
                let hour = Duration::from_secs(3600);
                let (sender, receiver) = ramie::channel::bounded::<()>(0);
                cancel::scope(|scope| {
                    let handle = scope.handle();
                    let ends = fiber::spawn_local(move || {
                        _ = receiver.recv().map_err(|_| handle.cancel())
                    });
                    drop(fiber::spawn_local(move || drop(sender)));
                    fiber::sleep(hour);
                    ends.join().unwrap();
                });
            });
            fiber::yield_now();
            let during = metrics().worker;
            assert_eq!(during.ops_in_flight, before.ops_in_flight + 1);
            assert!(during.timers > before.timers);
            drop(write);
            assert_eq!(reader.join().unwrap(), "");
            sleeper.join().unwrap();
            assert_eq!(metrics().worker.ops_in_flight, before.ops_in_flight);
            client.write_all(b"x").unwrap();
            let lease = server.recv_each().next().unwrap().unwrap();
            assert_eq!(&lease[..], b"x");
            assert!(metrics().worker.buffer_bytes >= 4096);
        });
    });
}

#[test]
fn outside_of_a_runtime_there_are_few_metrics() {
    std::thread::spawn(|| {
        let outside = metrics();
        assert_eq!((outside.workers, outside.alive(), outside.started), (1, 0, 0));
        let local = fiber::spawn_local(|| metrics().worker.fibers);
        assert_eq!(metrics().alive(), 1);
        assert_eq!(local.join().unwrap(), 1);
        assert_eq!(metrics().alive(), 0);
    })
    .join()
    .unwrap();
}
