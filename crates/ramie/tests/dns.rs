//! Looking names up: the C library takes its time, in a thread that cannot be stopped. Here it is
//! this program's own `getaddrinfo`, which waits until it is allowed to go on, so this is a program
//! of its own.

mod common;

use std::{
    ffi::{c_char, c_int, c_void},
    io,
    sync::{Condvar, Mutex, MutexGuard},
    time::Duration,
};

use common::{everywhere, wait_until};
use ramie::{
    cancel, fiber,
    net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket},
    structured::{par_map, race},
};

#[derive(Default)]
struct Library {
    begun: usize,
    ended: usize,
    may_end: usize,
}

static LIBRARY: Mutex<Library> = Mutex::new(Library { begun: 0, ended: 0, may_end: 0 });
static CHANGED: Condvar = Condvar::new();

/// Stands in for the C library's: finds nothing, as soon as `let_end` allows it.
#[unsafe(no_mangle)]
extern "C" fn getaddrinfo(
    _node: *const c_char,
    _service: *const c_char,
    _hints: *const c_void,
    _found: *mut *mut c_void,
) -> c_int {
    let mut library = LIBRARY.lock().unwrap();
    library.begun += 1;
    let mut library = CHANGED.wait_while(library, |library| library.may_end == 0).unwrap();
    library.may_end -= 1;
    library.ended += 1;
    libc::EAI_NONAME
}

fn begun() -> usize {
    LIBRARY.lock().unwrap().begun
}

fn let_end(count: usize) {
    LIBRARY.lock().unwrap().may_end += count;
    CHANGED.notify_all();
}

/// The library is one for the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    *LIBRARY.lock().unwrap() = Library::default();
    guard
}

#[test]
fn a_look_up_is_waited_for() {
    let _alone = alone();
    everywhere(|| {
        let_end(1);
        let error = ("no.such.name", 80).to_socket_addrs().unwrap_err();
        assert!(!cancel::is_cancelled(&error));
    });
}

type Call = fn() -> io::Result<()>;

const CALLS: [Call; 4] = [
    || TcpStream::connect("a.name:80").map(drop),
    || TcpListener::bind("a.name:80").map(drop),
    || UdpSocket::bind("127.0.0.1:0")?.connect("a.name:80"),
    || "a.name:80".to_socket_addrs().map(drop),
];

#[test]
fn one_that_runs_is_cancelled_and_left_behind() {
    let _alone = alone();
    everywhere(|| {
        for call in CALLS {
            let before = begun();
            let error = cancel::scope(|scope| {
                let handle = scope.handle();
                let canceller = fiber::spawn(move || {
                    wait_until(|| begun() > before);
                    handle.cancel_because("not wanted any more");
                });
                let error = call().unwrap_err();
                canceller.join().unwrap();
                error
            });
            assert_eq!(error.to_string(), "cancelled: not wanted any more");
            assert_eq!(LIBRARY.lock().unwrap().ended, before, "it had not ended");
            // Now it does, and nobody minds. The end of `run` waits for it.
            let_end(1);
            wait_until(|| LIBRARY.lock().unwrap().ended == before + 1);
        }
    });
}

#[test]
fn a_limit_ends_the_wait_for_one() {
    let _alone = alone();
    everywhere(|| {
        let before = begun();
        let look_up = || TcpStream::connect("a.name:80");
        let late = cancel::with_timeout(Duration::from_millis(2), look_up).unwrap_err();
        let error = late.into_value().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // Whether or not it had begun, because an abandoned lookup may still begin.
        let_end(1);
        wait_until(|| LIBRARY.lock().unwrap().ended == before + 1);
        // In a scope that is cancelled already, none begins.
        cancel::scope(|scope| {
            scope.cancel();
            assert!(cancel::is_cancelled(&look_up().unwrap_err()));
        });
        assert_eq!(begun(), before + 1);
    });
}

#[test]
fn losers_of_a_race_leave_theirs_behind() {
    let _alone = alone();
    everywhere(|| {
        let before = begun();
        let first = race(|racers| {
            for _ in 0..3 {
                racers.spawn(|| "a.name:80".to_socket_addrs().is_ok());
            }
            racers.spawn(|| {
                wait_until(|| begun() == before + 3);
                true
            });
        });
        assert_eq!(first, Some(true));
        let_end(3);
        wait_until(|| LIBRARY.lock().unwrap().ended == before + 3);
    });
}

#[test]
fn many_at_once_are_all_answered() {
    let _alone = alone();
    everywhere(|| {
        let_end(20);
        let found = par_map(0..20, 5, |_| "a.name:80".to_socket_addrs().is_ok());
        assert_eq!(found, [false; 20]);
    });
}
