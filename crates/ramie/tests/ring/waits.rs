//! The ring's calls that wait: on each driver, on a plain thread, as on older kernels; and how each
//! wait ends.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    net::{SocketAddr, TcpStream},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::{UnixDatagram, UnixStream},
    },
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use crate::common::{
    self,
    cancel::{ended, refused},
    everywhere, on_each,
};
use ramie::{
    cancel, fiber,
    ring::{
        self, Address, AddressFamily, EpollEvent, FutexFlags, Pid, PollFlags, RecvFlags, SendFlags,
        Shutdown, SocketType, SpliceFlags, WaitId, WaitIdOptions,
    },
};

const NONE: SpliceFlags = SpliceFlags::empty();
const EAGAIN: Option<i32> = Some(11);
const EBADF: Option<i32> = Some(9);
const ECANCELED: Option<i32> = Some(125);

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

/// Repeats a call that may be short until `len` bytes have moved; passes it the number of bytes so
/// far.
#[track_caller]
fn whole(len: usize, mut call: impl FnMut(usize) -> io::Result<usize>) {
    let mut moved = 0;
    while moved < len {
        let count = call(moved).unwrap();
        assert!(count > 0, "the end after {moved} of {len}");
        moved += count;
    }
    assert_eq!(moved, len);
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn listener() -> (OwnedFd, SocketAddr) {
    let listener = ring::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    ring::bind(&listener, loopback()).unwrap();
    ring::listen(&listener, 16).unwrap();
    let listener = std::net::TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    (listener.into(), address)
}

#[test]
fn all_calls_here_work_as_on_older_kernels() {
    for caps in ["linux-5.15", "linux-6.1", "linux-6.6", "-futex,-waitid,-tee"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let command = command.args(["waits::", "--skip", "older_kernels"]).env("RAMIE_CAPS", caps);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{caps}: {text}");
        assert!(!text.contains(" 0 passed"), "{caps}: {text}");
    }
}

#[test]
fn data_goes_through_pipes_in_one_buffer_and_in_several() {
    everywhere(|| {
        ring::nop().unwrap();
        let (from, to) = ring::pipe().unwrap();
        whole(3, |at| ring::write(&to, &b"abc"[at..], None));
        whole(3, |at| {
            let mut parts = &mut [IoSlice::new(b"de"), IoSlice::new(b"f")][..];
            IoSlice::advance_slices(&mut parts, at);
            ring::writev(&to, parts, None)
        });
        let mut bytes = [0; 6];
        whole(2, |at| ring::read(&from, &mut bytes[at..2], None));
        whole(4, |at| {
            let (first, second) = bytes[2..].split_at_mut(2);
            let mut parts = &mut [IoSliceMut::new(first), IoSliceMut::new(second)][..];
            IoSliceMut::advance_slices(&mut parts, at);
            ring::readv(&from, parts, None)
        });
        assert_eq!(&bytes, b"abcdef");
        assert_eq!(errno(ring::write(&to, b"x", Some(u64::MAX))), Some(22));
        drop(to);
        assert_eq!(ring::read(&from, &mut bytes, None).unwrap(), 0);
    });
}

#[test]
fn files_are_read_and_written_at_positions() {
    everywhere(|| {
        let path = std::env::temp_dir().join(format!("ramie-ring-at-{}", std::process::id()));
        let path = path.with_extension(format!("{:?}", std::thread::current().id()));
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        whole(10, |at| ring::write(&file, &b"0123456789"[at..], Some(5 + at as u64)));
        whole(2, |at| ring::writev(&file, &[IoSlice::new(&b"ab"[at..])], None));
        let mut bytes = [1; 20];
        whole(15, |at| ring::read(&file, &mut bytes[at..], Some(at as u64)));
        assert_eq!(&bytes[..15], b"ab\0\0\x000123456789");
        whole(13, |_| ring::readv(&file, &mut [IoSliceMut::new(&mut bytes)], None));
        assert_eq!(ring::read(&file, &mut bytes, None).unwrap(), 0);
        let ready = ring::poll(&file, PollFlags::IN).unwrap();
        assert!(ready.contains(PollFlags::IN), "a file is always ready");
    });
}

#[test]
fn connections_are_made_accepted_used_and_ended() {
    everywhere(|| {
        let (listener, address) = listener();
        let client = ring::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        ring::connect(&client, address).unwrap();
        let (server, from) = ring::accept(&listener).unwrap();
        let client = TcpStream::from(client);
        assert_eq!(from.to_ip().unwrap(), client.local_addr().unwrap());
        assert!(from.to_unix().is_err());
        whole(8, |at| ring::send(&client, &b"question"[at..], SendFlags::empty()));
        let mut bytes = [0; 16];
        assert!(ring::recv(&server, &mut bytes, RecvFlags::PEEK).unwrap() > 0);
        whole(8, |at| ring::recv(&server, &mut bytes[at..], RecvFlags::empty()));
        assert_eq!(&bytes[..8], b"question");
        let nothing = ring::recv(&server, &mut bytes, RecvFlags::DONTWAIT);
        assert_eq!(errno(nothing), EAGAIN);
        ring::shutdown(&client, Shutdown::Write).unwrap();
        assert_eq!(ring::recv(&server, &mut bytes, RecvFlags::empty()).unwrap(), 0);
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        let client = ring::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        assert_eq!(errno(ring::connect(&client, nobody)), Some(111));
    });
}

#[test]
fn messages_carry_addresses_and_report_truncation() {
    everywhere(|| {
        let socket = || ring::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        let (one, two) = (socket(), socket());
        ring::bind(&two, loopback()).unwrap();
        let two = std::net::UdpSocket::from(two);
        let to = Address::from(two.local_addr().unwrap());
        let parts = [IoSlice::new(b"in "), IoSlice::new(b"parts")];
        assert_eq!(ring::sendmsg(&one, &parts, Some(&to), SendFlags::DONTWAIT).unwrap(), 8);
        let one = std::net::UdpSocket::from(one);
        let mut bytes = [0; 4];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let message = ring::recvmsg(&two, &mut parts, RecvFlags::empty()).unwrap();
        assert_eq!((message.bytes, message.is_truncated), (4, true));
        let port = one.local_addr().unwrap().port();
        assert_eq!(message.from.to_ip().unwrap(), SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(&bytes, b"in p");
        let (a, b) = UnixDatagram::pair().unwrap();
        assert_eq!(ring::send(&a, b"x", SendFlags::DONTWAIT).unwrap(), 1);
        assert_eq!(ring::recv(&b, &mut bytes, RecvFlags::empty()).unwrap(), 1);
    });
}

#[test]
fn bytes_move_from_pipe_to_pipe_and_from_file_to_pipe() {
    everywhere(|| {
        let ((from, into), (out, to)) = (ring::pipe().unwrap(), ring::pipe().unwrap());
        (&File::from(into.try_clone().unwrap())).write_all(b"abcdef").unwrap();
        assert_eq!(ring::tee(&from, &to, 3, NONE).unwrap(), 3);
        assert_eq!(ring::splice(&from, None, &to, None, 100, NONE).unwrap(), 6);
        let mut bytes = [0; 16];
        whole(9, |at| ring::read(&out, &mut bytes[at..], None));
        assert_eq!(&bytes[..9], b"abcabcdef");
        let nothing = ring::splice(&from, None, &to, None, 1, SpliceFlags::NONBLOCK);
        assert_eq!(errno(nothing), EAGAIN);
        let program = File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(ring::splice(&program, Some(1), &to, None, 3, NONE).unwrap(), 3);
        whole(3, |at| ring::read(&out, &mut bytes[at..], None));
        assert_eq!(&bytes[..3], b"ELF");
        // `tee` waits for further data.
        fiber::scope(|s| {
            let moved = s.spawn_local(|| ring::splice(&from, None, &to, None, 100, NONE));
            fiber::yield_now();
            (&File::from(into.try_clone().unwrap())).write_all(b"late").unwrap();
            assert_eq!(moved.join().unwrap().unwrap(), 4);
        });
        drop(into);
        assert_eq!(ring::splice(&from, None, &to, None, 100, NONE).unwrap(), 0);
    });
}

#[test]
fn an_epoll_loop_of_other_code_waits_on_a_strand() {
    everywhere(|| {
        let set = epoll();
        let (ours, theirs) = UnixStream::pair().unwrap();
        add(&set, &ours, 7);
        let mut room = [const { MaybeUninit::<EpollEvent>::uninit() }; 4];
        fiber::scope(|s| {
            s.spawn_local(|| {
                fiber::yield_now();
                (&theirs).write_all(b"x").unwrap();
            });
            let events = ring::epoll_wait(&set, &mut room).unwrap();
            let data = events[0].data;
            assert_eq!((events.len(), data.u64()), (1, 7));
        });
        assert_eq!(errno(ring::epoll_wait(&set, &mut [])), Some(22));
        assert!(ring::poll(&ours, PollFlags::IN).unwrap().contains(PollFlags::IN));
    });
}

fn epoll() -> OwnedFd {
    // SAFETY: the call has no pointers.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    // SAFETY: the call has returned a new descriptor.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
}

fn add(set: &OwnedFd, fd: &impl AsFd, data: u64) {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: data };
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the event lies in this frame.
    let added = unsafe { libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
    assert_eq!(added, 0);
}

#[test]
fn children_are_waited_for() {
    everywhere(|| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read x; exit 3"]).stdin(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let id = || WaitId::Pid(Pid::from_raw(child.id() as i32).unwrap());
        let hurry = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        assert!(ring::waitid(id(), hurry).unwrap().is_none(), "it runs");
        let end = fiber::scope(|s| {
            let end = s.spawn_local(|| ring::waitid(id(), WaitIdOptions::EXITED));
            fiber::yield_now();
            child.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
            end.join().unwrap().unwrap().unwrap()
        });
        assert_eq!((end.pid as u32, end.code, end.status), (child.id(), 1, 3));
        let again = ring::waitid(id(), WaitIdOptions::EXITED);
        assert_eq!(errno(again), Some(10));
        assert!(child.wait().is_err(), "it has been waited for");
    });
}

#[test]
fn a_futex_works_between_threads_and_fibers() {
    everywhere(|| {
        let private = FutexFlags::PRIVATE;
        let word = Arc::new(AtomicU32::new(0));
        assert_eq!(errno(ring::futex_wait(&word, 1, private)), EAGAIN);
        assert_eq!(ring::futex_wake(&word, 1, private).unwrap(), 0);
        let theirs = Arc::clone(&word);
        let thread = std::thread::spawn(move || {
            theirs.store(1, Ordering::Release);
            ring::futex_wake(&theirs, u32::MAX, private).unwrap();
            while theirs.load(Ordering::Acquire) == 1 {
                let _ = ring::futex_wait(&theirs, 1, private);
            }
        });
        while word.load(Ordering::Acquire) == 0 {
            let _ = ring::futex_wait(&word, 0, private);
        }
        word.store(2, Ordering::Release);
        ring::futex_wake(&word, 1, private).unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn a_timeout_of_the_kernel_ends_after_its_duration() {
    everywhere(|| {
        let (started, limit) = (Instant::now(), Duration::from_millis(3));
        ring::timeout(limit).unwrap();
        assert!(started.elapsed() >= limit);
    });
}

/// Whether a descriptor with this number is open.
fn is_open(fd: i32) -> bool {
    std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok()
}

#[test]
fn close_closes_the_descriptor() {
    everywhere(|| {
        let (from, to) = UnixStream::pair().unwrap();
        ring::close(from).unwrap();
        assert_eq!((&to).read(&mut [0]).unwrap(), 0);
        // Also in a cancelled scope.
        let (from, to) = UnixStream::pair().unwrap();
        cancel::scope(|scope| {
            scope.cancel();
            ring::close(from).unwrap();
        });
        assert_eq!((&to).read(&mut [0]).unwrap(), 0);
        // The other end sees the close, although no strand waits for it.
        let (from, to) = UnixStream::pair().unwrap();
        ring::close_async(from);
        assert_eq!(ring::recv(&to, &mut [0], RecvFlags::empty()).unwrap(), 0);
    });
}

#[test]
fn delayed_closes_are_complete_when_the_runtime_ends() {
    on_each(&[1, 2], |runtime| {
        let (from, to) = UnixStream::pair().unwrap();
        runtime.run(move || ring::close_async(from));
        assert_eq!((&to).read(&mut [0]).unwrap(), 0);
        assert!(is_open(to.as_raw_fd()));
    });
}

#[test]
fn waits_are_cancelled_by_descriptor_or_all_together() {
    let pipes = || [ring::pipe().unwrap(), ring::pipe().unwrap()];
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let [(one, to_one), (two, to_two)] = pipes();
            fiber::scope(|s| {
                // Dropping these ends the reads if this test fails.
                let (_to_one, to_two) = (to_one, to_two);
                let ended = s.spawn_local(|| errno(ring::read(&one, &mut [0], None)));
                let spared = s.spawn_local(|| ring::read(&two, &mut [0], None));
                while ring::cancel_fd(&one) == 0 {
                    assert!(!ended.is_finished());
                    fiber::yield_now();
                }
                assert_eq!(ended.join().unwrap(), ECANCELED);
                ring::write(&to_two, b"x", None).unwrap();
                assert_eq!(spared.join().unwrap().unwrap(), 1);
            });
            let [(one, to_one), (two, to_two)] = pipes();
            fiber::scope(|s| {
                let _ends = (to_one, to_two);
                let reads = [&one, &two]
                    .map(|fd| s.spawn_local(move || errno(ring::read(fd, &mut [0], None))));
                let mut count = 0;
                while count < 2 {
                    assert!(reads.iter().filter(|read| read.is_finished()).count() <= count);
                    fiber::yield_now();
                    count += ring::cancel_all();
                }
                for read in reads {
                    assert_eq!(read.join().unwrap(), ECANCELED);
                }
            });
            assert_eq!(ring::cancel_fd(&one), 0);
        });
    });
}

#[test]
fn a_message_goes_to_a_foreign_ring() {
    let has_ring = common::has_ring();
    everywhere(|| {
        let file = File::open("/dev/null").unwrap();
        // SAFETY: the descriptor is no ring, so no owner of one gets the word.
        let refused = errno(unsafe { ring::msg_ring(&file, 0, 1) });
        // Without io_uring no message is sent.
        assert!(matches!(refused, Some(77 | 22)) || !has_ring, "{refused:?}");
    });
}

#[test]
fn waits_are_cancel_points() {
    everywhere(|| {
        let ((from, to), (_out, into)) = (ring::pipe().unwrap(), ring::pipe().unwrap());
        let (stream, _peer) = UnixStream::pair().unwrap();
        let (listener, _) = listener();
        let (set, word) = (epoll(), AtomicU32::new(0));
        // Dropped, and so ended, with the test, even if the test fails.
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let id = || WaitId::Pid(Pid::from_raw(child.id() as i32).unwrap());
        ended("read", || ring::read(&from, &mut [0], None));
        ended("readv", || ring::readv(&from, &mut [IoSliceMut::new(&mut [0])], None));
        ended("recv", || ring::recv(&stream, &mut [0], RecvFlags::empty()));
        ended("recv_bundle", || ring::recv_bundle(&stream));
        ended("recvmsg", || {
            ring::recvmsg(&stream, &mut [IoSliceMut::new(&mut [0])], RecvFlags::empty())
        });
        ended("accept", || ring::accept(&listener));
        ended("poll", || ring::poll(&from, PollFlags::IN));
        ended("splice", || ring::splice(&from, None, &into, None, 1, NONE));
        ended("tee", || ring::tee(&from, &into, 1, NONE));
        ended("epoll_wait", || {
            let mut room = [const { MaybeUninit::uninit() }; 1];
            ring::epoll_wait(&set, &mut room).map(|events| events.len())
        });
        ended("futex_wait", || ring::futex_wait(&word, 0, FutexFlags::PRIVATE));
        ended("timeout", || ring::timeout(Duration::from_secs(600)));
        ended("waitid", || ring::waitid(id(), WaitIdOptions::EXITED));
        let full = vec![0; 1 << 20];
        while ring::send(&stream, &full, SendFlags::DONTWAIT).is_ok() {}
        ended("send", || ring::send(&stream, &full, SendFlags::empty()));
        ended("sendmsg", || {
            ring::sendmsg(&stream, &[IoSlice::new(&full)], None, SendFlags::empty())
        });
        // In one write, because short writes would leave room in the pipe's pages, and the pipe
        // would take fewer bytes.
        (&File::from(to.try_clone().unwrap())).write_all(&full[..65536]).unwrap();
        ended("write", || ring::write(&to, b"x", None));
        ended("writev", || ring::writev(&to, &[IoSlice::new(b"x")], None));
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn calls_that_do_not_wait_are_cancel_points_too() {
    everywhere(|| {
        let socket = ring::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let word = AtomicU32::new(0);
        refused("nop", ring::nop);
        refused("pipe", ring::pipe);
        refused("socket", || ring::socket(AddressFamily::INET, SocketType::STREAM, None));
        refused("bind", || ring::bind(&socket, loopback()));
        refused("listen", || ring::listen(&socket, 1));
        refused("shutdown", || ring::shutdown(&socket, Shutdown::Both));
        refused("connect", || ring::connect(&socket, loopback()));
        refused("futex_wake", || ring::futex_wake(&word, 1, FutexFlags::empty()));
        // SAFETY: the descriptor is no ring, so no owner of one gets the word.
        refused("msg_ring", || unsafe { ring::msg_ring(&socket, 0, 1) });
        let unbound = std::net::TcpListener::from(socket);
        assert_eq!(unbound.local_addr().map(|address| address.port()).unwrap_or(0), 0);
    });
}

#[test]
fn mistakes_are_errors_of_the_call() {
    everywhere(|| {
        // SAFETY: the number is above the limit of descriptors, so the calls find none open there.
        let nothing = unsafe { std::os::fd::BorrowedFd::borrow_raw(900_000) };
        assert_eq!(errno(ring::shutdown(nothing, Shutdown::Both)), EBADF);
        assert_eq!(errno(ring::recv(nothing, &mut [0], RecvFlags::empty())), EBADF);
        assert_eq!(errno(ring::recv_bundle(nothing)), EBADF);
        assert_eq!(errno(ring::splice(nothing, None, nothing, None, 1, NONE)), EBADF);
        let not_readable = ring::poll(nothing, PollFlags::IN);
        assert!(
            not_readable.as_ref().is_ok_and(|ready| ready.contains(PollFlags::NVAL))
                || errno(not_readable) == EBADF
        );
    });
}

/// Waits in its destructor.
struct Waits(i32);

impl Drop for Waits {
    fn drop(&mut self) {
        let (from, _to) = ring::pipe().unwrap();
        let (_from, into) = ring::pipe().unwrap();
        let child = WaitId::Pid(Pid::from_raw(self.0).unwrap());
        assert!(ring::read(&from, &mut [0], None).is_err());
        assert!(ring::splice(&from, None, &into, None, 1, NONE).is_err());
        assert!(ring::waitid(child, WaitIdOptions::STOPPED).is_err());
        let _ = ring::futex_wait(&AtomicU32::new(0), 0, FutexFlags::PRIVATE);
        let _ = ring::timeout(Duration::from_secs(600));
        ring::close(from).unwrap();
    }
}

#[test]
fn waits_end_on_a_strand_that_unwinds() {
    on_each(&[1], |runtime| {
        let mut cat = Command::new("cat");
        let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let id = child.id() as i32;
        let panicked = runtime.run(|| {
            let fiber = fiber::spawn(move || {
                let _waits = Waits(id);
                panic!("on purpose");
            });
            fiber.join().is_err()
        });
        assert!(panicked);
        child.kill().unwrap();
        child.wait().unwrap();
    });
}
