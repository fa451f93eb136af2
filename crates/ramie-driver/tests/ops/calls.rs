//! Every system call that a driver makes as data: as an op of a ring, and plainly.

use std::fs;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::{self, both, cancel, finish, has_ring, run, submit};
use ramie_driver::sys::{self, EpollEvent, Errno, SockAddrStorage, Statx, StatxFlags};
use ramie_driver::{
    Call, Caps, ChildInfo, Choice, Config, Driver, Feature, FeatureSet, Op, OpFrame, OpenHow,
    Submitter, Timespec, probe_report,
};

const HERE: RawFd = sys::WORKING_DIRECTORY;

fn errno(errno: Errno) -> i32 {
    -errno.raw_os_error()
}

/// As an op where the driver has it, else plainly: as the runtime does it.
fn call(driver: &mut Driver, call: Call) -> i32 {
    if driver.caps().can(&call) {
        return run(driver, Op::Call { call: &raw const call });
    }
    // SAFETY: the tests keep the memory that it points to.
    unsafe { call.make() }
}

/// A directory of its own, which is removed.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ramie-calls-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// With a zero byte at its end.
    fn name(&self, ending: &str) -> String {
        format!("{}/{ending}\0", self.0.display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn owned(result: i32) -> OwnedFd {
    assert!(result >= 0, "{}", std::io::Error::from_raw_os_error(-result));
    // SAFETY: a new descriptor, by the contract of the call.
    unsafe { OwnedFd::from_raw_fd(result) }
}

#[test]
fn names_are_made_and_removed() {
    both(|driver| {
        let folder = Folder::new();
        let (dir, one, two) = (folder.name("dir"), folder.name("one"), folder.name("two"));
        let path = |name: &str| name.as_ptr();
        let make = Call::MakeDir { dir: HERE, path: path(&dir), mode: 0o777 };
        assert_eq!(call(driver, make), 0);
        assert_eq!(call(driver, make), errno(Errno::EXIST));
        let target = c"nowhere".as_ptr().cast();
        assert_eq!(call(driver, Call::Symlink { target, dir: HERE, path: path(&one) }), 0);
        assert_eq!(fs::read_link(folder.0.join("one")).unwrap().to_str(), Some("nowhere"));
        let (old, new) = (path(&one), path(&two));
        let link = Call::Link { old_dir: HERE, old, new_dir: HERE, new, flags: 0 };
        assert_eq!(call(driver, link), 0);
        let unlink = |name, flags| Call::Unlink { dir: HERE, path: name, flags };
        assert_eq!(call(driver, unlink(old, 0)), 0);
        let rename = Call::Rename { old_dir: HERE, old: new, new_dir: HERE, new: old, flags: 0 };
        assert_eq!(call(driver, rename), 0);
        assert_eq!(call(driver, unlink(new, 0)), errno(Errno::NOENT));
        assert_eq!(call(driver, unlink(old, 0)), 0);
        assert_eq!(call(driver, unlink(path(&dir), 0x200)), 0);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    });
}

#[test]
fn a_file_is_opened_sized_and_described() {
    both(|driver| {
        let folder = Folder::new();
        let dir = fs::File::open(&folder.0).unwrap();
        let how = OpenHow { flags: 0o102, mode: 0o600, resolve: 0x08 };
        let path = c"file".as_ptr().cast();
        let open = Call::OpenAt2 { dir: dir.as_raw_fd(), path, how: &raw const how };
        let file = owned(call(driver, open));
        let fd = file.as_raw_fd();
        assert_eq!(call(driver, Call::Allocate { fd, mode: 0, offset: 0, len: 5000 }), 0);
        assert_eq!(call(driver, Call::Truncate { fd, len: 4321 }), 0);
        assert_eq!(call(driver, Call::Advise { fd, offset: 0, len: 0, advice: 4 }), 0);
        let mut statx = MaybeUninit::<Statx>::zeroed();
        let (mask, into) = (StatxFlags::BASIC_STATS.bits(), statx.as_mut_ptr());
        let describe = Call::Statx { dir: dir.as_raw_fd(), path, flags: 0, mask, into };
        assert_eq!(call(driver, describe), 0);
        // SAFETY: zeroed and then filled.
        assert_eq!(unsafe { statx.assume_init() }.stx_size, 4321);
        // Beneath the directory only.
        let out = Call::OpenAt2 { path: c"../x".as_ptr().cast(), dir: dir.as_raw_fd(), how: &how };
        assert_eq!(call(driver, out), errno(Errno::XDEV));
        assert_eq!(run(driver, Op::Close { fd: file.into_raw_fd() }), 0);
    });
}

#[test]
fn attributes_are_set_and_read() {
    both(|driver| {
        let folder = Folder::new();
        let path = folder.name("file");
        let file = fs::File::create(path.trim_end_matches('\0')).unwrap();
        let (fd, name) = (file.as_raw_fd(), c"user.ramie".as_ptr().cast());
        let (value, len) = ("first".as_ptr(), 5);
        let set = Call::SetXattr { path: path.as_ptr(), name, value, len, flags: 0 };
        match call(driver, set) {
            0 => {}
            refused if refused == errno(Errno::OPNOTSUPP) => return,
            other => panic!("{other}"),
        }
        let mut room = [0_u8; 16];
        let (value, len) = (room.as_mut_ptr(), 16);
        assert_eq!(call(driver, Call::GetXattrOf { fd, name, value, len }), 5);
        assert_eq!(&room[..5], b"first");
        // It must be there, and is; it must not be there, and is.
        let (new, create, replace) = ("2nd".as_ptr(), 1, 2);
        let set = |flags| Call::SetXattrOf { fd, name, value: new, len: 3, flags };
        assert_eq!(call(driver, set(create)), errno(Errno::EXIST));
        assert_eq!(call(driver, set(replace)), 0);
        let get = |len| Call::GetXattr { path: path.as_ptr(), name, value, len };
        assert_eq!(call(driver, get(2)), errno(Errno::RANGE));
        assert_eq!(call(driver, get(16)), 3);
        assert_eq!(&room[..3], b"2nd");
    });
}

#[test]
fn a_listener_is_made_of_parts() {
    both(|driver| {
        let socket = owned(call(driver, Call::Socket { domain: 2, kind: 1, protocol: 0 }));
        let fd = socket.as_raw_fd();
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let (addr, addr_len) = SockAddrStorage::from_std(&loopback);
        assert_eq!(call(driver, Call::Bind { fd, addr: &raw const addr, addr_len }), 0);
        assert_eq!(call(driver, Call::Listen { fd, backlog: 8 }), 0);
        let listener = TcpListener::from(socket);
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let fd = accepted.as_raw_fd();
        assert_eq!(call(driver, Call::Shutdown { fd, how: 1 }), 0);
        assert_eq!(std::io::Read::read(&mut &stream, &mut [0]).unwrap(), 0);
        assert_eq!(call(driver, Call::Shutdown { fd: -1, how: 1 }), errno(Errno::BADF));
    });
}

#[test]
fn pipes_are_made_doubled_and_emptied_into_each_other() {
    both(|driver| {
        let pipe = |driver: &mut Driver| {
            let mut ends = [0; 2];
            assert_eq!(call(driver, Call::Pipe { into: &raw mut ends, flags: 0o2000000 }), 0);
            ends.map(owned)
        };
        let ([from, to_from], [to, to_to]) = (pipe(driver), pipe(driver));
        sys::write(&to_from, b"abcdef").unwrap();
        let (from_fd, to_fd) = (from.as_raw_fd(), to_to.as_raw_fd());
        assert_eq!(call(driver, Call::Tee { from: from_fd, to: to_fd, len: 3, flags: 0 }), 3);
        let splice = |from_at| {
            let (from, to) = (from_fd, to_fd);
            Call::Splice { from, from_at, to, to_at: -1, len: 100, flags: 0 }
        };
        assert_eq!(call(driver, splice(-1)), 6);
        assert_eq!(call(driver, splice(0)), errno(Errno::SPIPE));
        let mut all = fs::File::from(to);
        let mut read = [0; 16];
        assert_eq!(std::io::Read::read(&mut all, &mut read).unwrap(), 9);
        assert_eq!(&read[..9], b"abcabcdef");
    });
}

#[test]
fn a_child_is_waited_for() {
    both(|driver| {
        let mut child = std::process::Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let mut info = ChildInfo::new();
        // P_PID, WEXITED | WNOWAIT: the child stays for its owner.
        let (id, options) = (child.id(), 4 | 0x0100_0000);
        let wait = Call::WaitId { id_type: 1, id, into: &raw mut info, options };
        assert_eq!(call(driver, wait), 0);
        assert_eq!((info.pid as u32, info.code, info.status), (id, 1, 3));
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert_eq!(call(driver, wait), errno(Errno::CHILD));
    });
}

#[test]
fn a_futex_wakes_its_waiters() {
    both(|driver| {
        let word = AtomicU32::new(1);
        let (at, is_shared) = (word.as_ptr().cast_const(), false);
        let other = Call::FutexWait { word: at, value: 2, is_shared };
        assert_eq!(call(driver, other), errno(Errno::AGAIN));
        let wait = Call::FutexWait { word: at, value: 1, is_shared };
        let wake = Call::FutexWake { word: at, count: u32::MAX, is_shared };
        assert_eq!(call(driver, wake), 0);
        if !driver.caps().can(&wait) {
            return;
        }
        // An op of the ring, and a thread in the system call: one wakes the other.
        let frame = OpFrame::new(Op::Call { call: &raw const wait });
        assert!(submit(driver, &frame));
        driver.turn(ramie_driver::Wait::Never).unwrap();
        // Somebody else than this thread may still be about to hand the op over.
        // SAFETY: the word is there.
        while unsafe { wake.make() } == 0 {
            std::thread::yield_now();
        }
        assert_eq!(finish(driver, &frame), 0);
        let (wait, wake) = (SendCall(wait), wake);
        std::thread::scope(|s| {
            // SAFETY: the word outlives the scope.
            let waiter = s.spawn(move || unsafe { wait.make() });
            while call(driver, wake) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(waiter.join().unwrap(), 0);
        });
        // It can be cancelled.
        let frame = OpFrame::new(Op::Call { call: &raw const wait.0 });
        assert!(submit(driver, &frame));
        driver.turn(ramie_driver::Wait::Never).unwrap();
        cancel(driver, &frame);
        assert_eq!(finish(driver, &frame), errno(Errno::CANCELED));
    });
}

#[derive(Clone, Copy)]
struct SendCall(Call);

// SAFETY: the test keeps the memory that it points to.
unsafe impl Send for SendCall {}

impl SendCall {
    unsafe fn make(self) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { self.0.make() }
    }
}

#[test]
fn a_timeout_lasts_as_long_as_it_should() {
    both(|driver| {
        let (started, limit) = (Instant::now(), Duration::from_millis(3));
        let time = Timespec::from(limit);
        let timeout = Call::Timeout { time: &raw const time };
        assert_eq!(call(driver, timeout), errno(Errno::TIME));
        assert!(started.elapsed() >= limit);
    });
}

#[test]
fn a_foreign_epoll_set_is_waited_for() {
    both(|driver| {
        let is_ring = driver.caps().kind == ramie_driver::Kind::Uring;
        if is_ring && !driver.caps().features.has(Feature::EpollWait) {
            return;
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        let poller = polling::Poller::new().unwrap();
        // SAFETY: deleted with the poller, before the stream goes.
        unsafe { poller.add(&ours, polling::Event::readable(7)).unwrap() };
        let mut events = [const { MaybeUninit::<EpollEvent>::uninit() }; 4];
        let fd = poller.as_raw_fd();
        let op = Op::EpollWait { fd, events: events.as_mut_ptr().cast(), count: 4 };
        let frame = OpFrame::new(op);
        assert!(submit(driver, &frame));
        driver.turn(ramie_driver::Wait::Never).unwrap();
        assert!(!frame.is_complete());
        sys::write(&theirs, b"x").unwrap();
        assert_eq!(finish(driver, &frame), 1);
        // SAFETY: the kernel has written one.
        assert_eq!(unsafe { events[0].assume_init() }.data.u64(), 7);
        drop(poller);
    });
}

/// Whether this kernel sends messages from ring to ring, which it does since 5.18.
fn has_messages() -> bool {
    if !has_ring() {
        return false;
    }
    let ask = || {
        let mut probe = io_uring::Probe::new();
        io_uring::IoUring::new(4).unwrap().submitter().register_probe(&mut probe).unwrap();
        probe.is_supported(io_uring::opcode::MsgRingData::CODE)
    };
    // On a thread of its own, which the end of the ring may interrupt.
    let has = std::thread::spawn(ask).join().unwrap();
    if !has {
        support::skipped("this kernel sends no messages between rings");
    }
    has
}

#[test]
fn a_message_arrives_in_another_ring() {
    if !has_messages() {
        return;
    }
    both(|driver| {
        let mut theirs = io_uring::IoUring::new(4).unwrap();
        let ring = theirs.as_raw_fd();
        assert_eq!(call(driver, Call::Message { ring, result: 5, data: 0x1234 }), 0);
        let entry = theirs.completion().next().unwrap();
        assert_eq!((entry.result(), entry.user_data()), (5, 0x1234));
        let nowhere = Call::Message { ring: 1_000_000, result: 5, data: 1 };
        assert_eq!(call(driver, nowhere), errno(Errno::BADF));
        theirs.submission().sync();
    });
}

#[test]
fn a_polling_driver_can_do_none_without_blocking() {
    let nop = Call::Socket { domain: 2, kind: 1, protocol: 0 };
    both(|driver| {
        let caps: &Caps = driver.caps();
        let has = caps.features.has(Feature::Socket);
        assert_eq!(caps.can(&nop), caps.kind == ramie_driver::Kind::Uring && has);
    });
}

/// The kernel interrupts the threads that have used a ring when it takes that ring apart, some ms
/// after the last reference to it has gone.
#[test]
fn rings_made_for_one_call_or_in_vain_interrupt_nobody_afterwards() {
    if !has_ring() {
        return;
    }
    let target = io_uring::IoUring::new(4).unwrap();
    let ring = target.as_raw_fd();
    let send = || {
        let message = Call::Message { ring, result: 5, data: 0x1234 };
        // SAFETY: it points to nothing.
        assert_eq!(unsafe { message.make() }, 0);
    };
    let report = || drop(probe_report());
    let open_in_vain = || {
        // A thread of the kernel cannot be had without it: the ring made for that is dropped.
        let masked = FeatureSet::EMPTY.with(Feature::ExtArg);
        let config = Config { masked, submitter: Submitter::KERNEL_THREAD, ..Config::small() };
        // The second ring stays, because this test is not about dropping it.
        std::mem::forget(Driver::open(Choice::Uring, &config).unwrap());
    };
    let mut all = vec![&report as &dyn Fn(), &open_in_vain];
    if has_messages() {
        all.push(&send);
    }
    for make_rings in all {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(60))).unwrap();
        make_rings();
        let error = socket.recv(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}
