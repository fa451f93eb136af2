//! Hazards of io_uring that have no file of their own; each test bears its hazard's name.
//! `docs/hazards.md` lists the tests of the others.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{self, PATIENCE, both, cancel, finish, run, submit};
use ramie_driver::{
    Choice, Config, Driver, Kind, MultishotItem, MultishotOp, NextItem, Op, OpFrame, Profile, Wait,
    ring_totals, sys,
};

const WAIT_FOR_ALL: i32 = libc::MSG_WAITALL;

/// The bytes left in a stream whose other end sends no more.
fn count_rest(mut stream: &UnixStream) -> usize {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    rest.len()
}

/// Whether the kernel counts the bytes of an op with MSG_WAITALL that is cancelled after some of
/// them. Rings do since 6.1; Linux 5.10.262 was seen to forget them.
fn counts_parts(driver: &Driver) -> bool {
    let does = driver.caps().kind == Kind::Poll || support::kernel_is_at_least(6, 1);
    if !does {
        support::skipped("a ring of this kernel forgets the bytes of a cancelled op");
    }
    does
}

/// Asks for the end of a frame that may be complete already.
fn end(driver: &mut Driver, frame: &OpFrame, in_flight: bool) -> i32 {
    if !in_flight {
        return frame.result();
    }
    cancel(driver, frame);
    finish(driver, frame)
}

#[test]
fn cancelled_between_two_chunks_of_a_send() {
    both(|driver| {
        if !counts_parts(driver) {
            return;
        }
        for drained in [0, 1, 3] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let bytes = vec![7; 4 << 20];
            let (fd, len) = (ours.as_raw_fd(), bytes.len() as u32);
            let frame =
                OpFrame::new(Op::Send { fd, buf: bytes.as_ptr(), len, flags: WAIT_FOR_ALL });
            let in_flight = submit(driver, &frame);
            driver.turn(Wait::Never).unwrap();
            let mut arrived = 0;
            for _ in 0..drained {
                arrived += theirs.read(&mut [0; 65536]).unwrap();
                driver.turn(Wait::Never).unwrap();
            }
            let result = end(driver, &frame, in_flight);
            drop(ours);
            arrived += count_rest(&theirs);
            // The result counts exactly the sent bytes.
            let told = if result == -libc::ECANCELED { 0 } else { result };
            assert_eq!(usize::try_from(told).expect("no other error"), arrived);
        }
    });
}

#[test]
fn cancelled_between_two_chunks_of_a_receive() {
    both(|driver| {
        if !counts_parts(driver) {
            return;
        }
        for chunks in 0..3 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut bytes = [0_u8; 64];
            let op = Op::Recv {
                fd: ours.as_raw_fd(),
                buf: bytes.as_mut_ptr(),
                len: 64,
                flags: WAIT_FOR_ALL,
            };
            let frame = OpFrame::new(op);
            let in_flight = submit(driver, &frame);
            driver.turn(Wait::Never).unwrap();
            for _ in 0..chunks {
                theirs.write_all(b"chunk").unwrap();
                driver.turn(Wait::Never).unwrap();
            }
            let result = end(driver, &frame, in_flight);
            drop(theirs);
            let told = if result == -libc::ECANCELED { 0 } else { result };
            let taken = usize::try_from(told).expect("no other error");
            // Nothing is lost: it is in the buffer, or still in the socket.
            assert_eq!(taken + count_rest(&ours), 5 * chunks);
            assert!(b"chunkchunk".starts_with(&bytes[..taken]));
        }
    });
}

/// Numbers of one byte each, from where a stream has come to.
fn put(to: &mut UnixStream, sent: &mut Vec<u8>, count: usize) {
    let bytes: Vec<u8> = (sent.len()..sent.len() + count).map(|at| (at % 251) as u8).collect();
    to.write_all(&bytes).unwrap();
    sent.extend(bytes);
}

/// Every byte is received and counted, or left in the socket, and in order, whether the kernel
/// fills several of its buffers at a time or one.
#[test]
fn cancelled_between_two_chunks_of_a_bundle() {
    both(|driver| {
        for chunks in 0..12 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let (mut sent, mut leases) = (Vec::new(), Vec::new());
            let op = Op::RecvBundle { fd: ours.as_raw_fd(), into: &raw mut leases };
            let frame = OpFrame::new(op);
            let in_flight = submit(driver, &frame);
            if chunks % 2 == 0 {
                driver.turn(Wait::Never).unwrap();
            }
            for _ in 0..chunks {
                put(&mut theirs, &mut sent, 9_999);
            }
            let result = end(driver, &frame, in_flight);
            drop(theirs);
            let taken: usize = leases.iter().map(|lease| lease.len()).sum();
            let errors = [-libc::ECANCELED, -libc::ENOBUFS];
            assert!(result as usize == taken || (taken == 0 && errors.contains(&result)));
            let mut all: Vec<u8> = leases.iter().flat_map(|lease| lease.iter().copied()).collect();
            (&ours).read_to_end(&mut all).unwrap();
            assert!(all == sent, "{chunks} chunks, {result} told");
        }
    });
}

/// The same of a receive that completes again and again, and is stopped among its completions.
#[test]
fn stopped_between_two_chunks_of_a_bundle() {
    both(|driver| {
        for chunks in 0..12 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let inbox = Arc::default();
            let op = MultishotOp::Receive { fd: ours.as_raw_fd() };
            let Some(id) = driver.start_multishot(op, &inbox) else { return };
            let (mut sent, mut all) = (Vec::new(), Vec::new());
            let mut take = |item| match item {
                MultishotItem::Bytes(bytes) => all.extend(bytes.iter().copied()),
                other => panic!("{other:?}"),
            };
            assert!(matches!(driver.next_item(id), NextItem::Pending));
            for chunk in 0..chunks {
                put(&mut theirs, &mut sent, 9_999);
                if chunk % 3 == 2 {
                    driver.turn(Wait::Never).unwrap();
                }
                if chunk == 5
                    && let NextItem::Item(item) = driver.next_item(id)
                {
                    take(item);
                }
            }
            assert!(driver.stop_multishot(id));
            std::iter::from_fn(|| inbox.take_leftover()).for_each(take);
            drop(theirs);
            (&ours).read_to_end(&mut all).unwrap();
            assert!(all == sent, "{chunks} chunks");
        }
    });
}

#[test]
fn short_reads_and_writes() {
    both(|driver| {
        let (mut reader, writer) = std::io::pipe().unwrap();
        // SAFETY: the descriptor is open; a pipe of one page.
        assert!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } >= 4096);
        let bytes = vec![7; 10_000];
        let write = |at: usize| Op::Write {
            fd: writer.as_raw_fd(),
            buf: bytes[at..].as_ptr(),
            len: (bytes.len() - at) as u32,
            offset: u64::MAX,
        };
        // The count may be less than asked for, and the caller asks for the rest again. Before
        // Linux 6.4 the kernel writes to a pipe in a thread that waits until all is written.
        let mut written = 0;
        let read = std::thread::scope(|s| {
            let reads = s.spawn(|| {
                let mut all = vec![0; bytes.len()];
                reader.read_exact(&mut all).map(|()| all)
            });
            while written < bytes.len() {
                let count = run(driver, write(written));
                assert!((1..=bytes.len() as i32).contains(&count), "{count}");
                written += count as usize;
            }
            reads.join().unwrap().unwrap()
        });
        assert_eq!(read, bytes);
        let mut room = [0_u8; 64];
        let (fd, buf) = (reader.as_raw_fd(), room.as_mut_ptr());
        let receive = Op::Read { fd, buf, len: 64, offset: u64::MAX };
        (&writer).write_all(b"few").unwrap();
        assert_eq!(run(driver, receive), 3);
        drop(writer);
        assert_eq!(run(driver, receive), 0);
    });
}

/// A descriptor is closed, and its number given to another file, while an op holds the first.
#[test]
fn fd_reuse_while_an_op_is_in_flight() {
    if !support::has_ring() {
        return;
    }
    let mut driver = Driver::open(Choice::Uring, &Config::default()).unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut bytes = [0_u8; 8];
    let number = ours.as_raw_fd();
    let op = Op::Recv { fd: number, buf: bytes.as_mut_ptr(), len: 8, flags: 0 };
    let frame = OpFrame::new(op);
    assert!(submit(&mut driver, &frame));
    // Now the kernel has the file, and needs the number no more.
    driver.turn(Wait::Never).unwrap();
    let (other, mut stranger) = UnixStream::pair().unwrap();
    // SAFETY: both are open; the first belongs to `ours`, which is forgotten.
    assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), ours.into_raw_fd()) }, number);
    stranger.write_all(b"theirs").unwrap();
    driver.turn(Wait::Never).unwrap();
    assert!(!frame.is_complete(), "it took what came for another file");
    theirs.write_all(b"ours").unwrap();
    assert_eq!(finish(&mut driver, &frame), 4);
    assert_eq!(&bytes[..4], b"ours");
    // SAFETY: `dup2` made it, and nobody else owns it.
    drop(unsafe { <UnixStream as std::os::fd::FromRawFd>::from_raw_fd(number) });
}

#[test]
fn cancel_race_with_connections_that_arrive() {
    both(|driver| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (mut made, mut accepted) = (0, 0);
        for round in 0..50 {
            let fd = listener.as_raw_fd();
            let (addr, addr_len) = (std::ptr::null_mut(), std::ptr::null_mut());
            let frame = OpFrame::new(Op::Accept { fd, addr, addr_len, flags: sys::SOCK_CLOEXEC });
            let in_flight = submit(driver, &frame);
            let connection = (round % 2 == 0).then(|| TcpStream::connect(address).unwrap());
            made += usize::from(connection.is_some());
            let result = end(driver, &frame, in_flight);
            if result >= 0 {
                accepted += 1;
                assert_eq!(run(driver, Op::Close { fd: result }), 0);
            } else {
                assert_eq!(result, -libc::ECANCELED);
            }
        }
        // The others wait still: none has been taken and thrown away.
        listener.set_nonblocking(true).unwrap();
        let left = std::iter::from_fn(|| listener.accept().ok()).count();
        assert_eq!(accepted + left, made);
    });
}

#[test]
fn ebadr_aborts() {
    if !support::has_ring() {
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        &*support::full_name("child_loses_a_completion"),
        "--ignored",
        "--nocapture",
    ]);
    let output = command.output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("lost a completion (EBADR)"), "{text}");
}

/// From now on this is the kernel's answer to whatever this thread enters with.
fn enter_fails_with(errno: i32) {
    calls_fail_with(errno, Vec::new());
}

/// From now on this is the kernel's answer when this thread enters to wait for a completion.
fn wait_fails_with(errno: i32) {
    use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};
    const MIN_COMPLETE: u8 = 2;
    let waits = SeccompCondition::new(MIN_COMPLETE, SeccompCmpArgLen::Dword, SeccompCmpOp::Ge, 1);
    calls_fail_with(errno, vec![SeccompRule::new(vec![waits.unwrap()]).unwrap()]);
}

fn calls_fail_with(errno: i32, rules: Vec<seccompiler::SeccompRule>) {
    use seccompiler::{SeccompAction, SeccompFilter, TargetArch};
    let calls = std::iter::once((libc::SYS_io_uring_enter, rules)).collect();
    let answer = SeccompAction::Errno(errno as u32);
    let here = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, answer, here);
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
#[ignore = "run in a child by ebadr_aborts"]
fn child_loses_a_completion() {
    let mut driver = Driver::open(Choice::Uring, &Config::default()).unwrap();
    enter_fails_with(libc::EBADR);
    let _ = driver.turn(Wait::Until(Some(PATIENCE)));
}

/// A driver waited on if the wake arrived between the refused enter and the read of completions.
#[test]
fn a_wake_that_is_read_because_the_kernel_is_busy_ends_the_wait() {
    if !support::has_ring() {
        return;
    }
    support::in_child("child_is_woken_while_the_kernel_is_busy", None);
}

/// A wake may arrive at each instruction of the loop that asks again, so this wakes for a second,
/// 40,000 times if it has two CPUs. A fault that loses one wake in 100,000 fails some of the runs.
#[test]
#[ignore = "run in a child by a_wake_that_is_read_because_the_kernel_is_busy_ends_the_wait"]
fn child_is_woken_while_the_kernel_is_busy() {
    // Its completions come without an enter.
    let config = Config { masked: Profile::LINUX_5_15.masked(), ..Config::small() };
    let mut driver = Driver::open(Choice::Uring, &config).unwrap();
    let waker = driver.waker();
    let (waits, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let began = Instant::now();
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE);
        sys::fatal("it waits on");
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                while waits.load(Ordering::Acquire) < round {
                    std::thread::yield_now();
                }
                let before = ring_totals().enters;
                while ring_totals().enters == before {
                    std::thread::yield_now();
                }
                (0..round % 64).for_each(|_| std::hint::spin_loop());
                let is_last = began.elapsed() > Duration::from_secs(1);
                is_over.store(is_last, Ordering::Release);
                waker.wake();
                if is_last {
                    break;
                }
            }
        });
        wait_fails_with(libc::EAGAIN);
        while !is_over.load(Ordering::Acquire) {
            // Submits the read of the next wake, because the waits are refused as a whole.
            driver.turn(Wait::Never).unwrap();
            waits.fetch_add(1, Ordering::Release);
            driver.turn(Wait::Until(None)).unwrap();
        }
    });
    // It could not be drained.
    std::mem::forget(driver);
}

/// It went on asking, and no timer of the thread's came.
#[test]
fn a_kernel_that_stays_busy_keeps_nobody_beyond_the_limit() {
    if !support::has_ring() {
        return;
    }
    support::in_child("child_waits_while_the_kernel_stays_busy", None);
}

#[test]
#[ignore = "run in a child by a_kernel_that_stays_busy_keeps_nobody_beyond_the_limit"]
fn child_waits_while_the_kernel_stays_busy() {
    let mut driver = Driver::open(Choice::Uring, &Config::small()).unwrap();
    driver.turn(Wait::Never).unwrap();
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE);
        sys::fatal("it waits on");
    });
    enter_fails_with(libc::EAGAIN);
    let limit = Duration::from_millis(5);
    let began = Instant::now();
    driver.turn(Wait::Until(Some(limit))).unwrap();
    assert!(began.elapsed() >= limit, "it waits, as far as it can");
    // It could not be drained.
    std::mem::forget(driver);
}

#[test]
fn ops_that_wait_are_ended_by_descriptor_and_altogether() {
    both(|driver| {
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        let poll = |at: usize| Op::Poll { fd: pairs[at].0.as_raw_fd(), events: sys::POLL_IN };
        let frames = [0, 0, 1, 2].map(|at| OpFrame::new(poll(at)));
        for frame in &frames {
            assert!(submit(driver, frame));
        }
        driver.turn(Wait::Never).unwrap();
        assert_eq!(driver.cancel_on(Some(pairs[0].0.as_raw_fd())), 2);
        for frame in &frames[..2] {
            assert_eq!(finish(driver, frame), -libc::ECANCELED);
        }
        assert!(!frames[2].is_complete() && !frames[3].is_complete());
        assert_eq!(driver.cancel_on(None), 2);
        for frame in &frames[2..] {
            assert_eq!(finish(driver, frame), -libc::ECANCELED);
        }
        assert_eq!(driver.cancel_on(None), 0);
    });
}

#[test]
fn a_delayed_close_is_complete_before_the_driver_is_dropped() {
    // In a process of its own, because the processes that other tests start have copies of its
    // descriptors until their exec.
    support::in_child("child_closes_later", None);
}

#[test]
#[ignore = "run in a child by a_delayed_close_is_complete_before_the_driver_is_dropped"]
fn child_closes_later() {
    both(|driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        driver.close_later(ours.into());
        driver.turn(Wait::Never).unwrap();
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    });
    for choice in support::choices() {
        let mut driver = Driver::open(choice, &Config::small()).unwrap();
        // More than the queue holds.
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..50).map(|_| UnixStream::pair().unwrap()).unzip();
        ours.into_iter().for_each(|stream| driver.close_later(stream.into()));
        drop(driver);
        for mut stream in theirs {
            stream.set_nonblocking(true).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
    }
}
