//! Calls that are complete at once, one after the other: other fibers have their turns and timers
//! come due all the same, after so many calls, not after some time.

use std::{
    cell::Cell,
    io::{Read, Write},
    net::UdpSocket as StdUdpSocket,
    rc::Rc,
    time::{Duration, Instant},
};

use ramie::{
    fiber, fs,
    io::{Async, Polled, pipe, wait_any},
    net::{TcpListener, UdpSocket},
    os::unix::net::UnixStream,
};

use crate::common::{on_each, tcp_pair};

/// After so many calls others have had a turn, and due sleepers have woken: the calls between two
/// looks, and as many before the first.
const CALLS: u32 = 2 * 64;
/// In each test there is more than enough to take.
const MANY: usize = 200;

/// Makes calls of which none has to wait, beside a fiber that is ready and one whose time is over.
#[track_caller]
fn assert_fair(what: &str, mut call: impl FnMut()) {
    let (turns, has_woken) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let theirs = Rc::clone(&has_woken);
    let sleeper = fiber::spawn_local(move || {
        fiber::sleep(Duration::from_millis(1));
        theirs.set(true);
    });
    fiber::yield_now();
    // No other fiber runs meanwhile.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(2) {}
    let theirs = Rc::clone(&turns);
    let other = fiber::spawn_local(move || theirs.set(theirs.get() + 1));
    (0..CALLS).for_each(|_| call());
    assert_eq!(turns.get(), 1, "{what}: a fiber that is ready has no turn in {CALLS} calls");
    assert!(has_woken.get(), "{what}: a sleeper whose time is over waits for {CALLS} calls");
    other.join().unwrap();
    sleeper.join().unwrap();
}

/// A socket at which many datagrams have come already.
fn flooded() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let sender = StdUdpSocket::bind("127.0.0.1:0").unwrap();
    (0..MANY).for_each(|_| assert_eq!(sender.send_to(&[7], address).unwrap(), 1));
    socket
}

#[test]
fn reads_of_streams() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (mut one, (mut client, mut server)) = ([0], tcp_pair());
            client.write_all(&[0; MANY]).unwrap();
            assert_fair("a TCP stream", || server.read_exact(&mut one).unwrap());
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&[0; MANY]).unwrap();
            assert_fair("a Unix stream", || ours.read_exact(&mut one).unwrap());
            assert_fair("writes", || theirs.write_all(&[0]).unwrap());
            let (mut reader, mut writer) = pipe().unwrap();
            writer.write_all(&[0; MANY]).unwrap();
            assert_fair("a pipe", || reader.read_exact(&mut one).unwrap());
            writer.write_all(&[0]).unwrap();
            assert_fair("readiness", || {
                let mut polled = [Polled::readable(&reader)];
                wait_any(&mut polled).unwrap();
            });
            assert_fair("a file", || {
                let mut zero = fs::File::open("/dev/zero").unwrap();
                zero.read_exact(&mut one).unwrap();
            });
            // Twice as many, a byte each, of the driver's own buffers.
            let mut received = ours.recv_each();
            assert_fair("leases", || {
                (&mut &theirs).write_all(&[0]).unwrap();
                received.next().unwrap().unwrap();
            });
        });
    });
}

#[test]
fn datagrams() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let socket = flooded();
            assert_fair("recv_from", || assert_eq!(socket.recv_from(&mut [0; 8]).unwrap().0, 1));
            let socket = flooded();
            let mut each = socket.recv_from_each();
            assert_fair("recv_from_each", || assert_eq!(each.next().unwrap().unwrap().0.len(), 1));
            let socket = flooded();
            {
                let mut forgotten = socket.recv_from_each();
                forgotten.next().unwrap().unwrap();
                std::mem::forget(forgotten);
            }
            assert_fair("what came early", || {
                assert_eq!(socket.recv_from(&mut [0; 8]).unwrap().0, 1);
            });
            let socket = Async::from_fd(StdUdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
            socket.get_ref().set_nonblocking(true).unwrap();
            let address = socket.get_ref().local_addr().unwrap();
            let send = || socket.get_ref().send_to(&[7], address).unwrap();
            (0..MANY).for_each(|_| assert_eq!(send(), 1));
            let socket = Async::from_fd(socket.into_inner()).unwrap();
            assert_fair("calls of another library", || {
                socket.with_read(|socket| socket.recv(&mut [0; 8])).unwrap();
            });
        });
    });
}

#[test]
fn connections() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let connect = || std::net::TcpStream::connect(address).unwrap();
            let _clients: Vec<_> = (0..MANY).map(|_| connect()).collect();
            assert_fair("accept", || drop(listener.accept().unwrap()));
            let _clients: Vec<_> = (0..MANY).map(|_| connect()).collect();
            let mut incoming = listener.incoming();
            assert_fair("incoming", || drop(incoming.next().unwrap().unwrap()));
        });
    });
}
