//! A hand-over between two threads by means of the kernel: a futex, an eventfd that a ring reads,
//! or a message from ring to ring. The value lies in memory, and the kernel only wakes the
//! receiver.
#![allow(unsafe_code)]

use std::{
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::{
        Barrier,
        atomic::{AtomicI32, AtomicU32, Ordering},
    },
    thread,
};

use io_uring::{IoUring, opcode, types::Fd};
use rustix::{
    event::{EventfdFlags, eventfd},
    thread::futex,
};

use super::{RoundTrips, ping};
use crate::process;

/// Runs the asking and the answering thread, each on its CPU.
fn on_two(
    plan: RoundTrips,
    cpus: [usize; 2],
    ask: impl FnOnce() -> Vec<f64> + Send,
    answer: impl FnOnce(u32) + Send,
) -> Vec<f64> {
    thread::scope(|s| {
        s.spawn(move || {
            process::pin_to(cpus[1]);
            answer(plan.times);
        });
        let asks = s.spawn(move || {
            process::pin_to(cpus[0]);
            ask()
        });
        asks.join().expect("no panic")
    })
}

/// A word that holds the number of the last value.
#[derive(Default)]
struct Word(AtomicU32);

impl Word {
    fn put(&self, value: u32) {
        self.0.store(value, Ordering::Release);
        futex::wake(&self.0, futex::Flags::PRIVATE, 1).expect("a word to wake at");
    }

    fn wait_for(&self, value: u32) {
        loop {
            let now = self.0.load(Ordering::Acquire);
            if now == value {
                return;
            }
            // The value has changed, or a signal interrupted the wait: look again.
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, now, None);
        }
    }
}

pub fn by_futex(plan: RoundTrips, cpus: [usize; 2]) -> Vec<f64> {
    let (there, back) = (Word::default(), Word::default());
    let mut value = 0;
    let ask = || {
        ping(plan, || {
            value += 1;
            there.put(value);
            back.wait_for(value);
        })
    };
    let answer = |times| {
        for value in 1..=times {
            there.wait_for(value);
            back.put(value);
        }
    };
    on_two(plan, cpus, ask, answer)
}

/// A ring with the flags of Ramie's.
fn ring() -> IoUring {
    let mut builder = IoUring::builder();
    builder.setup_submit_all().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    builder.build(64).expect("a ring")
}

/// One end, which its eventfd wakes.
struct Eventful<'a> {
    ring: IoUring,
    own: &'a OwnedFd,
    other: &'a OwnedFd,
    count: Box<u64>,
}

impl<'a> Eventful<'a> {
    fn new(own: &'a OwnedFd, other: &'a OwnedFd) -> Self {
        let mut end = Eventful { ring: ring(), own, other, count: Box::new(0) };
        end.read();
        end
    }

    fn read(&mut self) {
        let buffer = (&raw mut *self.count).cast();
        let entry = opcode::Read::new(Fd(self.own.as_raw_fd()), buffer, 8).build();
        // SAFETY: the count is boxed, and a read that is left over keeps its ring and the box until
        // the process ends.
        unsafe { self.ring.submission().push(&entry) }.expect("an empty queue");
    }

    fn wake_other(&self) {
        rustix::io::write(self.other, &1_u64.to_ne_bytes()).expect("an eventfd");
    }

    fn wait(&mut self) {
        self.ring.submit_and_wait(1).expect("the ring's own thread");
        assert_eq!(self.ring.completion().next().expect("one").result(), 8);
        self.read();
    }
}

pub fn by_eventfd(plan: RoundTrips, cpus: [usize; 2]) -> Vec<f64> {
    let fds = [0, 1].map(|_| eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
    let [first, second] = &fds;
    let ask = || {
        let mut end = Eventful::new(first, second);
        let times = ping(plan, || {
            end.wake_other();
            end.wait();
        });
        std::mem::forget(end);
        times
    };
    let answer = |times| {
        let mut end = Eventful::new(second, first);
        for _ in 0..times {
            end.wait();
            end.wake_other();
        }
        std::mem::forget(end);
    };
    on_two(plan, cpus, ask, answer)
}

/// Marks the completion of a message that was sent.
const SENT: u64 = 1;
const RECEIVED: u64 = 2;

fn send(ring: &mut IoUring, other: RawFd) {
    let entry = opcode::MsgRingData::new(Fd(other), 0, RECEIVED, None).build().user_data(SENT);
    // SAFETY: a message points to nothing.
    unsafe { ring.submission().push(&entry) }.expect("an empty queue");
    ring.submit().expect("the ring's own thread");
}

fn wait(ring: &mut IoUring) {
    loop {
        while let Some(entry) = ring.completion().next() {
            assert!(entry.result() >= 0, "the other ring is there");
            if entry.user_data() == RECEIVED {
                return;
            }
        }
        ring.submit_and_wait(1).expect("the ring's own thread");
    }
}

pub fn by_message(plan: RoundTrips, cpus: [usize; 2]) -> Vec<f64> {
    let fds = [0, 1].map(|_| AtomicI32::new(-1));
    let both_are_there = Barrier::new(2);
    let open = |own: usize| {
        let ring = ring();
        fds[own].store(ring.as_raw_fd(), Ordering::Release);
        both_are_there.wait();
        (ring, fds[1 - own].load(Ordering::Acquire))
    };
    let ask = || {
        let (mut ring, other) = open(0);
        let times = ping(plan, || {
            send(&mut ring, other);
            wait(&mut ring);
        });
        both_are_there.wait();
        times
    };
    let answer = |times| {
        let (mut ring, other) = open(1);
        for _ in 0..times {
            wait(&mut ring);
            send(&mut ring, other);
        }
        both_are_there.wait();
    };
    on_two(plan, cpus, ask, answer)
}
