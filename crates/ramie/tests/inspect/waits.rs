//! Every kind of wait names the file and line of the caller, and the object of the wait.

use std::{
    io::{Read, Write},
    os::fd::AsRawFd,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ramie::{
    cancel,
    channel::{self, Select, select},
    fiber::{self, Builder},
    inspect::{StrandDump, WaitTarget},
    io::{Async, Polled, pipe, wait_any},
    net::{TcpListener, UdpSocket},
    os::unix::net::UnixStream,
    process, ring,
    signal::{Signal, Signals},
    sync::{self, Barrier, Condvar, Event, Mutex, Once, RwLock, Semaphore},
};

use crate::{common, unique, waiting};

/// The line of the call that a strand is about to make.
#[derive(Default)]
struct Here(AtomicU32);

/// Evaluates a call, and notes its line before.
macro_rules! at {
    ($here:ident, $call:expr) => {{
        $here.0.store(line!(), Ordering::SeqCst);
        let _ = $call;
    }};
}

/// Lets a strand wait, and returns its description after checking purpose and location. Then
/// `release` ends the wait, or the cancellation of the scope around the strand does.
fn described(purpose: &str, wait: impl FnOnce(&Here) + Send, release: impl FnOnce()) -> StrandDump {
    let handle = OnceLock::new();
    let in_scope = |here: &Here| {
        cancel::scope(|scope| {
            handle.set(scope.handle()).expect("one scope");
            wait(here);
        });
    };
    let cancel = || _ = handle.get().map(cancel::CancelHandle::cancel);
    described_plainly(purpose, in_scope, || {
        release();
        cancel();
    })
}

/// The same, without a scope around the strand.
fn described_plainly(
    purpose: &str,
    wait: impl FnOnce(&Here) + Send,
    release: impl FnOnce(),
) -> StrandDump {
    let (here, name) = (Here::default(), unique(purpose));
    fiber::scope(|s| {
        let builder = Builder::new().name(name.clone());
        let spawned_from = line!() + 1;
        builder.spawn_scoped(s, || wait(&here)).expect("a fiber");
        let strand = waiting(&name);
        release();
        let found = strand.wait.as_ref().expect("it waits");
        assert_eq!(found.purpose, purpose);
        let place = (found.location.file, found.location.line);
        assert_eq!(place, (file!(), here.0.load(Ordering::SeqCst)), "{purpose}");
        let spawned = strand.spawned_at.expect("it was spawned");
        assert_eq!((spawned.file, spawned.line), (file!(), spawned_from));
        strand
    })
}

fn target(strand: &StrandDump) -> WaitTarget {
    strand.wait.clone().expect("it waits").target
}

fn assert_descriptor(strand: &StrandDump, expected: &impl AsRawFd) {
    match target(strand) {
        WaitTarget::Descriptor { fd, .. } => assert_eq!(fd, expected.as_raw_fd()),
        other => panic!("{other:?} is no descriptor"),
    }
}

fn nothing() {}

#[test]
fn times_parks_and_jobs_are_named() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let hour = Duration::from_secs(3600);
            let sleep = described("a sleep", |here| at!(here, fiber::sleep(hour)), nothing);
            let left = sleep.wait.and_then(|wait| wait.left).expect("a sleep has a deadline");
            assert!(left <= hour && left > hour / 2);
            described("an unpark", |here| at!(here, fiber::park()), nothing);
            let future = std::future::pending::<()>();
            let poll = |here: &Here| at!(here, ramie::future::block_on_or_cancelled(future));
            described("a future", poll, nothing);
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            let job = move || receiver.recv();
            let blocking = |here: &Here| at!(here, ramie::blocking(job));
            described("a job on the blocking pool", blocking, || drop(sender));
        });
    });
}

#[test]
fn joins_and_scopes_name_the_strands() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let event = Event::new();
            fiber::scope(|s| {
                let joined = s.spawn(|| event.wait());
                let id = joined.fiber().id();
                let join = |here: &Here| at!(here, joined.join());
                let strand = described("the end of a strand", join, || event.set());
                let WaitTarget::Strand { id: found, .. } = target(&strand) else {
                    panic!("{strand:?} joins no strand")
                };
                assert_eq!(found, id);
            });
            event.reset();
            let nested = |here: &Here| {
                at!(here, fiber::scope(|s| drop(s.spawn(|| event.wait()))));
            };
            let strand = described_plainly("the strands of a scope", nested, || event.set());
            assert!(matches!(target(&strand), WaitTarget::Scope { .. }));
        });
    });
}

#[test]
fn locks_name_their_owners() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let me = fiber::current().id();
            let mutex = Mutex::new(());
            let guard = mutex.lock().unwrap();
            let lock = |here: &Here| at!(here, mutex.lock());
            let strand = described("a Mutex", lock, || drop(guard));
            assert!(
                matches!(target(&strand), WaitTarget::Mutex { owner: Some(id), .. } if id == me)
            );

            let lock = RwLock::new(());
            let guard = lock.write().unwrap();
            let read = |here: &Here| at!(here, lock.read());
            let strand = described("a RwLock, for reading", read, || drop(guard));
            assert_eq!(target(&strand).strand(), Some(me));
            let guard = lock.read().unwrap();
            let write = |here: &Here| at!(here, lock.write());
            let strand = described("a RwLock, for writing", write, || drop(guard));
            let is_read =
                |target| matches!(target, WaitTarget::RwLock { writer: None, readers: 1, .. });
            assert!(is_read(target(&strand)));

            let condition = Condvar::new();
            let wait = |here: &Here| {
                let guard = mutex.lock().unwrap();
                at!(here, condition.wait(guard));
            };
            described_plainly("a Condvar", wait, || condition.notify_all());

            let once = Once::new();
            let (started, event) = (Event::new(), Event::new());
            let run = || {
                started.set();
                let _ = event.wait();
            };
            fiber::scope(|s| {
                s.spawn(|| once.call_once(run));
                started.wait().unwrap();
                let call = |here: &Here| at!(here, once.call_once(|| ()));
                described_plainly("a Once", call, || event.set());
            });
        });
    });
}

#[test]
fn signals_between_strands_are_named() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let event = Event::new();
            let strand = described("an Event", |here| at!(here, event.wait()), nothing);
            assert!(matches!(target(&strand), WaitTarget::Object { .. }));
            let permits = Semaphore::new(0);
            described("a Semaphore's permits", |here| at!(here, permits.acquire()), nothing);
            let barrier = Barrier::new(2);
            let wait = |here: &Here| at!(here, barrier.wait());
            described_plainly("a Condvar", wait, || _ = barrier.wait());
        });
    });
}

#[test]
fn channels_are_named() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let is_channel =
                |strand: &StrandDump| matches!(target(strand), WaitTarget::Channel { .. });
            let (sender, receiver) = channel::bounded::<u8>(1);
            let strand = described("a channel's value", |here| at!(here, receiver.recv()), nothing);
            assert!(is_channel(&strand));
            sender.send(1).unwrap();
            let strand = described("room in a channel", |here| at!(here, sender.send(2)), nothing);
            assert!(is_channel(&strand));
            receiver.recv().unwrap();

            let (_other, never) = channel::bounded::<u8>(1);
            let choose = |here: &Here| {
                here.0.store(line!() + 1, Ordering::SeqCst);
                select! {
                    recv(receiver) -> _ => (),
                    recv(never) -> _ => (),
                }
            };
            let strand = described("one of several channels", choose, nothing);
            assert!(matches!(target(&strand), WaitTarget::Select { arms: 2, .. }));
            let list = || Select::new().recv(&receiver, drop).recv(&never, drop);
            described("one of several channels", |here| at!(here, list().wait()), nothing);
            let hour = Duration::from_secs(3600);
            let wait = |here: &Here| at!(here, list().wait_timeout(hour));
            described("one of several channels", wait, nothing);

            let later = channel::after(Duration::from_secs(3600));
            described("the time of a channel", |here| at!(here, later.recv()), nothing);
            let (_sender, receiver) = sync::oneshot::channel::<u8>();
            let strand = described("a oneshot's value", |here| at!(here, receiver.recv()), nothing);
            assert!(is_channel(&strand));
            let (_sender, mut receiver) = sync::broadcast::channel::<u8>(1);
            let strand = described("a broadcast value", |here| at!(here, receiver.recv()), nothing);
            assert!(is_channel(&strand));
            let (sender, mut receiver) = sync::watch::channel(1);
            let changed = |here: &Here| at!(here, receiver.changed());
            described("a change of a watched value", changed, nothing);
            let closed = |here: &Here| at!(here, sender.closed());
            described("the end of a watched value's receivers", closed, nothing);
            let (sender, receiver) = sync::mpsc::channel::<u8>();
            let receive = move |here: &Here| at!(here, receiver.recv());
            described_plainly("a channel's value", receive, || drop(sender));
        });
    });
}

#[test]
fn sockets_are_named_with_and_without_a_scope() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let (mut near, mut far) = common::tcp_pair();
            let fd = near.as_raw_fd();
            let strand =
                described("data from a socket", |here| at!(here, near.read(&mut [0])), nothing);
            assert_descriptor(&strand, &fd);
            let read = |here: &Here| at!(here, near.read(&mut [0]));
            let strand = described_plainly("data from a socket", read, || {
                far.write_all(&[1]).unwrap();
            });
            assert_descriptor(&strand, &fd);
            let read = |here: &Here| at!(here, (&near).read_exact(&mut [0; 2]));
            described_plainly("data from a socket", read, || far.write_all(&[1, 2]).unwrap());
            let much = vec![0; 32 << 20];
            let write = |here: &Here| at!(here, near.write_all(&much));
            let strand = described("room in a socket's send buffer", write, nothing);
            assert_descriptor(&strand, &fd);

            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let strand = described("a connection", |here| at!(here, listener.accept()), nothing);
            assert_descriptor(&strand, &listener);
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let receive = |here: &Here| at!(here, udp.recv_from(&mut [0]));
            assert_descriptor(&described("data from a socket", receive, nothing), &udp);
            let (mut unix, _peer) = UnixStream::pair().unwrap();
            let fd = unix.as_raw_fd();
            let read = |here: &Here| at!(here, unix.read(&mut [0]));
            assert_descriptor(&described("data from a socket", read, nothing), &fd);
        });
    });
}

#[test]
fn pipes_and_readiness_are_named() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let (mut reader, mut writer) = pipe().unwrap();
            let (from, to) = (reader.as_raw_fd(), writer.as_raw_fd());
            let read = |here: &Here| at!(here, reader.read(&mut [0]));
            assert_descriptor(&described("data from a pipe", read, nothing), &from);
            let read = |here: &Here| at!(here, reader.read(&mut [0]));
            let strand =
                described_plainly("data from a pipe", read, || writer.write_all(&[1]).unwrap());
            assert_descriptor(&strand, &from);
            let much = vec![0; 4 << 20];
            let write = |here: &Here| at!(here, writer.write_all(&much));
            assert_descriptor(&described("room in a pipe", write, nothing), &to);

            let (reader, _writer) = std::io::pipe().unwrap();
            let wait = |here: &Here| at!(here, wait_any(&mut [Polled::readable(&reader)]));
            described("one of several descriptors to be ready", wait, nothing);
            let fd = reader.as_raw_fd();
            let reader = Async::from_fd(reader).unwrap();
            let wait = |here: &Here| at!(here, reader.readable());
            let strand = described("a descriptor to become readable", wait, nothing);
            assert_descriptor(&strand, &fd);
        });
    });
}

#[test]
fn processes_and_signals_are_named() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let mut child = process::Command::new("sleep").arg("3600").spawn().unwrap();
            let strand = described("a process to end", |here| at!(here, child.wait()), nothing);
            assert!(matches!(target(&strand), WaitTarget::Descriptor { .. }));
            child.kill().unwrap();
            child.wait().unwrap();
            let signals = Signals::new([Signal::USR2]).unwrap();
            described("a signal", |here| at!(here, signals.wait()), nothing);
        });
    });
}

#[test]
fn ops_of_the_ring_are_named() {
    common::on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let (reader, _writer) = std::io::pipe().unwrap();
            let poll = |here: &Here| at!(here, ring::poll(&reader, ring::PollFlags::IN));
            assert_descriptor(&described("a descriptor to be ready", poll, nothing), &reader);
        });
    });
}
