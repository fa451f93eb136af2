//! Servers with several listeners: each is accepted from, wherever connections are placed, and the
//! end of one acceptor ends the server.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    time::Duration,
};

use ramie::{Runtime, cancel, fiber, fiber::Place, net::TcpListener};
use ramie_http::{Router, Server, get};

/// Asks once, on a connection of its own.
fn ask(server: SocketAddr) {
    let mut stream = TcpStream::connect(server).unwrap();
    // A connection that nobody accepts fails the test.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

/// Serves by this server while a thread asks at each address.
fn serve(server: Server, addresses: Vec<SocketAddr>) {
    let handle = server.handle();
    let client = std::thread::spawn(move || {
        let asked = std::panic::catch_unwind(|| addresses.into_iter().for_each(ask));
        handle.stop();
        asked
    });
    server.serve(Router::new().route("/", get(|| "hello"))).unwrap();
    client.join().unwrap().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// The kernel distributes the connections of one address to the listeners of all workers.
#[test]
fn all_listeners_of_an_address_are_accepted_from_if_connections_are_placed() {
    Runtime::builder().workers(2).build().unwrap().run(|| {
        let server = Server::bind("127.0.0.1:0").unwrap().place(Place::LeastLoaded);
        let address = server.local_addr().unwrap();
        serve(server, vec![address; 40]);
    });
}

/// As a socket for IPv4 and one for IPv6, on one worker.
#[test]
fn more_listeners_than_workers_are_accepted_from() {
    for workers in [1, 2] {
        Runtime::builder().workers(workers).build().unwrap().run(|| {
            let listeners: Vec<_> = (0..3).map(|_| bind()).collect();
            let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap());
            let addresses = addresses.collect();
            serve(Server::on_each(listeners), addresses);
        });
    }
}

pub(crate) fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Runs `f` in a runtime. A server that never ends fails the test instead of blocking it.
fn run<T: Send + 'static>(workers: usize, f: impl FnOnce() -> T + Send + 'static) -> T {
    run_on(Runtime::builder().workers(workers), f)
}

pub(crate) fn run_on<T: Send + 'static>(
    runtime: ramie::Builder,
    f: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(runtime.build().unwrap().run(f));
    });
    ended.recv_timeout(Duration::from_secs(30)).expect("the server ends")
}

#[test]
fn a_cancelled_server_whose_workers_share_a_listener_ends_without_an_error() {
    run(4, || {
        for _ in 0..200 {
            let server = Server::on(bind());
            cancel::scope(|scope| {
                let handle = scope.handle();
                let cancelling = fiber::spawn(move || {
                    fiber::sleep(Duration::from_millis(1));
                    handle.cancel();
                });
                server.serve(Router::new()).unwrap();
                let _ = cancel::shield(|| cancelling.join());
            });
        }
    });
}

/// Serves until the closure of `admit_if` panics, and returns the panic's message.
fn panic_of(server: Server, address: SocketAddr) -> String {
    let server = server.admit_if(|_| panic!("of the test"));
    let client = std::thread::spawn(move || TcpStream::connect(address).unwrap());
    let served = catch_unwind(AssertUnwindSafe(|| server.serve(Router::new())));
    client.join().unwrap();
    served.unwrap_err().downcast_ref::<&str>().unwrap().to_string()
}

#[test]
fn a_panic_while_accepting_ends_a_server_that_places_connections() {
    let message = run(2, || {
        let listener = bind();
        let address = listener.local_addr().unwrap();
        panic_of(Server::on(listener).place(Place::LeastLoaded), address)
    });
    assert_eq!(message, "of the test");
}

#[test]
fn a_panic_while_accepting_from_one_of_several_listeners_ends_the_server() {
    for workers in [1, 2] {
        for panicking in 0..3 {
            let message = run(workers, move || {
                let listeners: Vec<_> = (0..3).map(|_| bind()).collect();
                let address = listeners[panicking].local_addr().unwrap();
                panic_of(Server::on_each(listeners), address)
            });
            assert_eq!(message, "of the test");
        }
    }
}

/// Shuts one of the listeners down, so that its accept calls fail, and returns the server's error.
fn error_of(listeners: Vec<TcpListener>, failing: usize) -> io::Error {
    let failing: OwnedFd = listeners[failing].as_fd().try_clone_to_owned().unwrap();
    let failing = std::net::TcpStream::from(failing);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        failing.shutdown(std::net::Shutdown::Both).unwrap();
    });
    let error = Server::on_each(listeners).serve(Router::new()).unwrap_err();
    thread.join().unwrap();
    error
}

#[test]
fn a_listener_that_fails_for_good_ends_the_server_with_its_error() {
    for workers in [1, 2] {
        for failing in 0..3 {
            let listeners = || (0..3).map(|_| bind()).collect();
            let error = run(workers, move || error_of(listeners(), failing));
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
    }
}
