//! Iterators whose steps are cancel points: in a cancelled scope each yields one error and ends, so
//! that a `for` loop that goes on after errors ends, too.

use std::{fmt::Debug, io, time::Duration};

use ramie::{
    Runtime, cancel, fs,
    io::Async,
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::{SocketAddr, UnixListener, UnixStream},
    signal::{Signal, Signals},
    time::{Instant, ManualClock},
};

use crate::common::{drivers, everywhere, tcp_pair};

/// More steps than this are without end.
const MANY: usize = 100;

#[track_caller]
fn assert_ends<T: Debug>(mut steps: impl Iterator<Item = io::Result<T>>, errors: usize) {
    cancel::scope(|scope| {
        scope.cancel();
        let made: Vec<_> = steps.by_ref().take(MANY).collect();
        assert_eq!(made.len(), errors, "steps in a cancelled scope");
        for step in made {
            assert!(cancel::is_cancelled(&step.unwrap_err()));
        }
    });
}

/// A limit of a step's own does not hide that the scope around it is cancelled.
#[track_caller]
fn assert_ends_though_steps_have_limits<T: Debug>(mut steps: impl Iterator<Item = io::Result<T>>) {
    let start = Instant::now();
    let mut step = |limit| cancel::with_deadline(limit, || steps.next()).unwrap_err().into_value();
    cancel::scope(|scope| {
        scope.cancel();
        assert!(step(start - Duration::from_millis(2)).is_some_and(|step| step.is_err()));
        assert!(step(start - Duration::from_millis(1)).is_none(), "steps in a cancelled scope");
    });
}

/// The limit of one step is no reason for the iteration to end.
#[track_caller]
fn assert_goes_on<T: Debug>(mut steps: impl Iterator<Item = io::Result<T>>, cause: impl FnOnce()) {
    for _ in 0..2 {
        let late = cancel::with_timeout(Duration::from_millis(1), || steps.next());
        let error = late.unwrap_err().into_value().expect("it goes on").unwrap_err();
        assert!(cancel::is_cancelled(&error), "{error}");
    }
    cause();
    steps.next().expect("it goes on").expect("what was caused");
}

/// Each limit ends the steps below it once, though it passed before they began, and though the
/// last step below another limit was cancelled, too.
#[track_caller]
fn assert_each_limit_ends_once<T: Debug>(
    mut steps: impl Iterator<Item = io::Result<T>>,
    cause: impl FnOnce(),
) {
    let start = Instant::now();
    let passed = [start - Duration::from_millis(2), start - Duration::from_millis(1)];
    for limit in passed {
        let late = cancel::with_deadline(limit, || steps.next());
        let error = late.unwrap_err().into_value().expect("another limit").unwrap_err();
        assert!(cancel::is_cancelled(&error), "{error}");
    }
    cause();
    steps.next().expect("it goes on without a limit").expect("what was caused");
    let late = cancel::with_deadline(start, || steps.by_ref().take(MANY).count());
    assert_eq!(late.unwrap_err().into_value(), 1, "steps below one limit");
    assert!(steps.next().is_none(), "what is over stays so");
}

/// Two uses of one limit are two limits: each ends the steps below it once.
#[track_caller]
fn assert_equal_limits_are_two<T: Debug>(
    mut steps: impl Iterator<Item = io::Result<T>>,
    cause: impl FnOnce(),
) {
    let passed = Instant::now();
    for _ in 0..3 {
        let late = cancel::with_deadline(passed, || steps.next());
        let error = late.unwrap_err().into_value().expect("another limit").unwrap_err();
        assert!(cancel::is_cancelled(&error), "{error}");
    }
    cause();
    steps.next().expect("it goes on without a limit").expect("what was caused");
}

/// Steps that each have a limit which has passed end all the same below another one.
#[track_caller]
fn assert_an_outer_limit_ends_steps_with_limits<T: Debug>(
    mut steps: impl Iterator<Item = io::Result<T>>,
) {
    let passed = Instant::now();
    let step = || cancel::with_deadline(passed, || steps.next()).unwrap_err().into_value();
    let made = cancel::with_deadline(passed, || std::iter::from_fn(step).take(MANY).count());
    assert_eq!(made.unwrap_err().into_value(), 1, "steps below one limit");
}

fn unix_listener(name: &str) -> (UnixListener, SocketAddr) {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("ramie-{name}-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    (UnixListener::bind_addr(&address).unwrap(), address)
}

#[test]
fn in_a_cancelled_scope() {
    everywhere(|| {
        assert_ends(TcpListener::bind("127.0.0.1:0").unwrap().incoming(), 1);
        assert_ends(unix_listener("ends").0.incoming(), 1);
        let (client, _server) = tcp_pair();
        assert_ends(client.recv_each(), 1);
        assert_ends_though_steps_have_limits(client.recv_each());
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_ends(ours.recv_each(), 1);
        assert_ends(Async::from_fd(&ours).unwrap().readable_each(), 1);
        assert_ends(UdpSocket::bind("127.0.0.1:0").unwrap().recv_from_each(), 1);
        // Its state is shared by all waiters, so it cannot hold the reason.
        assert_ends(&Signals::new([Signal::USR1]).unwrap(), 0);
    });
}

#[test]
fn of_a_directory() {
    let folder = std::env::temp_dir().join(format!("ramie-ends-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // More than are taken at once.
    (0..200).for_each(|n| std::fs::write(folder.join(n.to_string()), "").unwrap());
    everywhere(|| {
        let entries = fs::read_dir(&folder).unwrap();
        let (mut found, mut errors) = (0, 0);
        cancel::scope(|scope| {
            scope.cancel();
            for entry in entries.take(300) {
                match entry {
                    Ok(_) => found += 1,
                    Err(_) => errors += 1,
                }
            }
        });
        assert_eq!((found, errors), (128, 1));
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_limit_of_a_step_does_not_end_the_iteration() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_goes_on(listener.incoming(), || drop(TcpStream::connect(address).unwrap()));
        let (client, server) = tcp_pair();
        assert_goes_on(client.recv_each(), || {
            io::Write::write_all(&mut &server, b"bytes").unwrap();
        });
        let (udp, sender) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (udp, sender) = (udp.unwrap(), sender.unwrap());
        let address = udp.local_addr().unwrap();
        assert_goes_on(udp.recv_from_each(), || {
            sender.send_to(b"datagram", address).unwrap();
        });
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        assert_goes_on(Async::from_fd(&ours).unwrap().readable_each(), || {
            io::Write::write_all(&mut theirs, b"bytes").unwrap();
        });
    });
}

#[test]
fn two_steps_in_a_row_each_end_once_by_their_own_limit() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_each_limit_ends_once(listener.incoming(), || {
            drop(TcpStream::connect(address).unwrap());
        });
        let (client, server) = tcp_pair();
        assert_each_limit_ends_once(client.recv_each(), || {
            io::Write::write_all(&mut &server, b"bytes").unwrap();
        });
        let (udp, sender) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (udp, sender) = (udp.unwrap(), sender.unwrap());
        let address = udp.local_addr().unwrap();
        assert_each_limit_ends_once(udp.recv_from_each(), || {
            sender.send_to(b"datagram", address).unwrap();
        });
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        assert_each_limit_ends_once(Async::from_fd(&ours).unwrap().readable_each(), || {
            io::Write::write_all(&mut theirs, b"bytes").unwrap();
        });
    });
}

#[test]
fn two_limits_at_one_instant_are_two() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_equal_limits_are_two(listener.incoming(), || {
            drop(TcpStream::connect(address).unwrap());
        });
        let (client, server) = tcp_pair();
        assert_equal_limits_are_two(client.recv_each(), || {
            io::Write::write_all(&mut &server, b"bytes").unwrap();
        });
        assert_an_outer_limit_ends_steps_with_limits(client.recv_each());
    });
}

#[test]
fn limits_on_a_clock_that_stands_still_do_not_end_the_iteration() {
    for driver in drivers() {
        let runtime = Runtime::builder().driver(driver).clock(ManualClock::new()).workers(1);
        runtime.build().unwrap().run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut incoming = listener.incoming();
            for _ in 0..3 {
                let late = cancel::with_timeout(Duration::ZERO, || incoming.next());
                let error = late.unwrap_err().into_value().expect("another limit").unwrap_err();
                assert!(cancel::is_cancelled(&error), "{error}");
            }
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            incoming.next().expect("it goes on without a limit").expect("a connection");
        });
    }
}
