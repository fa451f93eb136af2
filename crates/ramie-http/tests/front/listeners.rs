//! Servers with several listeners: each is accepted from, wherever connections are placed.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use ramie::{Runtime, fiber::Place, net::TcpListener};
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
            let bind = |_| TcpListener::bind("127.0.0.1:0").unwrap();
            let listeners: Vec<_> = (0..3).map(bind).collect();
            let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap());
            let addresses = addresses.collect();
            serve(Server::on_each(listeners), addresses);
        });
    }
}
