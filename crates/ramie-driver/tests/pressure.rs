//! More than the queues hold, and signals all the while.
//!
//! A program of its own, because its handler of a signal is the process's.
mod support;

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ramie_driver::{
    Choice, Config, Driver, Feature, FeatureSet, IoVec, MessageHeader, Op, OpFrame,
    SockAddrStorage, Wait, sys,
};
use support::{PATIENCE, both_sized, cancel, finish, submit};

fn tiny() -> Config {
    Config { entries: 4, cq_entries: 16, ..Config::small() }
}

#[test]
fn sq_full() {
    both_sized(&tiny(), |driver| {
        let frames: Vec<_> = (0..1000).map(|_| OpFrame::new(Op::Nop)).collect();
        let in_flight = frames.iter().filter(|frame| submit(driver, frame)).count();
        let mut popped = 0;
        while popped < in_flight {
            driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
            while driver.pop_complete().is_some() {
                popped += 1;
            }
        }
        assert!(frames.iter().all(|frame| frame.is_complete() && frame.result() == 0));
    });
}

/// As many polls in flight as `count` on a small completion queue; all fire at once.
fn polls_come_through_whole(config: &Config, count: usize) {
    both_sized(config, |driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let poll = Op::Poll { fd: ours.as_raw_fd(), events: sys::POLL_IN };
        let frames: Vec<_> = (0..count).map(|_| OpFrame::new(poll)).collect();
        for frame in &frames {
            assert!(submit(driver, frame));
        }
        driver.turn(Wait::Never).unwrap();
        assert_eq!(driver.in_flight(), count);
        theirs.write_all(b"x").unwrap();
        let started = Instant::now();
        let mut popped = 0;
        while popped < count {
            assert!(started.elapsed() < PATIENCE, "{popped} of {count}");
            driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
            while driver.pop_complete().is_some() {
                popped += 1;
            }
        }
        assert!(frames.iter().all(|frame| frame.result() == sys::POLL_IN as i32));
    });
}

#[test]
fn a_hundred_thousand_ops_in_flight_on_a_small_cq() {
    polls_come_through_whole(&Config { cq_entries: 1024, ..Config::default() }, 100_000);
}

#[test]
fn cq_overflow_without_deferred_completions() {
    let masked = FeatureSet::EMPTY.with(Feature::DeferTaskrun);
    polls_come_through_whole(&Config { masked, ..tiny() }, 5_000);
    let masked = masked.with(Feature::TaskrunFlag);
    polls_come_through_whole(&Config { masked, ..tiny() }, 5_000);
}

/// The kernel keeps back completions that do not fit into the completion queue: a driver that
/// ignores that would not ask for it before it waits, or would believe that there is nothing to do.
#[test]
fn completions_that_do_not_fit_come_by_one_turn_that_does_not_wait() {
    const COUNT: usize = 5_000;
    if !support::has_ring() {
        return;
    }
    let masked = FeatureSet::EMPTY.with(Feature::DeferTaskrun);
    for masked in [masked, masked.with(Feature::TaskrunFlag)] {
        let config = Config { masked, ..tiny() };
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let poll = Op::Poll { fd: ours.as_raw_fd(), events: sys::POLL_IN };
        let frames: Vec<_> = (0..COUNT).map(|_| OpFrame::new(poll)).collect();
        // Dropped before the frames, also when an assertion fails.
        let mut driver = Driver::open(Choice::Uring, &config).unwrap();
        assert!(frames.iter().all(|frame| submit(&mut driver, frame)));
        driver.turn(Wait::Never).unwrap();
        assert!(driver.pop_complete().is_none() && !driver.needs_turn());
        theirs.write_all(b"x").unwrap();
        // Reads off one queue's worth, so that only the kernel knows of the others.
        assert!(driver.needs_turn());
        driver.turn(Wait::Never).unwrap();
        let popped = std::iter::from_fn(|| driver.pop_complete()).count();
        assert_eq!(popped, COUNT, "the rest is kept back by the kernel");
        assert!(!driver.needs_turn());
    }
}

/// The kernel defers the work of a completion until the driver enters it.
#[test]
fn an_op_that_became_ready_needs_a_turn() {
    both_sized(&Config::small(), |driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let frame = OpFrame::new(Op::Poll { fd: ours.as_raw_fd(), events: sys::POLL_IN });
        assert!(submit(driver, &frame));
        driver.turn(Wait::Never).unwrap();
        theirs.write_all(b"x").unwrap();
        // Where another thread submits, it may not have done so yet.
        let started = Instant::now();
        while !driver.needs_turn() {
            assert!(started.elapsed() < PATIENCE, "the driver asks for no turn");
            thread::yield_now();
        }
        assert_eq!(finish(driver, &frame), sys::POLL_IN as i32);
    });
}

#[test]
fn twenty_thousand_are_cancelled_by_a_drain() {
    both_sized(&Config { cq_entries: 1024, ..Config::default() }, |driver| {
        let pairs: Vec<_> = (0..200).map(|_| UnixStream::pair().unwrap()).collect();
        let frames: Vec<_> = (0..20_000)
            .map(|at| {
                let fd = pairs[at % pairs.len()].0.as_raw_fd();
                OpFrame::new(Op::Poll { fd, events: sys::POLL_IN })
            })
            .collect();
        for frame in &frames {
            assert!(submit(driver, frame));
        }
        driver.drain();
        let mut popped = 0;
        while driver.pop_complete().is_some() {
            popped += 1;
        }
        assert_eq!(popped, frames.len());
        assert!(frames.iter().all(|frame| frame.result() == -libc::ECANCELED));
    });
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Installs a handler without SA_RESTART, so that every call is interrupted.
fn install_handler() {
    let handler: extern "C" fn(libc::c_int) = count_signal;
    // SAFETY: all zero is an empty mask and no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    // SAFETY: the handler only adds to an atomic.
    let installed = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
    assert_eq!(installed, 0);
}

#[test]
fn eintr_storm() {
    install_handler();
    both_sized(&Config::small(), |driver| {
        // SAFETY: no preconditions.
        let owner = unsafe { libc::pthread_self() };
        let before = SIGNALS.load(Ordering::Relaxed);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // SAFETY: the owner outlives the scope.
                    unsafe { libc::pthread_kill(owner, libc::SIGUSR1) };
                    thread::yield_now();
                }
            });
            // Also when an assertion fails: the scope waits for the storm.
            let _stop = Stop(&stop);
            let started = Instant::now();
            let mut rounds = 0;
            while rounds < 200 || SIGNALS.load(Ordering::Relaxed) < before + 200 {
                assert!(started.elapsed() < PATIENCE, "{rounds} rounds");
                rounds += 1;
                let (ours, mut theirs) = UnixStream::pair().unwrap();
                let mut buf = [0u8; 4];
                let (fd, len) = (ours.as_raw_fd(), 4);
                let receive = Op::Recv { fd, buf: buf.as_mut_ptr(), len, flags: 0 };
                let frame = OpFrame::new(receive);
                assert!(submit(driver, &frame));
                driver.turn(Wait::Until(Some(Duration::from_micros(100)))).unwrap();
                if rounds % 2 == 0 {
                    theirs.write_all(b"data").unwrap();
                    assert_eq!(finish(driver, &frame), 4);
                } else {
                    cancel(driver, &frame);
                    assert_eq!(finish(driver, &frame), -libc::ECANCELED);
                }
            }
        });
    });
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The space of the sender's own socket shows as ready though the peer's queue is full, so the
/// write is ready in vain, and its registration rests.
#[test]
fn a_write_that_rests_is_not_forgotten_for_a_read_of_the_same_socket() {
    let address = |name: &str| {
        let name = format!("ramie-{name}-{}", std::process::id());
        net::SocketAddr::from_abstract_name(name).unwrap()
    };
    let ours = UnixDatagram::bind_addr(&address("sender")).unwrap();
    let peer = UnixDatagram::bind_addr(&address("peer")).unwrap();
    let others = UnixDatagram::unbound().unwrap();
    for socket in [&peer, &others] {
        socket.set_nonblocking(true).unwrap();
    }
    while others.send_to_addr(b"full", &address("peer")).is_ok() {}

    let mut driver = Driver::open(Choice::Poll, &Config::small()).unwrap();
    let mut bytes = *b"hello";
    let mut part = IoVec { base: bytes.as_mut_ptr(), len: bytes.len() };
    let (mut to, to_len) = SockAddrStorage::from_unix(&address("peer"));
    let mut message = MessageHeader::vectored(&raw mut part, 1);
    (message.name, message.name_len) = (&raw mut to, to_len);
    let fd = ours.as_raw_fd();
    let write = OpFrame::new(Op::SendMessage { fd, message: &raw const message, flags: 0 });
    assert!(submit(&mut driver, &write));
    // It fires in vain until it rests: then a turn lasts as long as it may.
    let lasts = |driver: &mut Driver| {
        let started = Instant::now();
        driver.turn(Wait::Until(Some(Duration::from_millis(20)))).unwrap();
        started.elapsed() >= Duration::from_millis(4)
    };
    while !lasts(&mut driver) {}
    // And once more, so that the read comes while it rests.
    driver.turn(Wait::Never).unwrap();
    let mut buffer = [0; 16];
    let (buf, len) = (buffer.as_mut_ptr(), 16);
    let read = OpFrame::new(Op::Recv { fd, buf, len, flags: 0 });
    assert!(submit(&mut driver, &read));
    let mut taken = [0; 16];
    while peer.recv(&mut taken).is_ok() {}
    assert_eq!(finish(&mut driver, &write), 5);
    assert_eq!(peer.recv(&mut taken).unwrap(), 5);
    cancel(&mut driver, &read);
    assert_eq!(finish(&mut driver, &read), -libc::ECANCELED);
}
