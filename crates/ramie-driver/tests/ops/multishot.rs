//! Ops that complete again and again, and the buffers that they fill.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{self, PATIENCE, finish, submit};
use ramie_driver::{
    Choice, Config, Driver, Feature, FeatureSet, Lease, MultishotId, MultishotInbox, MultishotItem,
    MultishotOp, NextItem, Op, OpFrame, Profile, Wait,
};

/// Runs `test` with each ring that has such ops.
fn rings(test: impl Fn(&mut Driver)) {
    if !support::has_ring() {
        return;
    }
    let [bundle, incremental] = [Feature::Bundle, Feature::IncrementalBuffers]
        .map(|feature| FeatureSet::EMPTY.with(feature));
    for masked in [FeatureSet::EMPTY, bundle, incremental, Profile::LINUX_6_1.masked()] {
        let config = Config { masked, ..Config::default() };
        let mut driver = Driver::open(Choice::Uring, &config).unwrap();
        if !driver.caps().features.has(Feature::Multishot) {
            return support::skipped("this kernel has no such ops");
        }
        test(&mut driver);
    }
}

fn start(driver: &mut Driver, op: MultishotOp) -> (MultishotId, Arc<MultishotInbox>) {
    let inbox = Arc::default();
    (driver.start_multishot(op, &inbox).expect("it has such ops"), inbox)
}

fn receive(driver: &mut Driver, stream: &UnixStream) -> (MultishotId, Arc<MultishotInbox>) {
    start(driver, MultishotOp::Receive { fd: stream.as_raw_fd() })
}

/// Turns until there is an item. An op that ended without notice is armed again by `next_item`.
fn item(driver: &mut Driver, id: MultishotId) -> MultishotItem {
    let started = Instant::now();
    loop {
        match driver.next_item(id) {
            NextItem::Item(item) => return item,
            NextItem::Pending => {}
            other => panic!("{other:?}"),
        }
        assert!(started.elapsed() < PATIENCE, "no item comes");
        driver.turn(Wait::Until(Some(Duration::from_millis(20)))).unwrap();
    }
}

fn bytes(driver: &mut Driver, id: MultishotId) -> Lease {
    match item(driver, id) {
        MultishotItem::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// The bytes of the largest buffer for streams.
const BUFFER: usize = 32 << 10;

fn pairs(count: usize) -> Vec<(UnixStream, UnixStream)> {
    (0..count).map(|_| UnixStream::pair().unwrap()).collect()
}

#[test]
fn idle_connections_hold_no_buffer() {
    rings(|driver| {
        let pairs = pairs(200);
        let ops: Vec<_> = pairs.iter().map(|(stream, _)| receive(driver, stream)).collect();
        for (id, _) in &ops {
            assert!(matches!(driver.next_item(*id), NextItem::Pending));
        }
        driver.turn(Wait::Never).unwrap();
        let on_offer = driver.buffer_bytes();
        assert!(on_offer <= 8 * BUFFER, "{on_offer} bytes for 200 connections that are idle");
        for (n, (_, peer)) in pairs.iter().enumerate() {
            (&mut &*peer).write_all(&[n as u8; 50]).unwrap();
            assert_eq!(&*bytes(driver, ops[n].0), &[n as u8; 50]);
        }
        assert!(driver.buffer_bytes() <= on_offer, "buffers that came back were used again");
        for (id, inbox) in ops {
            assert!(driver.stop_multishot(id));
            assert!(!inbox.is_in_use());
        }
    });
}

/// The kernel runs out of buffers (ENOBUFS) again and again, and nobody sees it.
#[test]
fn the_pool_grows_while_leases_are_kept_and_shrinks_when_idle() {
    rings(|driver| {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let (id, _home) = receive(driver, &stream);
        let (mut kept, mut sum) = (Vec::new(), 0);
        for round in 0..600_u32 {
            peer.write_all(&[round as u8; 4096]).unwrap();
            sum += 4096;
            while kept.iter().map(|lease: &Lease| lease.len()).sum::<usize>() < sum {
                kept.push(bytes(driver, id));
            }
        }
        let mut all = kept.iter().flat_map(|lease| lease.iter());
        for round in 0..600_u32 {
            assert!(all.by_ref().take(4096).all(|byte| *byte == round as u8), "round {round}");
        }
        let grown = driver.buffer_bytes();
        assert!(grown >= sum, "{grown} bytes hold {sum}");
        drop(kept);
        driver.turn(Wait::Never).unwrap();
        assert!(driver.has_surplus());
        driver.give_back_surplus();
        let left = driver.buffer_bytes();
        assert!(left <= 16 * BUFFER, "{left} bytes of {grown} are left");
        // The op finds that its buffers are gone, and goes on with others.
        peer.write_all(b"after").unwrap();
        assert_eq!(&*bytes(driver, id), b"after");
        driver.stop_multishot(id);
    });
}

#[test]
fn many_connections_at_once_want_more_buffers_than_there_are() {
    rings(|driver| {
        let pairs = pairs(300);
        let ops: Vec<_> = pairs.iter().map(|(stream, _)| receive(driver, stream)).collect();
        for (id, _) in &ops {
            assert!(matches!(driver.next_item(*id), NextItem::Pending));
        }
        for (n, (_, peer)) in pairs.iter().enumerate() {
            (&mut &*peer).write_all(&[n as u8; 5000]).unwrap();
        }
        for (n, (id, _)) in ops.iter().enumerate() {
            let mut left = 5000;
            while left > 0 {
                let part = bytes(driver, *id);
                assert!(part.iter().all(|byte| *byte == n as u8));
                left -= part.len();
            }
        }
        ops.iter().for_each(|(id, _)| assert!(driver.stop_multishot(*id)));
    });
}

#[test]
fn an_op_whose_items_nobody_takes_is_paused() {
    rings(|driver| {
        let (stream, peer) = UnixStream::pair().unwrap();
        peer.set_nonblocking(true).unwrap();
        let (id, inbox) = receive(driver, &stream);
        assert!(matches!(driver.next_item(id), NextItem::Pending));
        let (mut sent, mut rounds_without) = (0_usize, 0);
        while rounds_without < 20 {
            match (&mut &peer).write(&[7; 1000]) {
                Ok(count) => (sent, rounds_without) = (sent + count, 0),
                Err(_) => rounds_without += 1,
            }
            driver.turn(Wait::Never).unwrap();
        }
        assert!(sent < 2 << 20, "{sent} bytes went out though nobody took them");
        // All data from before the stop is there, in order, once.
        assert!(driver.stop_multishot(id));
        assert!(matches!(driver.next_item(id), NextItem::Gone));
        let mut early = 0;
        while let Some(item) = inbox.take_leftover() {
            let MultishotItem::Bytes(bytes) = item else { panic!("{item:?}") };
            early += bytes.len();
        }
        drop(peer);
        let mut rest = Vec::new();
        (&mut &stream).read_to_end(&mut rest).unwrap();
        assert_eq!(early + rest.len(), sent);
    });
}

/// Many items may be few bytes: they are counted, too.
#[test]
fn many_items_that_nobody_takes_pause_it() {
    rings(|driver| {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let (id, inbox) = receive(driver, &stream);
        assert!(matches!(driver.next_item(id), NextItem::Pending));
        for _ in 0..150 {
            peer.write_all(b"x").unwrap();
            driver.turn(Wait::Never).unwrap();
        }
        assert!(driver.stop_multishot(id));
        let early = std::iter::from_fn(|| inbox.take_leftover()).count();
        // 64, and those that arrive while it is being paused.
        assert!(early <= 80, "{early} items came though nobody took them");
    });
}

#[test]
fn an_op_is_its_own_drivers() {
    rings(|driver| {
        let mut another = Driver::open(Choice::Uring, &Config::default()).unwrap();
        let [ours, theirs] = [(); 2].map(|()| UnixStream::pair().unwrap());
        let (id, _) = receive(driver, &ours.0);
        let (same_place, _) = receive(&mut another, &theirs.0);
        assert!(matches!(another.next_item(id), NextItem::Gone));
        assert!(!another.await_item(id, 1 << 63 | 5));
        assert!(matches!(another.next_item(same_place), NextItem::Pending));
    });
}

/// From there on the number may be closed, and be another file's.
#[test]
fn an_op_that_is_settled_keeps_to_its_file() {
    rings(|driver| {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let (another, _its_peer) = UnixStream::pair().unwrap();
        let (id, _home) = receive(driver, &stream);
        assert!(matches!(driver.next_item(id), NextItem::Pending));
        assert!(driver.settle_multishot(id).is_none());
        let mut number = std::os::fd::OwnedFd::from(stream);
        rustix::io::dup2(&another, &mut number).unwrap();
        peer.write_all(b"to the file").expect("the op holds the file");
        assert_eq!(&*bytes(driver, id), b"to the file");
    });
}

#[test]
fn a_drain_ends_an_op_though_nothing_else_is_in_flight() {
    rings(|driver| {
        let (stream, _peer) = UnixStream::pair().unwrap();
        let (id, inbox) = receive(driver, &stream);
        assert!(matches!(driver.next_item(id), NextItem::Pending));
        driver.turn(Wait::Never).unwrap();
        driver.drain();
        assert!(!inbox.is_in_use());
    });
}

/// Few items may be many bytes: these are counted, too.
#[test]
fn many_bytes_that_nobody_takes_pause_it() {
    rings(|driver| {
        let (stream, peer) = UnixStream::pair().unwrap();
        peer.set_nonblocking(true).unwrap();
        let (id, inbox) = receive(driver, &stream);
        assert!(matches!(driver.next_item(id), NextItem::Pending));
        let mut rounds_without = 0;
        while rounds_without < 20 {
            rounds_without = match (&mut &peer).write(&[7; 16 << 10]) {
                Ok(_) => 0,
                Err(_) => rounds_without + 1,
            };
            driver.turn(Wait::Never).unwrap();
        }
        assert!(driver.stop_multishot(id));
        let mut early = 0;
        while let Some(item) = inbox.take_leftover() {
            let MultishotItem::Bytes(bytes) = item else { panic!("{item:?}") };
            early += bytes.len();
        }
        // 64 KiB, and the bytes that arrive while it is being paused.
        assert!(early <= 160 << 10, "{early} bytes were received though nobody took them");
    });
}

/// The hazard: a listener whose op ended without notice, and a server that accepts no more.
#[test]
fn each_op_that_ends_without_notice_is_armed_again() {
    rings(|driver| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let accept = MultishotOp::Accept { fd: listener.as_raw_fd(), flags: 0 };
        let (accepts, _) = start(driver, accept);
        let (watched, mut trigger) = UnixStream::pair().unwrap();
        let poll =
            MultishotOp::Poll { fd: watched.as_raw_fd(), events: ramie_driver::sys::POLL_IN };
        let (polls, _) = start(driver, poll);
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let (receives, _) = receive(driver, &stream);
        for round in 0..20_u8 {
            for id in [accepts, polls, receives] {
                // Arms it, and waits in vain.
                assert!(matches!(driver.next_item(id), NextItem::Pending));
                driver.turn(Wait::Never).unwrap();
                assert!(driver.await_item(id, 1 << 63 | 5), "nothing has come");
                end(driver, id);
            }
            // The waiter is woken, and finds that there is nothing.
            for _ in 0..3 {
                assert_eq!(driver.pop_notice(), Some(1 << 63 | 5));
            }
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(matches!(item(driver, accepts), MultishotItem::Connection(_)));
            trigger.write_all(&[round]).unwrap();
            assert!(matches!(item(driver, polls), MultishotItem::Ready(mask) if mask & 1 == 1));
            (&watched).read_exact(&mut [0]).unwrap();
            peer.write_all(&[round]).unwrap();
            assert_eq!(&*bytes(driver, receives), [round]);
            drop(client);
        }
        for id in [accepts, polls, receives] {
            assert!(driver.stop_multishot(id));
            assert!(matches!(driver.next_item(id), NextItem::Gone));
        }
    });
}

/// Makes the kernel end the op, which reports only that it was the last completion.
fn end(driver: &mut Driver, id: MultishotId) {
    driver.end_multishot_silently(id);
    let started = Instant::now();
    while driver.await_item(id, 1 << 63 | 5) {
        assert!(started.elapsed() < PATIENCE, "it does not end");
        driver.turn(Wait::Until(Some(Duration::from_millis(20)))).unwrap();
    }
}

/// The hazard: a full submission queue. It is emptied into the kernel.
#[test]
fn more_ops_than_entries_are_armed_and_stopped() {
    if !support::has_ring() {
        return;
    }
    let config = Config::small();
    let mut driver = Driver::open(Choice::Uring, &config).unwrap();
    if !driver.caps().features.has(Feature::Multishot) {
        return;
    }
    let pairs = pairs(200);
    let ops: Vec<_> = pairs.iter().map(|(stream, _)| receive(&mut driver, stream)).collect();
    for (id, _) in &ops {
        assert!(matches!(driver.next_item(*id), NextItem::Pending));
    }
    for (_, peer) in &pairs {
        (&mut &*peer).write_all(b"all at once").unwrap();
    }
    for (id, _) in &ops {
        assert_eq!(&*bytes(&mut driver, *id), b"all at once");
    }
    // A drain ends all that is armed; frames and ops do not mind each other.
    let frame = OpFrame::new(Op::Poll { fd: pairs[0].1.as_raw_fd(), events: 1 });
    assert!(submit(&mut driver, &frame));
    driver.drain();
    assert!(finish(&mut driver, &frame) < 0);
    for (id, inbox) in &ops {
        assert!(matches!(driver.next_item(*id), NextItem::Gone) && !inbox.is_in_use());
    }
}

#[test]
fn no_multishot_op_starts_during_a_one_shot_receive() {
    rings(|driver| {
        let (stream, _peer) = UnixStream::pair().unwrap();
        let op = MultishotOp::Receive { fd: stream.as_raw_fd() };
        let inbox: Arc<MultishotInbox> = Arc::default();
        let (one, another) = (inbox.take_one_by_one(), inbox.take_one_by_one());
        assert!(driver.start_multishot(op, &inbox).is_none() && !inbox.is_in_use());
        drop(one);
        assert!(driver.start_multishot(op, &inbox).is_none() && inbox.op().is_none());
        drop(another);
        let id = driver.start_multishot(op, &inbox).expect("nobody is there");
        // The next caller sees it.
        let _late = inbox.take_one_by_one();
        assert_eq!(inbox.op(), Some(id));
        assert!(driver.stop_multishot(id) && !inbox.is_in_use());
    });
}

#[test]
fn a_dropped_driver_leaves_received_items_in_the_inbox() {
    rings(|_| {
        let mut driver = Driver::open(Choice::Uring, &Config::default()).unwrap();
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let (id, inbox) = receive(&mut driver, &stream);
        assert!(matches!(driver.next_item(id), NextItem::Pending));
        peer.write_all(b"early").unwrap();
        driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
        let waiting = inbox.request_stop(1 << 63 | 9);
        assert!(waiting && inbox.op() == Some(id));
        driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
        while inbox.op().is_some() {
            driver.turn(Wait::Until(Some(Duration::from_millis(20)))).unwrap();
        }
        assert_eq!(driver.pop_notice(), Some(1 << 63 | 9));
        drop(driver);
        let Some(MultishotItem::Bytes(early)) = inbox.take_leftover() else {
            panic!("it is there")
        };
        assert_eq!(&*early, b"early");
        assert!(inbox.take_leftover().is_none() && !inbox.is_in_use());
        std::thread::spawn(move || drop(early)).join().unwrap();
    });
}

#[test]
fn two_drivers_do_not_share_an_op() {
    rings(|driver| {
        let mut other = Driver::open(Choice::Uring, &Config::small()).unwrap();
        let (stream, _peer) = UnixStream::pair().unwrap();
        let (id, inbox) = receive(driver, &stream);
        let op = MultishotOp::Receive { fd: stream.as_raw_fd() };
        assert!(other.start_multishot(op, &inbox).is_none(), "the first has it");
        assert!(matches!(other.next_item(id), NextItem::Gone));
        assert!(!other.stop_multishot(id) && inbox.op() == Some(id));
        assert!(driver.stop_multishot(id) && inbox.op().is_none());
    });
}

#[test]
fn the_polling_driver_receives_one_by_one() {
    for choice in support::choices() {
        let mut driver = Driver::open(choice, &Config::small()).unwrap();
        let (stream, mut peer) = UnixStream::pair().unwrap();
        assert_eq!(driver.receive_now(&stream, None).unwrap_err(), 11, "EAGAIN");
        let mut kept = Vec::new();
        for round in 0..100_u8 {
            peer.write_all(&[round; 1500]).unwrap();
            kept.push(driver.receive_now(&stream, None).unwrap());
        }
        for (round, lease) in kept.iter().enumerate() {
            assert_eq!(&**lease, &[round as u8; 1500][..lease.len()]);
        }
        let grown = driver.buffer_bytes();
        assert!(grown < 10 * BUFFER, "receives share their buffers: {grown}");
        drop(driver);
        drop(kept);
    }
    let mut polling = Driver::open(Choice::Poll, &Config::small()).unwrap();
    let (stream, _peer) = UnixStream::pair().unwrap();
    let op = MultishotOp::Receive { fd: stream.as_raw_fd() };
    assert!(polling.start_multishot(op, &Arc::default()).is_none());
}

#[test]
fn leases_come_back_from_many_threads() {
    rings(|driver| {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let (id, _home) = receive(driver, &stream);
        let (sender, receiver) = std::sync::mpsc::channel::<Lease>();
        let receiver = std::sync::Mutex::new(receiver);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    loop {
                        let lease = receiver.lock().unwrap().recv();
                        let Ok(lease) = lease else { return };
                        assert!(lease.windows(2).all(|two| two[0] == two[1]), "torn");
                    }
                });
            }
            let mut sum = 0;
            for round in 0..400_u32 {
                peer.write_all(&[round as u8; 3000]).unwrap();
                let mut left = 3000;
                while left > 0 {
                    let lease = bytes(driver, id);
                    left -= lease.len();
                    sum += lease.len();
                    sender.send(lease).unwrap();
                }
            }
            assert_eq!(sum, 400 * 3000);
            drop(sender);
        });
        driver.stop_multishot(id);
        driver.turn(Wait::Never).unwrap();
        driver.give_back_surplus();
        assert!(driver.buffer_bytes() <= 16 * BUFFER, "{} bytes", driver.buffer_bytes());
    });
}

#[test]
fn a_shot_that_came_before_a_turn_keeps_it_from_waiting() {
    rings(|_| {
        // Without this the kernel completes ops at any system call.
        let masked = FeatureSet::EMPTY.with(Feature::DeferTaskrun);
        let config = Config { masked, ..Config::default() };
        let mut driver = Driver::open(Choice::Uring, &config).unwrap();
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let (id, _home) = receive(&mut driver, &stream);
        assert!(matches!(driver.next_item(id), NextItem::Pending));
        driver.turn(Wait::Never).unwrap();
        assert!(driver.await_item(id, 1 << 63));
        peer.write_all(b"early").unwrap();
        let started = Instant::now();
        driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
        assert_eq!(driver.pop_notice(), Some(1 << 63));
        assert!(started.elapsed() < PATIENCE / 2, "it has waited though an item was there");
        assert!(!driver.await_item(id, 1 << 63), "there is one already");
        assert_eq!(&*bytes(&mut driver, id), b"early");
        driver.stop_multishot(id);
    });
}

/// The kernel ends an op when its completion queue is full, and reports nothing else: a server that
/// does not look accepts no more.
#[test]
fn multishot_ending_without_notice() {
    if !support::has_ring() {
        return;
    }
    for masked in [FeatureSet::EMPTY, FeatureSet::EMPTY.with(Feature::DeferTaskrun)] {
        let config = Config { masked, ..Config::small() };
        let mut driver = Driver::open(Choice::Uring, &config).unwrap();
        if !driver.caps().features.has(Feature::Multishot) {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let op = MultishotOp::Accept { fd: listener.as_raw_fd(), flags: 0 };
        let (accepts, _) = start(&mut driver, op);
        let (watched, mut trigger) = UnixStream::pair().unwrap();
        let op = MultishotOp::Poll { fd: watched.as_raw_fd(), events: 1 };
        let (polls, _) = start(&mut driver, op);
        let pairs = pairs(40);
        let receives: Vec<_> =
            pairs.iter().map(|(stream, _)| receive(&mut driver, stream)).collect();
        let all = receives.iter().map(|(id, _)| *id).chain([accepts, polls]);
        for id in all.clone() {
            assert!(matches!(driver.next_item(id), NextItem::Pending));
        }
        driver.turn(Wait::Never).unwrap();
        for round in 0..5_u8 {
            // Far more at once than the queue has room for.
            let clients: Vec<_> = (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
            trigger.write_all(&[round]).unwrap();
            for (_, peer) in &pairs {
                (&mut &*peer).write_all(&[round]).unwrap();
            }
            for _ in &clients {
                assert!(matches!(item(&mut driver, accepts), MultishotItem::Connection(_)));
            }
            assert!(matches!(item(&mut driver, polls), MultishotItem::Ready(_)));
            (&watched).read_exact(&mut [0]).unwrap();
            for (id, _) in &receives {
                assert_eq!(&*bytes(&mut driver, *id), [round]);
            }
        }
        for id in all {
            assert!(driver.stop_multishot(id));
        }
    }
}
