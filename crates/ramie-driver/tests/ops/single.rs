//! Every op, on both drivers.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;

use crate::support::{self, both, both_sized, finish, in_child, run, submit};
use ramie_driver::{
    CURRENT_POSITION, Config, Feature, FeatureSet, IoVec, Kind, MessageHeader, Op, OpFrame,
    SockAddrStorage, Wait, sys,
};

fn recv(fd: &impl AsRawFd, buf: &mut [u8], flags: i32) -> Op {
    Op::Recv { fd: fd.as_raw_fd(), buf: buf.as_mut_ptr(), len: buf.len() as u32, flags }
}

fn send(fd: &impl AsRawFd, buf: &[u8], flags: i32) -> Op {
    Op::Send { fd: fd.as_raw_fd(), buf: buf.as_ptr(), len: buf.len() as u32, flags }
}

fn read(fd: &impl AsRawFd, buf: &mut [u8], offset: u64) -> Op {
    Op::Read { fd: fd.as_raw_fd(), buf: buf.as_mut_ptr(), len: buf.len() as u32, offset }
}

fn write(fd: &impl AsRawFd, buf: &[u8], offset: u64) -> Op {
    Op::Write { fd: fd.as_raw_fd(), buf: buf.as_ptr(), len: buf.len() as u32, offset }
}

fn connect(fd: RawFd, addr: &(SockAddrStorage, u32)) -> Op {
    Op::Connect { fd, addr: &raw const addr.0, addr_len: addr.1 }
}

fn iov(buf: &mut [u8]) -> IoVec {
    IoVec { base: buf.as_mut_ptr(), len: buf.len() }
}

/// A file without a name.
fn temporary_file() -> File {
    let name = std::ffi::CString::new("ramie-driver-test").unwrap();
    // SAFETY: a valid name; the descriptor is ours alone.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: just made.
    unsafe { File::from_raw_fd(fd) }
}

fn set_nonblocking(fd: &impl std::os::fd::AsFd) {
    sys::set_nonblocking(fd, true).unwrap();
}

/// Reads all available bytes, because a socket is writable again when most of its room is free.
fn read_all(stream: &mut UnixStream) {
    set_nonblocking(stream);
    while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
}

/// Submits an op that has to wait, checks that it does, makes it ready, and finishes it.
fn wait_for(driver: &mut ramie_driver::Driver, op: Op, make_ready: impl FnOnce()) -> i32 {
    let frame = OpFrame::new(op);
    assert!(submit(driver, &frame), "{op:?} has to wait");
    for _ in 0..3 {
        driver.turn(Wait::Never).unwrap();
    }
    assert!(!frame.is_complete(), "{op:?} has nothing to complete with: {}", frame.result());
    make_ready();
    finish(driver, &frame)
}

#[test]
fn nop_completes_with_zero() {
    both(|driver| assert_eq!(run(driver, Op::Nop), 0));
}

#[test]
fn receive_waits_for_data_and_sees_the_end() {
    both(|driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut buf = [0u8; 16];
        let op = recv(&ours, &mut buf, 0);
        assert_eq!(wait_for(driver, op, || theirs.write_all(b"hello").unwrap()), 5);
        assert_eq!(&buf[..5], b"hello");
        let op = recv(&ours, &mut buf, 0);
        assert_eq!(wait_for(driver, op, || drop(theirs)), 0);
    });
}

#[test]
fn receive_can_peek_and_can_refuse_to_wait() {
    both(|driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut buf = [0u8; 16];
        assert_eq!(run(driver, recv(&ours, &mut buf, sys::MSG_DONTWAIT)), -libc::EAGAIN);
        theirs.write_all(b"abc").unwrap();
        assert_eq!(run(driver, recv(&ours, &mut buf, sys::MSG_PEEK)), 3);
        assert_eq!(run(driver, recv(&ours, &mut buf, sys::MSG_DONTWAIT)), 3);
        assert_eq!(run(driver, recv(&ours, &mut buf, sys::MSG_DONTWAIT)), -libc::EAGAIN);
    });
}

#[test]
fn ops_wait_on_nonblocking_descriptors_too() {
    both(|driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        set_nonblocking(&ours);
        let mut buf = [0u8; 16];
        let op = recv(&ours, &mut buf, 0);
        assert_eq!(wait_for(driver, op, || theirs.write_all(b"hello").unwrap()), 5);
        let op = read(&ours, &mut buf, CURRENT_POSITION);
        assert_eq!(wait_for(driver, op, || theirs.write_all(b"again").unwrap()), 5);
    });
}

#[test]
fn files_that_cannot_be_asked_not_to_wait_are_polled() {
    both(|driver| {
        let directory = std::env::temp_dir().join(format!("ramie-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = std::ffi::CString::new(directory.to_str().unwrap()).unwrap();
        for flags in [0, libc::IN_NONBLOCK] {
            // SAFETY: no preconditions.
            let fd = unsafe { libc::inotify_init1(flags | libc::IN_CLOEXEC) };
            assert!(fd >= 0);
            // SAFETY: just made for us.
            let watch = unsafe { OwnedFd::from_raw_fd(fd) };
            // SAFETY: the path is a string of C.
            unsafe { libc::inotify_add_watch(fd, path.as_ptr(), libc::IN_CREATE) };
            let mut buf = [0u8; 512];
            let op = read(&watch, &mut buf, CURRENT_POSITION);
            let file = directory.join(format!("{}-{flags}", driver.kind().name()));
            assert!(wait_for(driver, op, || std::fs::write(&file, "").unwrap()) > 0);
        }
        std::fs::remove_dir_all(&directory).unwrap();
    });
}

#[test]
fn data_out_of_band_does_not_keep_the_driver_busy() {
    both(|driver| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        let mut buf = [0u8; 8];
        let frame = OpFrame::new(recv(&ours, &mut buf, 0));
        assert!(submit(driver, &frame));
        driver.turn(Wait::Never).unwrap();
        // SAFETY: one valid byte.
        let sent =
            unsafe { libc::send(theirs.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) };
        assert_eq!(sent, 1);
        let started = std::time::Instant::now();
        let mut turns = 0;
        while started.elapsed() < std::time::Duration::from_millis(20) {
            let limit = Some(std::time::Duration::from_millis(20));
            driver.turn(Wait::Until(limit)).unwrap();
            turns += 1;
        }
        assert!(turns < 10, "{turns} turns in 20 ms");
        theirs.write_all(b"data").unwrap();
        assert_eq!(finish(driver, &frame), 4);
    });
}

#[test]
fn send_waits_for_room_and_raises_no_signal() {
    both(|driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let data = vec![7u8; 1 << 16];
        while run(driver, send(&ours, &data, sys::MSG_DONTWAIT)) != -libc::EAGAIN {}
        let sent = wait_for(driver, send(&ours, &data, 0), || {
            read_all(&mut theirs);
        });
        assert!(sent > 0, "{sent}");
    });
    in_child("child_sends_to_a_closed_peer", None);
}

#[test]
#[ignore = "run in a child by send_waits_for_room_and_raises_no_signal"]
fn child_sends_to_a_closed_peer() {
    // SAFETY: the default action would end the process, which is the point.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    both(|driver| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let sent = run(driver, send(&ours, b"late", 0));
        assert!([-libc::EPIPE, -libc::ECONNRESET].contains(&sent), "{sent}");
    });
}

#[test]
fn files_are_read_and_written_at_positions() {
    both(|driver| {
        let mut file = temporary_file();
        assert_eq!(run(driver, write(&file, b"0123456789", 0)), 10);
        assert_eq!(run(driver, write(&file, b"xy", 4)), 2);
        let mut buf = [0u8; 16];
        assert_eq!(run(driver, read(&file, &mut buf, 3)), 7);
        assert_eq!(&buf[..7], b"3xy6789");
        assert_eq!(run(driver, read(&file, &mut buf, 99)), 0);
        file.seek(SeekFrom::Start(8)).unwrap();
        assert_eq!(run(driver, read(&file, &mut buf, CURRENT_POSITION)), 2);
        assert_eq!(file.stream_position().unwrap(), 10);
    });
}

/// A pipe that does not know `RWF_NOWAIT`: each before Linux 6.4, since then one that was spliced.
fn old_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let (from, mut to) = std::io::pipe().unwrap();
    to.write_all(b"x").unwrap();
    let (none, fds) = (std::ptr::null_mut(), (from.as_raw_fd(), writer.as_raw_fd()));
    // SAFETY: both are open, and there are no offsets.
    assert_eq!(unsafe { libc::splice(fds.0, none, fds.1, none, 1, 0) }, 1);
    reader.read_exact(&mut [0]).unwrap();
    (reader, writer)
}

#[test]
fn parts_are_gathered_though_the_pipe_knows_no_flag_against_waiting() {
    both(|driver| {
        let (mut reader, writer) = old_pipe();
        let (mut a, mut b, mut long) = (*b"one", *b"two", [3; 5000]);
        let parts = [iov(&mut []), iov(&mut a), iov(&mut []), iov(&mut b)];
        let (fd, count) = (writer.as_raw_fd(), 4);
        let op = Op::WriteVectored { fd, iov: parts.as_ptr(), count, offset: CURRENT_POSITION };
        assert_eq!(run(driver, op), 6);
        // As much as surely goes without waiting, at least.
        let parts = [iov(&mut a), iov(&mut long), iov(&mut b)];
        let op = Op::WriteVectored { fd, iov: parts.as_ptr(), count: 3, offset: CURRENT_POSITION };
        let written = run(driver, op);
        assert!((4096..=5006).contains(&written), "{written}");
        let mut all = vec![0; 6 + written as usize];
        reader.read_exact(&mut all).unwrap();
        let whole = [&b"onetwoone"[..], &long, b"two"].concat();
        assert_eq!(all, whole[..all.len()]);
    });
}

#[test]
fn files_are_read_and_written_in_parts() {
    both(|driver| {
        let file = temporary_file();
        let (mut a, mut b) = (*b"hello ", *b"world");
        let parts = [iov(&mut a), iov(&mut b)];
        let (fd, count) = (file.as_raw_fd(), 2);
        let op = Op::WriteVectored { fd, iov: parts.as_ptr(), count, offset: 0 };
        assert_eq!(run(driver, op), 11);
        let (mut c, mut d) = ([0u8; 3], [0u8; 20]);
        let parts = [iov(&mut c), iov(&mut d)];
        let op = Op::ReadVectored { fd, iov: parts.as_ptr(), count, offset: 0 };
        assert_eq!(run(driver, op), 11);
        assert_eq!((&c, &d[..8]), (b"hel", &b"lo world"[..]));
    });
}

#[test]
fn pipes_wait_at_any_offset() {
    both(|driver| {
        for offset in [0, CURRENT_POSITION] {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let mut buf = [0u8; 16];
            let op = read(&reader, &mut buf, offset);
            assert_eq!(wait_for(driver, op, || writer.write_all(b"pipe").unwrap()), 4);
            assert_eq!(&buf[..4], b"pipe");
            assert_eq!(run(driver, write(&writer, b"on", offset)), 2);
        }
    });
}

#[test]
fn a_full_pipe_holds_the_writer_up() {
    both(|driver| {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let data = vec![1u8; 1 << 20];
        let mut total = 0;
        let frame = loop {
            let frame = Box::new(OpFrame::new(write(&writer, &data, CURRENT_POSITION)));
            if submit(driver, &frame) {
                for _ in 0..3 {
                    driver.turn(Wait::Never).unwrap();
                }
                if !frame.is_complete() {
                    break frame;
                }
                while driver.pop_complete().is_some() {}
            }
            total += usize::try_from(frame.result()).unwrap();
        };
        reader.read_exact(&mut vec![0; total.clamp(1, 1 << 16)]).unwrap();
        // io_uring moves the whole of a write to a pipe in one of its threads: read it away.
        let drain = std::thread::spawn(move || {
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).unwrap();
            rest.len()
        });
        assert!(finish(driver, &frame) > 0);
        drop(writer);
        drain.join().unwrap();
    });
}

#[test]
fn character_devices_are_read_and_written() {
    both(|driver| {
        let zero = File::open("/dev/zero").unwrap();
        let mut buf = [1u8; 8];
        assert_eq!(run(driver, read(&zero, &mut buf, 0)), 8);
        assert_eq!(buf, [0; 8]);
        let null = File::options().write(true).open("/dev/null").unwrap();
        assert_eq!(run(driver, write(&null, b"gone", 0)), 4);
        let random = File::open("/dev/urandom").unwrap();
        assert_eq!(run(driver, read(&random, &mut buf, 0)), 8);
    });
}

#[test]
fn a_length_beyond_the_kernels_is_cut() {
    both(|driver| {
        let null = File::options().write(true).open("/dev/null").unwrap();
        let byte = 0u8;
        // /dev/null never looks at the bytes.
        let (fd, buf) = (null.as_raw_fd(), &raw const byte);
        let op = Op::Write { fd, buf, len: u32::MAX, offset: 0 };
        let written = run(driver, op);
        // Before Linux 5.16 /dev/null knows no request not to wait, so a polling driver writes no
        // more than a pipe takes for certain.
        let is_old = driver.caps().kind == Kind::Poll && !support::kernel_is_at_least(5, 16);
        let is_cut = [0x7fff_f000, -libc::EFAULT].contains(&written);
        assert!(is_cut || is_old && written == 4096, "{written}");
    });
}

#[test]
fn messages_carry_parts_and_addresses() {
    both(|driver| {
        let (ours, theirs) = (udp(), udp());
        let (mut a, mut b) = (*b"ab", *b"cde");
        let mut parts = [iov(&mut a), iov(&mut b)];
        let (mut to, to_len) = SockAddrStorage::from_std(&theirs.local_addr().unwrap());
        let mut message = MessageHeader::vectored(parts.as_mut_ptr(), 2);
        (message.name, message.name_len) = (&raw mut to, to_len);
        let (fd, flags) = (ours.as_raw_fd(), 0);
        let op = Op::SendMessage { fd, message: &raw const message, flags };
        assert_eq!(run(driver, op), 5);

        let (mut c, mut d) = ([0u8; 4], [0u8; 4]);
        let mut parts = [iov(&mut c), iov(&mut d)];
        let mut from = SockAddrStorage::new();
        let mut message = MessageHeader::vectored(parts.as_mut_ptr(), 2);
        (message.name, message.name_len) = (&raw mut from, SockAddrStorage::LEN);
        let message = &raw mut message;
        let op = Op::RecvMessage { fd: theirs.as_raw_fd(), message, flags };
        assert_eq!(run(driver, op), 5);
        assert_eq!((&c, d[0]), (b"abcd", b'e'));
        // SAFETY: ours; the op is complete.
        let from_len = unsafe { (*message).name_len };
        assert_eq!(from.to_std(from_len), Some(ours.local_addr().unwrap()));
        assert_eq!(
            wait_for(driver, op, || drop(ours.send_to(b"x", theirs.local_addr().unwrap()))),
            1
        );
    });
}

fn udp() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

#[test]
fn accept_waits_whether_the_listener_blocks_or_not() {
    both(|driver| {
        for nonblocking in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(nonblocking).unwrap();
            let addr = listener.local_addr().unwrap();
            let mut peer = SockAddrStorage::new();
            let mut peer_len = SockAddrStorage::LEN;
            let op = Op::Accept {
                fd: listener.as_raw_fd(),
                addr: &raw mut peer,
                addr_len: &raw mut peer_len,
                flags: sys::SOCK_CLOEXEC,
            };
            let mut client = None;
            let fd = wait_for(driver, op, || client = Some(TcpStream::connect(addr).unwrap()));
            assert!(fd >= 0, "{fd}");
            // SAFETY: the kernel has just made it for us.
            let stream = TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
            let client = client.unwrap().local_addr().unwrap();
            assert_eq!(stream.peer_addr().unwrap(), client);
            assert_eq!(peer.to_std(peer_len), Some(client));
        }
    });
}

#[test]
fn many_accepts_on_one_listener_each_get_one() {
    both(|driver| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let op = Op::Accept {
            fd: listener.as_raw_fd(),
            addr: ptr::null_mut(),
            addr_len: ptr::null_mut(),
            flags: sys::SOCK_CLOEXEC,
        };
        let frames: Vec<_> = (0..20).map(|_| OpFrame::new(op)).collect();
        for frame in &frames {
            assert!(submit(driver, frame));
        }
        driver.turn(Wait::Never).unwrap();
        let addr = listener.local_addr().unwrap();
        let _clients: Vec<_> = (0..20).map(|_| TcpStream::connect(addr).unwrap()).collect();
        let mut fds = std::collections::HashSet::new();
        for frame in &frames {
            let fd = finish(driver, frame);
            assert!(fd >= 0 && fds.insert(fd));
        }
        for fd in fds {
            // SAFETY: the kernel has made it for us.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    });
}

fn tcp_socket(nonblocking: bool) -> OwnedFd {
    sys::socket(sys::AddressFamily::INET, sys::SocketType::STREAM, nonblocking).unwrap()
}

#[test]
fn connect_succeeds_or_reports_the_reason() {
    both(|driver| {
        for nonblocking in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let addr = SockAddrStorage::from_std(&listener.local_addr().unwrap());
            let socket = tcp_socket(nonblocking);
            assert_eq!(run(driver, connect(socket.as_raw_fd(), &addr)), 0);
            assert_eq!(sys::is_nonblocking(&socket).unwrap(), nonblocking);
            assert_eq!(sys::peer_addr(&socket).unwrap(), listener.local_addr().unwrap());
            drop(listener);
            let socket = tcp_socket(nonblocking);
            let refused = run(driver, connect(socket.as_raw_fd(), &addr));
            assert_eq!(refused, -libc::ECONNREFUSED);
        }
    });
}

#[test]
fn poll_returns_the_current_events() {
    both(|driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let fd = ours.as_raw_fd();
        let (pollin, pollout) = (sys::POLL_IN, sys::POLL_OUT);
        assert_eq!(run(driver, Op::Poll { fd, events: pollout }), pollout as i32);
        assert_eq!(run(driver, Op::Poll { fd, events: pollin | pollout }), pollout as i32);
        let op = Op::Poll { fd, events: pollin };
        assert_eq!(wait_for(driver, op, || theirs.write_all(b"x").unwrap()), pollin as i32);
        let both_ways = Op::Poll { fd, events: pollin | pollout };
        assert_eq!(run(driver, both_ways), (pollin | pollout) as i32);
        drop(theirs);
        let hung_up = run(driver, Op::Poll { fd, events: pollin }) as u32;
        assert!(hung_up & sys::POLL_HUP != 0, "{hung_up:#x}");
    });
}

#[test]
fn poll_for_either_way_wakes_by_the_one_that_comes() {
    both(|driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let data = vec![7u8; 1 << 16];
        while run(driver, send(&ours, &data, sys::MSG_DONTWAIT)) != -libc::EAGAIN {}
        let op = Op::Poll { fd: ours.as_raw_fd(), events: sys::POLL_IN | sys::POLL_OUT };
        let came = wait_for(driver, op, || theirs.write_all(b"x").unwrap());
        assert_eq!(came as u32, sys::POLL_IN);
    });
}

#[test]
fn a_reader_and_a_writer_wait_on_one_descriptor() {
    both(|driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let data = vec![7u8; 1 << 16];
        while run(driver, send(&ours, &data, sys::MSG_DONTWAIT)) != -libc::EAGAIN {}
        let mut buf = [0u8; 4];
        let reader = OpFrame::new(recv(&ours, &mut buf, 0));
        let writer = OpFrame::new(send(&ours, &data, 0));
        assert!(submit(driver, &reader) && submit(driver, &writer));
        driver.turn(Wait::Never).unwrap();
        theirs.write_all(b"data").unwrap();
        assert_eq!(finish(driver, &reader), 4);
        assert!(!writer.is_complete());
        read_all(&mut theirs);
        assert!(finish(driver, &writer) > 0);
    });
}

#[test]
fn a_closed_number_is_an_error_of_the_op() {
    both(|driver| {
        let mut buf = [0u8; 4];
        for fd in [-1, 1_000_000] {
            let ops = [
                recv(&fd, &mut buf, 0),
                read(&fd, &mut buf, 0),
                Op::Poll { fd, events: sys::POLL_IN },
                Op::Accept { fd, addr: ptr::null_mut(), addr_len: ptr::null_mut(), flags: 0 },
            ];
            for op in ops {
                assert_eq!(run(driver, op), -libc::EBADF, "{op:?}");
            }
        }
    });
}

#[test]
fn a_descriptor_number_can_be_used_again_and_again() {
    both(|driver| {
        for round in 0..50u8 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            // A duplicate keeps the open file alive beyond the close of its number.
            let duplicate = (round % 2 == 0).then(|| ours.try_clone().unwrap());
            let mut buf = [0u8; 4];
            let op = recv(&ours, &mut buf, 0);
            assert_eq!(wait_for(driver, op, || theirs.write_all(&[round]).unwrap()), 1);
            assert_eq!(buf[0], round);
            driver.remote().deregister(ours.as_raw_fd());
            drop(ours);
            // Fails where no duplicate is left to receive it.
            let _ = theirs.write_all(b"ghost");
            driver.turn(Wait::Never).unwrap();
            drop(duplicate);
        }
    });
}

#[test]
fn every_op_works_on_the_plainest_ring() {
    let mut masked = FeatureSet::EMPTY;
    for feature in Feature::ALL {
        masked = masked.with(feature);
        let config = Config { masked, ..Config::small() };
        both_sized(&config, |driver| {
            assert!(driver.caps().features.iter().all(|feature| !masked.has(feature)));
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut buf = [0u8; 16];
            let op = recv(&ours, &mut buf, 0);
            assert_eq!(wait_for(driver, op, || theirs.write_all(b"hello").unwrap()), 5);
            let limit = std::time::Duration::from_millis(1);
            let started = std::time::Instant::now();
            while started.elapsed() < limit {
                driver.turn(Wait::Until(Some(limit))).unwrap();
            }
        });
    }
}

#[test]
fn addresses_go_in_and_out_unchanged() {
    for addr in ["127.0.0.1:80", "[::1]:65535", "[fe80::1%3]:9", "0.0.0.0:0"] {
        let addr: SocketAddr = addr.parse().unwrap();
        let (room, len) = SockAddrStorage::from_std(&addr);
        assert_eq!(room.to_std(len), Some(addr));
        assert_eq!(room.to_std(len - 1), None);
    }
    assert_eq!(SockAddrStorage::new().to_std(0), None);
}

/// A terminal, which no flag makes a write refuse to wait: the side that programs write to, and the
/// other. None where there are no terminals.
fn terminal() -> Option<(OwnedFd, File)> {
    // SAFETY: takes flags.
    let master = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) };
    if master < 0 {
        return None;
    }
    // SAFETY: just made.
    let other_side = unsafe { File::from_raw_fd(master) };
    // SAFETY: it is the descriptor of a terminal.
    let is_unlocked = unsafe { libc::unlockpt(master) } == 0;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: as above; takes flags.
    let fd = unsafe { libc::ioctl(master, libc::TIOCGPTPEER, flags) };
    // SAFETY: just made.
    (is_unlocked && fd >= 0).then(|| (unsafe { OwnedFd::from_raw_fd(fd) }, other_side))
}

#[test]
fn a_vectored_write_to_a_terminal_passes_over_empty_parts() {
    both(|driver| {
        let Some((program, mut user)) = terminal() else {
            return support::skipped("there are no terminals");
        };
        let (mut empty, mut data) = ([0_u8; 0], *b"data");
        let parts = [iov(&mut empty), iov(&mut data), iov(&mut empty)];
        let (fd, offset) = (program.as_raw_fd(), CURRENT_POSITION);
        let op = Op::WriteVectored { fd, iov: parts.as_ptr(), count: 3, offset };
        assert_eq!(run(driver, op), 4);
        let mut seen = [0; 4];
        user.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"data");
        let op = Op::WriteVectored { fd, iov: parts.as_ptr(), count: 1, offset };
        assert_eq!(run(driver, op), 0, "nothing is to be written");
    });
}
