//! Connections and a stop, over pairs of sockets.

use std::{
    io::{Read, Write},
    sync::Arc,
    time::Duration,
};

use ramie::{fiber, os::unix::net::UnixStream};

use super::{Connections, OpenConnection};
use crate::{
    connection::{Client, Service, serve},
    io::{Socket, Stream, Wire},
    limits::Limits,
    router::Router,
};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A connection of one Unix socket, with the client's end of it.
pub(in crate::server) fn connection() -> (Arc<Connections>, OpenConnection, UnixStream) {
    let (stream, client) = UnixStream::pair().unwrap();
    let connections = Arc::new(Connections::new());
    let open =
        connections.add(Arc::new(Stream::plain(Socket::Unix(stream))), None, &Limits::default());
    let open = open.unwrap_or_else(|_| panic!("there is no place"));
    (connections, open, client)
}

/// The first request may arrive with the header of a proxy, which another function receives.
#[test]
fn a_connection_whose_first_request_was_there_is_not_new_when_it_is_idle() {
    ramie::run(|| {
        let (connections, open, mut client) = connection();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let router = Router::new().fallback(|| "answer");
        let service = Arc::new(Service { router, limits: Limits::default() });
        fiber::scope(|fibers| {
            fibers.spawn_local(move || {
                // Closed at the end of this fiber.
                let open = open;
                let mut wire = Wire::new(open.stream());
                wire.input.add_copied(GET);
                serve(&mut wire, &service, open.presence(), &Client::unknown()).unwrap();
            });
            for is_first in [true, false] {
                if !is_first {
                    client.write_all(GET).unwrap();
                }
                let mut answer = Vec::new();
                while !answer.ends_with(b"answer") {
                    let mut piece = [0; 512];
                    let length = client.read(&mut piece).unwrap();
                    answer.extend_from_slice(&piece[..length]);
                }
            }
            connections.stop();
            let closed = client.read(&mut [0; 1]);
            // The connection ends also if the assertion fails.
            drop(client);
            assert_eq!(closed.unwrap(), 0);
        });
    });
}
