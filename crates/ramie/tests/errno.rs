//! Each op by the public calls, while one op of four fails: the errno reaches the caller, exactly
//! the reported bytes have moved, and later calls work.
//! A program of its own, because `.ci/faults` runs it without a seed. The tests run in processes of
//! their own, with each driver and with several errnos; on workers and on a thread. The other ends
//! are std's, on which nothing fails. Which calls are ops depends on the driver: those that a ring
//! alone does may fail here, and need not.

mod common;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    net::SocketAddr,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::{UnixDatagram, UnixStream},
    },
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::AtomicU32,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use common::{child_with, descriptors, everywhere, is_child, stderr};
use ramie::{
    cancel, fiber,
    io::{Async, LineReader, Polled},
    ring::{
        self, Address, AddressFamily, Advice, AtFlags, FallocateFlags, FutexFlags, Mode, OFlags,
        Pid, PollFlags, RecvFlags, RegisteredBuffer, RenameFlags, ResolveFlags, SendFlags,
        Shutdown, SocketType, SpliceFlags, StatxFlags, WaitId, WaitIdOptions, XattrFlags,
    },
};

/// The errno with which the ops of this process fail.
fn injected() -> i32 {
    let faults = std::env::var("RAMIE_FAULTS").expect("set by `under_faults`");
    faults.split_once(',').and_then(|(_, errno)| errno.parse().ok()).expect("SEED,ERRNO")
}

/// Runs `calls` everywhere, in processes of their own, with each errno.
#[track_caller]
fn under_faults(test: &str, calls: impl Fn() + Send + Sync) {
    if is_child() {
        let rounds = || everywhere(&calls);
        rounds();
        let before = descriptors();
        rounds();
        assert_eq!(descriptors(), before, "descriptors stay behind");
        return;
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("RAMIE_SEED").unwrap_or(clock.to_string());
    // Nobody cancels anything here, so `ECANCELED` is an errno like the others.
    for errno in [libc::EIO, libc::ENOMEM, libc::ECONNRESET, libc::ECANCELED] {
        eprintln!("repeat with RAMIE_SEED={seed}");
        let output = child_with("true", test, &[("RAMIE_FAULTS", &format!("{seed},{errno}"))]);
        let (status, text) = (output.status, stderr(&output));
        assert!(status.success(), "errno {errno}, seed {seed}: {status}: {text}");
    }
}

/// Calls until it has both succeeded and failed, three times each.
#[track_caller]
fn fails<T>(call: impl FnMut() -> io::Result<T>) {
    tried(3, 3, call);
}

/// As [`fails`], for calls that some drivers, or threads, make without an op.
#[track_caller]
fn may_fail<T>(call: impl FnMut() -> io::Result<T>) {
    tried(8, 0, call);
}

#[track_caller]
fn tried<T>(successes: usize, failures: usize, mut call: impl FnMut() -> io::Result<T>) {
    let (mut done, mut failed) = (0, 0);
    while done < successes || failed < failures {
        match call() {
            Ok(_) => done += 1,
            Err(error) => {
                told(&error);
                failed += 1;
            }
        }
        assert!(done + failed < 1000, "{done} calls went well, {failed} failed");
    }
}

/// It is the injected errno, and no cancellation.
#[track_caller]
fn told(error: &io::Error) {
    assert_eq!(error.raw_os_error(), Some(injected()), "{error:?}");
    assert!(!cancel::is_cancelled(error), "nobody cancels");
}

/// Calls until an op is spared.
#[track_caller]
fn spared<T>(mut call: impl FnMut() -> io::Result<T>) -> T {
    for _ in 0..1000 {
        match call() {
            Ok(value) => return value,
            Err(error) => told(&error),
        }
    }
    panic!("no op is spared");
}

/// Numbered bytes, so that a byte lost or doubled is seen.
#[derive(Default)]
struct Sequence(u8);

impl Sequence {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| {
            self.0 = self.0.wrapping_add(1);
            self.0
        })
    }

    /// These come next.
    #[track_caller]
    fn came(&mut self, bytes: &[u8]) {
        for byte in bytes {
            assert_eq!([*byte], self.take::<1>());
        }
    }
}

fn listener() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A stream of Ramie's and its peer of std's.
fn tcp() -> (ramie::net::TcpStream, std::net::TcpStream) {
    let (listener, address) = listener();
    let theirs = std::net::TcpStream::connect(address).unwrap();
    (listener.accept().unwrap().0.into(), theirs)
}

#[test]
fn connections() {
    under_faults("connections", || {
        let (theirs, address) = listener();
        let mut made = 0;
        fails(|| {
            let ours = ramie::net::TcpStream::connect(address)?;
            let (peer, from) = theirs.accept().unwrap();
            assert_eq!(from, ours.local_addr().unwrap());
            drop(peer);
            made += 1;
            Ok(())
        });
        fails(|| {
            let socket = spared(|| ring::socket(AddressFamily::INET, SocketType::STREAM, None));
            ring::connect(&socket, address)?;
            theirs.accept().unwrap();
            Ok(())
        });
        theirs.set_nonblocking(true).unwrap();
        let more = theirs.accept().unwrap_err();
        assert_eq!(more.kind(), ErrorKind::WouldBlock, "what failed has connected; {made}");
    });
}

/// One of std's that connects when it is asked to, and again when it was accepted.
struct Client(SocketAddr, Option<std::net::TcpStream>);

impl Client {
    fn address(&mut self) -> SocketAddr {
        let new = || std::net::TcpStream::connect(self.0).unwrap();
        self.1.get_or_insert_with(new).local_addr().unwrap()
    }

    /// It is the one that was accepted.
    #[track_caller]
    fn is(&mut self, accepted: SocketAddr) {
        assert_eq!(accepted, self.address());
        self.1 = None;
    }
}

/// In each way; data that a failed call left waiting is there for the next.
#[test]
fn accepts() {
    under_faults("accepts", || {
        let (theirs, address) = listener();
        let ours = ramie::net::TcpListener::from(theirs.try_clone().unwrap());
        let mut client = Client(address, None);
        fails(|| {
            client.address();
            let (_, from) = ours.accept()?;
            client.is(from);
            Ok(())
        });
        may_fail(|| {
            client.address();
            let stream = ours.incoming().next().expect("it never ends")?;
            client.is(stream.peer_addr().unwrap());
            Ok(())
        });
        let mut incoming = ours.incoming();
        may_fail(|| {
            client.address();
            let stream = incoming.next().expect("it never ends")?;
            client.is(stream.peer_addr().unwrap());
            Ok(())
        });
        drop(incoming);
        fails(|| {
            client.address();
            let (_, from) = ring::accept(&theirs)?;
            client.is(from.to_ip().unwrap());
            Ok(())
        });
        fails(|| {
            client.address();
            let (_, from) = ring::accept_direct(&theirs)?;
            client.is(from.to_ip().unwrap());
            Ok(())
        });
    });
}

/// Calls a receive, which fails and then goes on where it was.
#[track_caller]
fn receives(
    theirs: &mut impl Write,
    (sent, came): (&mut Sequence, &mut Sequence),
    mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
) {
    fails(|| {
        theirs.write_all(&sent.take::<2>()).unwrap();
        let mut bytes = [0; 2];
        let count = receive(&mut bytes)?;
        assert!((1..=2).contains(&count));
        came.came(&bytes[..count]);
        Ok(())
    });
}

#[test]
fn receives_from_streams() {
    under_faults("receives_from_streams", || {
        let (mut ours, mut theirs) = tcp();
        let (mut sent, mut came) = (Sequence::default(), Sequence::default());
        let mut receives = |receive: &mut dyn FnMut(&mut [u8]) -> io::Result<usize>| {
            receives(&mut theirs, (&mut sent, &mut came), receive);
        };
        receives(&mut |bytes| ours.read(bytes));
        receives(&mut |bytes| ours.peek(bytes).and_then(|_| ours.read(bytes)));
        receives(&mut |bytes| ours.read_vectored(&mut [IoSliceMut::new(bytes)]));
        receives(&mut |bytes| ring::read(&ours, bytes, None));
        receives(&mut |bytes| ring::readv(&ours, &mut [IoSliceMut::new(bytes)], None));
        receives(&mut |bytes| ring::recv(&ours, bytes, RecvFlags::empty()));
        receives(&mut |bytes| {
            let mut parts = [IoSliceMut::new(bytes)];
            Ok(ring::recvmsg(&ours, &mut parts, RecvFlags::empty())?.bytes)
        });
        let mut buffer = RegisteredBuffer::new(2).unwrap();
        receives(&mut |bytes| {
            let count = buffer.read(&ours, .., None)?;
            bytes[..count].copy_from_slice(&buffer[..count]);
            Ok(count)
        });
        leases(&ours, &mut theirs, (&mut sent, &mut came));
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        while spared(|| ours.read_to_end(&mut rest)) > 0 {}
        came.came(&rest);
        assert_eq!(came.0, sent.0, "all of it has come");
    });
}

/// Receives that lend the bytes out, one by one and again and again.
fn leases(
    ours: &ramie::net::TcpStream,
    theirs: &mut std::net::TcpStream,
    (sent, came): (&mut Sequence, &mut Sequence),
) {
    may_fail(|| {
        theirs.write_all(&sent.take::<2>()).unwrap();
        ring::recv_bundle(ours)?.iter().for_each(|lease| came.came(lease));
        Ok(())
    });
    may_fail(|| {
        theirs.write_all(&sent.take::<2>()).unwrap();
        came.came(&ours.recv_each().next().expect("it goes on")?);
        Ok(())
    });
    // An error ends an iterator, and the next one goes on.
    for _ in 0..20 {
        let mut each = ours.recv_each();
        for _ in 0..5 {
            theirs.write_all(&sent.take::<2>()).unwrap();
            match each.next() {
                Some(Ok(lease)) => came.came(&lease),
                Some(Err(error)) => told(&error),
                None => break,
            }
        }
    }
}

#[test]
fn sends_to_streams() {
    under_faults("sends_to_streams", || {
        let (mut ours, mut theirs) = tcp();
        let (mut sent, mut came) = (Sequence::default(), Sequence::default());
        let mut sends = |send: &mut dyn FnMut(&[u8]) -> io::Result<usize>| {
            fails(|| {
                let bytes = Sequence(sent.0).take::<2>();
                let count = send(&bytes)?;
                let mut arrived = [0; 2];
                theirs.read_exact(&mut arrived[..count]).unwrap();
                came.came(&arrived[..count]);
                sent.0 = came.0;
                Ok(())
            });
        };
        sends(&mut |bytes| ours.write(bytes));
        sends(&mut |bytes| ours.write_vectored(&[IoSlice::new(bytes)]));
        sends(&mut |bytes| ours.send_zero_copy(bytes));
        sends(&mut |bytes| ours.send_vectored_zero_copy(&[IoSlice::new(bytes)]));
        sends(&mut |bytes| ring::write(&ours, bytes, None));
        sends(&mut |bytes| ring::writev(&ours, &[IoSlice::new(bytes)], None));
        sends(&mut |bytes| ring::send(&ours, bytes, SendFlags::empty()));
        let none = SendFlags::empty();
        sends(&mut |bytes| ring::sendmsg(&ours, &[IoSlice::new(bytes)], None, none));
        let mut buffer = RegisteredBuffer::new(2).unwrap();
        sends(&mut |bytes| {
            buffer.copy_from_slice(bytes);
            buffer.write(&ours, .., None)
        });
        theirs.set_nonblocking(true).unwrap();
        let more = theirs.read(&mut [0]).unwrap_err();
        assert_eq!(more.kind(), ErrorKind::WouldBlock, "what failed has sent");
    });
}

/// The bytes that are in a stream of std now.
fn rest(theirs: &mut (impl Read + AsFd)) -> Vec<u8> {
    let mut count: libc::c_int = 0;
    // SAFETY: writes one int through a pointer to one.
    let told = unsafe { libc::ioctl(theirs.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut count) };
    assert_eq!(told, 0);
    let mut bytes = vec![0; count as usize];
    theirs.read_exact(&mut bytes).unwrap();
    bytes
}

/// Calls that move many bytes by several ops: whichever op fails, the moved bytes are the first
/// ones.
#[test]
fn many_bytes() {
    under_faults("many_bytes", || {
        let data: [u8; 200] = Sequence::default().take();
        let (from, mut ours) = ramie::io::pipe().unwrap();
        let mut theirs = io::PipeReader::from(OwnedFd::from(from));
        fails(|| {
            let written = ours.write_all(&data);
            let arrived = rest(&mut theirs);
            assert!(data.starts_with(&arrived) && (written.is_err() || arrived == data));
            written
        });
        fails(|| {
            let copied = ramie::io::copy(&mut &data[..], &mut ours);
            let arrived = rest(&mut theirs);
            assert!(data.starts_with(&arrived));
            assert!(copied.is_err() || arrived == data);
            copied
        });
        // A buffer sends the bytes that it has taken when it is flushed again.
        let mut buffered = io::BufWriter::with_capacity(300, ours);
        fails(|| {
            if buffered.buffer().is_empty() {
                buffered.write_all(&data)?;
            }
            buffered.flush()
        });
        spared(|| buffered.flush());
        let arrived = rest(&mut theirs);
        assert!(arrived.chunks(200).all(|chunk| chunk == data), "each of them once, and whole");
    });
}

#[test]
fn lines_and_copies_from_a_pipe() {
    under_faults("lines_and_copies_from_a_pipe", || {
        let (ours, to) = ramie::io::pipe().unwrap();
        let mut theirs = io::PipeWriter::from(OwnedFd::from(to));
        let mut lines = LineReader::new(ours);
        let mut is_sent = false;
        fails(|| {
            if !is_sent {
                theirs.write_all(b"one line\n").unwrap();
            }
            is_sent = true;
            assert_eq!(lines.next_line()?, Some(&b"one line"[..]));
            is_sent = false;
            Ok(())
        });
        let mut lines = BufReader::new(lines.into_inner());
        if !is_sent {
            theirs.write_all(b"one line\n").unwrap();
        }
        let mut line = String::new();
        spared(|| lines.read_line(&mut line));
        assert_eq!(line, "one line\n");
        // Within the kernel, which is asked again when there is more; the other end is at its end.
        let mut ours = lines.into_inner();
        theirs.write_all(b"for a copy").unwrap();
        drop(theirs);
        let (mut from, mut to) = ramie::io::pipe().unwrap();
        spared(|| ramie::io::copy(&mut ours, &mut to));
        drop(to);
        let mut copy = Vec::new();
        spared(|| from.read_to_end(&mut copy));
        assert_eq!(copy, b"for a copy");
    });
}

#[test]
fn datagrams() {
    under_faults("datagrams", || {
        let bound = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (ours, theirs) = (bound(), bound());
        let (here, there) = (ours.local_addr().unwrap(), theirs.local_addr().unwrap());
        let ours = ramie::net::UdpSocket::from(ours);
        let sends = |send: &mut dyn FnMut() -> io::Result<usize>| {
            fails(|| {
                assert_eq!(send()?, 4);
                let mut bytes = [0; 8];
                assert_eq!(theirs.recv_from(&mut bytes).unwrap(), (4, here));
                assert_eq!(&bytes[..4], b"gram");
                Ok(())
            });
        };
        sends(&mut || ours.send_to(b"gram", there));
        let (parts, to) = ([IoSlice::new(b"gram")], Address::from(there));
        sends(&mut || ring::sendmsg(&ours, &parts, Some(&to), SendFlags::empty()));
        ours.connect(there).unwrap();
        sends(&mut || ours.send(b"gram"));
        theirs.set_nonblocking(true).unwrap();
        assert!(theirs.recv(&mut [0; 8]).is_err(), "what failed has sent");

        // One is under way all the time, because a failed call has not taken it.
        theirs.send_to(b"gram", here).unwrap();
        let mut bytes = [0; 8];
        let mut receives = |at_least, receive: &mut dyn FnMut(&mut [u8]) -> io::Result<_>| {
            tried(8, at_least, || {
                let from = receive(&mut bytes)?;
                assert_eq!((from, &bytes[..4]), (there, &b"gram"[..]));
                theirs.send_to(b"gram", here).unwrap();
                Ok(())
            });
        };
        receives(3, &mut |bytes| Ok(ours.recv_from(bytes)?.1));
        receives(3, &mut |bytes| ours.recv(bytes).map(|_| there));
        receives(3, &mut |bytes| ours.peek_from(bytes).and_then(|_| Ok(ours.recv_from(bytes)?.1)));
        receives(0, &mut |bytes| {
            let (lease, from) = ours.recv_from_each().next().expect("it never ends")?;
            bytes[..4].copy_from_slice(&lease);
            Ok(from)
        });
    });
}

#[test]
fn descriptors_that_travel() {
    under_faults("descriptors_that_travel", || {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ends = [ours, theirs].map(ramie::os::unix::net::UnixStream::from);
        let file = File::open("/dev/null").unwrap();
        let mut is_sent = false;
        fails(|| {
            if !is_sent {
                ends[0].send_vectored_with_fds(&[IoSlice::new(b"!")], &[file.as_fd()])?;
            }
            is_sent = true;
            let (mut byte, mut fds) = ([0], Vec::new());
            let received =
                ends[1].recv_vectored_with_fds(&mut [IoSliceMut::new(&mut byte)], &mut fds)?;
            is_sent = false;
            assert_eq!((received.bytes, byte, fds.len()), (1, *b"!", 1));
            Ok(())
        });
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let ours = ramie::os::unix::net::UnixDatagram::from(ours);
        fails(|| {
            assert_eq!(ours.send(b"gram")?, 4);
            assert_eq!(theirs.recv(&mut [0; 8]).unwrap(), 4);
            Ok(())
        });
    });
}

/// Waits that another fiber, or nobody, has to end: a byte comes to the peer of `theirs`.
fn while_a_byte_comes<T>(mut theirs: &UnixStream, wait: impl FnOnce() -> T) -> T {
    fiber::scope(|s| {
        s.spawn_local(move || {
            fiber::yield_now();
            theirs.write_all(b"x").unwrap();
        });
        wait()
    })
}

/// All that is there.
fn drain(mut stream: &UnixStream) {
    stream.set_nonblocking(true).unwrap();
    while stream.read(&mut [0; 64]).is_ok() {}
    stream.set_nonblocking(false).unwrap();
}

#[test]
fn waits_for_readiness() {
    under_faults("waits_for_readiness", || {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let waits = |wait: &mut dyn FnMut() -> io::Result<()>| {
            fails(|| {
                drain(&ours);
                while_a_byte_comes(&theirs, &mut *wait)
            });
        };
        waits(&mut || ring::poll(&ours, PollFlags::IN).map(|ready| assert!(!ready.is_empty())));
        waits(&mut || {
            let mut polled = [Polled::readable(&ours)];
            assert_eq!(ramie::io::wait_any(&mut polled)?, 1);
            Ok(())
        });
        let set = epoll_of(&ours);
        waits(&mut || {
            let mut room = [const { MaybeUninit::uninit() }; 1];
            ring::epoll_wait(&set, &mut room).map(|events| assert_eq!(events.len(), 1))
        });
        let ours = Async::from_fd(ours.try_clone().unwrap()).unwrap();
        waits(&mut || ours.readable());
        waits(&mut || ours.with_read(|mut stream| stream.read(&mut [0])).map(|n| assert_eq!(n, 1)));
        fails(|| ours.writable());
        let mut each = ours.readable_each();
        may_fail(|| while_a_byte_comes(&theirs, || each.next().expect("it never ends")));
        may_fail(|| ours.writable_each().next().expect("it never ends"));
    });
}

fn epoll_of(fd: &impl AsRawFd) -> OwnedFd {
    // SAFETY: no pointers.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    // SAFETY: new, and nobody else's.
    let set: OwnedFd = unsafe { std::os::fd::FromRawFd::from_raw_fd(set) };
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
    let (set_fd, fd) = (set.as_raw_fd(), fd.as_raw_fd());
    // SAFETY: the event lies here.
    assert_eq!(unsafe { libc::epoll_ctl(set_fd, libc::EPOLL_CTL_ADD, fd, &mut event) }, 0);
    set
}

#[test]
fn waits_for_processes_and_signals() {
    under_faults("waits_for_processes_and_signals", || {
        tried(1, 0, || {
            let mut command = ramie::process::Command::new("cat");
            let mut child = spared(|| command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn());
            // The first closes its input, and it ends soon.
            let first = child.wait();
            assert!(spared(|| child.wait()).success(), "it can be waited for again");
            first
        });
        // Nobody can wait for one that is cancelled, so that is done in any case.
        tried(1, 0, || {
            let before = children();
            let status = || ramie::process::Command::new("sleep").arg("0.2").status();
            let late = cancel::with_timeout(Duration::from_millis(1), status);
            let error = late.unwrap_or_else(cancel::Elapsed::into_value).unwrap_err();
            if cancel::is_cancelled(&error) {
                assert_eq!(children(), before);
                return Ok(());
            }
            Err(error)
        });

        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        drop(child.stdin.take());
        let id = || WaitId::Pid(Pid::from_raw(child.id() as i32).unwrap());
        let left = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        may_fail(|| ring::waitid(id(), left).map(|end| assert_eq!(end.unwrap().status, 0)));
        child.wait().unwrap();

        let signals = ramie::signal::Signals::new([ramie::signal::Signal::USR1]).unwrap();
        let mut is_sent = false;
        fails(|| {
            let wait = || signals.wait();
            if is_sent { wait() } else { while_signalled(wait) }.inspect_err(|_| is_sent = true)?;
            is_sent = false;
            Ok(())
        });
        if is_sent {
            spared(|| signals.wait());
        }
    });
}

#[test]
fn other_waits() {
    under_faults("other_waits", || {
        fails(ring::nop);
        may_fail(|| ring::timeout(Duration::from_micros(10)));
        let word = AtomicU32::new(1);
        may_fail(|| match ring::futex_wait(&word, 0, FutexFlags::PRIVATE) {
            // The word is another, as it should be.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            result => result,
        });
        may_fail(|| ring::futex_wake(&word, 1, FutexFlags::PRIVATE));
        may_fail(|| ring::socket(AddressFamily::INET, SocketType::STREAM, None));
        let socket = spared(|| ring::socket(AddressFamily::INET, SocketType::STREAM, None));
        spared(|| ring::bind(&socket, SocketAddr::from(([127, 0, 0, 1], 0))));
        may_fail(|| ring::listen(&socket, 1));
        let (ours, _theirs) = UnixStream::pair().unwrap();
        may_fail(|| ring::shutdown(&ours, Shutdown::Write));
        let (from, to) = spared(ring::pipe);
        let (out, into) = spared(ring::pipe);
        let mut to = File::from(to);
        let mut out = io::PipeReader::from(out);
        let none = SpliceFlags::empty();
        may_fail(|| {
            to.write_all(b"x").unwrap();
            let moved = ring::splice(&from, None, &into, None, 1, none)?;
            assert_eq!((moved, rest(&mut out)), (1, b"x".to_vec()));
            Ok(())
        });
        to.write_all(b"x").unwrap();
        may_fail(|| {
            assert_eq!(ring::tee(&from, &into, 1, none)?, 1);
            assert_eq!(rest(&mut out), b"x");
            Ok(())
        });
    });
}

/// How many there are, dead ones among them.
fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    let lists = tasks.map(|task| of_task(task).unwrap_or_default());
    lists.map(|list| list.split_whitespace().count()).sum()
}

/// A signal comes meanwhile.
fn while_signalled<T>(wait: impl FnOnce() -> T) -> T {
    fiber::scope(|s| {
        s.spawn_local(|| {
            fiber::yield_now();
            let us = std::process::id() as i32;
            // SAFETY: it is listened to.
            assert_eq!(unsafe { libc::kill(us, libc::SIGUSR1) }, 0);
        });
        wait()
    })
}

/// Whatever the answer, the descriptor is closed.
#[test]
fn closes() {
    under_faults("closes", || {
        may_fail(|| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let closed = ring::close(ours);
            assert_eq!((&theirs).read(&mut [0]).unwrap(), 0);
            closed
        });
    });
}

/// A directory of its own, which is removed.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let id = std::thread::current().id();
        let name = format!("ramie-errno-{}-{id:?}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_by_the_ring() {
    under_faults("files_by_the_ring", || {
        let folder = Folder::new();
        let dir = File::open(&folder.0).unwrap();
        let (flags, mode) = (OFlags::CREATE | OFlags::RDWR, Mode::RUSR | Mode::WUSR);
        may_fail(|| ring::openat2(&dir, "file", flags, mode, ResolveFlags::BENEATH));
        let file = File::options().read(true).write(true).open(folder.0.join("file")).unwrap();
        may_fail(|| {
            let written = ring::write(&file, b"text", Some(0))?;
            assert!(std::fs::read(folder.0.join("file")).unwrap().starts_with(&b"text"[..written]));
            Ok(())
        });
        std::fs::write(folder.0.join("file"), b"text").unwrap();
        may_fail(|| {
            let mut bytes = [0; 8];
            let count = ring::read(&file, &mut bytes, Some(0))?;
            assert!(count > 0 && b"text".starts_with(&bytes[..count]));
            Ok(())
        });
        may_fail(|| ring::fallocate(&file, FallocateFlags::empty(), 0, 5000));
        may_fail(|| ring::ftruncate(&file, 4321));
        may_fail(|| ring::fadvise(&file, 0, 0, Advice::Normal));
        may_fail(|| ring::fsync(&file, false));
        let size = StatxFlags::SIZE;
        may_fail(|| {
            let statx = ring::statx(&dir, "file", AtFlags::empty(), size)?;
            assert_eq!(statx.stx_size, 4321);
            Ok(())
        });
        names(&dir);
        let attribute = ("user.ramie", b"value");
        let set = || ring::fsetxattr(&file, attribute.0, attribute.1, XattrFlags::empty());
        let has_attributes = loop {
            match set() {
                Ok(()) => break true,
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => break false,
                Err(error) => told(&error),
            }
        };
        if has_attributes {
            may_fail(set);
            may_fail(|| {
                let mut room = [0; 16];
                let count = ring::fgetxattr(&file, attribute.0, &mut room)?;
                assert_eq!(&room[..count], attribute.1);
                Ok(())
            });
        }
    });
}

/// A failed call has made, moved and removed nothing.
fn names(dir: &File) {
    let none = AtFlags::empty();
    for _ in 0..8 {
        spared(|| ring::mkdir(dir, "sub", Mode::RWXU));
        spared(|| ring::symlink("nowhere", dir, "link"));
        spared(|| ring::link(dir, "link", dir, "second", none));
        spared(|| ring::rename(dir, "second", dir, "sub/moved", RenameFlags::NOREPLACE));
        spared(|| ring::unlink(dir, "sub/moved", none));
        spared(|| ring::unlink(dir, "sub", AtFlags::REMOVEDIR));
        spared(|| ring::unlink(dir, "link", none));
    }
}

/// Those of std's names: at once, by the ring, or by the pool.
#[test]
fn files() {
    under_faults("files", || {
        let folder = Folder::new();
        let path = folder.0.join("file");
        let open = || ramie::fs::File::options().create(true).read(true).write(true).open(&path);
        may_fail(open);
        let mut file = spared(open);
        may_fail(|| file.write(b"text"));
        std::fs::write(&path, b"text").unwrap();
        may_fail(|| {
            io::Seek::rewind(&mut file)?;
            let mut bytes = [0; 8];
            let count = file.read(&mut bytes)?;
            assert!(count > 0 && b"text".starts_with(&bytes[..count]));
            Ok(())
        });
        may_fail(|| file.sync_all());
        may_fail(|| file.set_len(4));
        may_fail(|| ramie::fs::metadata(&path).map(|metadata| assert_eq!(metadata.len(), 4)));
        let (other, sub) = (folder.0.join("other"), folder.0.join("sub"));
        for _ in 0..8 {
            spared(|| ramie::fs::create_dir(&sub));
            spared(|| ramie::fs::rename(&path, &other));
            spared(|| ramie::fs::hard_link(&other, &path));
            spared(|| ramie::fs::remove_file(&other));
            spared(|| ramie::fs::remove_dir(&sub));
        }
    });
}
