//! The state that `run` leaves to the thread that called it: nothing interrupts its later calls.

use std::{
    io::{ErrorKind, Read},
    net::UdpSocket,
    time::{Duration, Instant},
};

use crate::common;
use ramie::{Driver, Runtime, Strands, fiber, io::pipe, net};

/// More than a thread keeps of its rings, so that some are closed.
const ROUNDS: usize = 20;
/// For so long after `run` the kernel is at work on a ring that was closed, as a rule.
const AFTERMATH: Duration = Duration::from_millis(50);

/// Runs with ops in flight to the end, and one that receives again and again.
fn run_with_ops_in_flight(runtime: &Runtime) {
    runtime.run(|| {
        for _ in 0..4 {
            let (mut reader, writer) = pipe().unwrap();
            drop(fiber::spawn(move || {
                let _ = reader.read(&mut [0]);
                drop(writer);
            }));
        }
        drop(fiber::spawn(|| {
            let socket = net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.recv_from_each().next();
        }));
        fiber::sleep(Duration::from_millis(1));
    });
}

fn assert_undisturbed(round: usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let start = Instant::now();
    while start.elapsed() < AFTERMATH {
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let error = socket.recv(&mut [0]).unwrap_err();
        let after = start.elapsed();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "round {round}, {after:?}: {error}");
    }
}

/// Older kernels have no table in which a thread could keep its rings.
#[test]
fn nor_are_they_where_each_ring_is_closed() {
    let test = "calls_of_the_thread_that_called_run_are_not_interrupted";
    let output = common::child_with("true", test, &[("RAMIE_CAPS", "linux-5.15")]);
    common::assert_success(&output);
}

#[test]
fn calls_of_the_thread_that_called_run_are_not_interrupted() {
    for (driver, strands) in [
        (Driver::Uring, Strands::Fibers),
        (Driver::Uring, Strands::Threads),
        (Driver::Poll, Strands::Fibers),
    ] {
        let runtime = Runtime::builder().driver(driver).strands(strands).workers(1);
        let runtime = match runtime.grace(Duration::ZERO).build() {
            Ok(runtime) => runtime,
            Err(error) => {
                common::skipped(format_args!("{driver:?} cannot be had: {error}"));
                continue;
            }
        };
        for round in 0..ROUNDS {
            run_with_ops_in_flight(&runtime);
            assert_undisturbed(round);
        }
    }
}
