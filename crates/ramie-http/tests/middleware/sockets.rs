//! A server in the same process, and a client that reads what it sends.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    time::Duration,
};

use ramie::net::TcpStream;

pub(super) use super::client_fiber::serve;

pub(super) struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects and sends a GET.
    pub(super) fn get(address: SocketAddr, target: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        // So a server that does not respond or close fails the test.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut client = Client(BufReader::new(stream));
        client.ask(target);
        client
    }

    /// Sends another GET.
    pub(super) fn ask(&mut self, target: &str) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).expect("the server reads");
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.0.get_ref().local_addr().expect("an address")
    }

    /// The head of the response, with its empty line; empty if the server has closed.
    pub(super) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).expect("a line") == 0 {
                return head;
            }
        }
        head
    }

    /// The next chunk of the body.
    pub(super) fn chunk(&mut self) -> String {
        let mut size = String::new();
        self.0.read_line(&mut size).expect("a size");
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        let mut chunk = vec![0; size + 2];
        self.0.read_exact(&mut chunk).expect("a chunk");
        chunk.truncate(size);
        String::from_utf8(chunk).expect("text")
    }

    /// The number of bytes up to the end of the connection.
    pub(super) fn rest(mut self) -> usize {
        self.0.read_to_end(&mut Vec::new()).expect("an end")
    }
}
