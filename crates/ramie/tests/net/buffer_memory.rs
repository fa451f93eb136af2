//! Memory of the driver's own buffers: it goes back when they are idle, and where there is none,
//! the receive fails and not the process.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Write},
    time::Duration,
};

use ramie::{fiber, io::Lease};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::{assert_success, child, is_child, on_each, tcp_pair, wait_until};

/// Memory of this process in bytes: its addresses, and its resident part.
fn memory() -> [u64; 2] {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let mut pages = pages.split(' ').map(|pages| pages.parse::<u64>().unwrap());
    [pages.next().unwrap(), pages.next().unwrap()].map(|pages| pages * 4096)
}

const PART: usize = 16 << 10;

/// Waits until the watchdog's thread has slept twice. By then it has all memory that it needs to
/// start, without which the process would abort.
fn await_watchdog() {
    let has_slept = |task: std::path::PathBuf| {
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        let value = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        value("Name:") == Some("ramie-watchdog")
            && value("voluntary_ctxt_switches:")
                .is_some_and(|count| count.parse::<u64>().unwrap() > 1)
    };
    let tasks = || std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    wait_until(|| tasks().any(has_slept));
}

#[test]
fn it_goes_back_when_the_buffers_are_idle() {
    const SUM: usize = 64 << 20;
    if !is_child() {
        return assert_success(&child("it_goes_back_when_the_buffers_are_idle"));
    }
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (mut client, server) = tcp_pair();
            let mut received = server.recv_each();
            client.write_all(&[1; PART]).unwrap();
            let mut kept: Vec<Lease> = vec![received.next().unwrap().unwrap()];
            let [_, before] = memory();
            // Allocations beside them that stay are no reason to keep their pages.
            let mut beside: Vec<Box<[u8]>> = Vec::new();
            let mut sum = kept[0].len();
            let mut sent = PART;
            while sum < SUM {
                while sent <= sum {
                    client.write_all(&[1; PART]).unwrap();
                    sent += PART;
                }
                kept.push(received.next().unwrap().unwrap());
                sum += kept.last().unwrap().len();
                beside.push(vec![1; 200].into());
            }
            let [_, during] = memory();
            assert!(during >= before + SUM as u64 / 2, "the leases hold {} bytes", during - before);
            drop(kept);
            // The driver frees them once it has been idle for a while.
            let limit = std::time::Instant::now() + Duration::from_secs(5);
            while memory()[1] > before + (16 << 20) {
                let [_, after] = memory();
                assert!(std::time::Instant::now() < limit, "{before}, {during}, {after} bytes");
                fiber::sleep(Duration::from_millis(100));
            }
            drop(beside);
        });
    });
}

#[test]
fn a_buffer_that_cannot_be_had_is_an_error_of_the_receive() {
    if !is_child() {
        return assert_success(&child("a_buffer_that_cannot_be_had_is_an_error_of_the_receive"));
    }
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (mut client, server) = tcp_pair();
            let mut received = server.recv_each();
            let mut number = 0_u8;
            let mut send = || {
                client.write_all(&[number; PART]).unwrap();
                number = number.wrapping_add(1);
            };
            send();
            let mut kept: VecDeque<Lease> = VecDeque::with_capacity(10_000);
            kept.push_back(received.next().unwrap().unwrap());
            await_watchdog();
            let plenty = getrlimit(Resource::As);
            let room = Some(memory()[0] + (1 << 20));
            setrlimit(Resource::As, Rlimit { current: room, maximum: plenty.maximum }).unwrap();
            let error = loop {
                send();
                match received.next().unwrap() {
                    Ok(lease) => kept.push_back(lease),
                    Err(error) => break error,
                }
                assert!(kept.len() < 10_000, "there is no end of memory");
            };
            setrlimit(Resource::As, plenty).unwrap();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
            // The bytes are where they were.
            let mut received = server.recv_each();
            let mut leases = 0;
            for expected in 0..number {
                let mut left = PART;
                while left > 0 {
                    let mut lease = match kept.pop_front() {
                        Some(lease) => lease,
                        None => received.next().unwrap().unwrap(),
                    };
                    let count = left.min(lease.len());
                    assert!(lease[..count].iter().all(|byte| *byte == expected), "{leases}");
                    lease.advance(count);
                    left -= count;
                    leases += 1;
                    if !lease.is_empty() {
                        kept.push_front(lease);
                    }
                }
            }
        });
    });
}
