//! A client that sends any frames, in any order.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
};

use ramie::net::TcpStream;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

pub(crate) struct RawClient {
    pub(crate) stream: TcpStream,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawFrame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// A frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Fields as HPACK writes them without any table: the lengths are below 127.
pub(crate) fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "{text}");
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// The fields of a GET.
pub(crate) fn get_fields(path: &str) -> Vec<u8> {
    head_fields("GET", path)
}

/// The fields of a request.
pub(crate) fn head_fields(method: &str, path: &str) -> Vec<u8> {
    let scheme = (":scheme", "http");
    fields(&[(":method", method), scheme, (":path", path), (":authority", "a.test")])
}

impl RawClient {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        RawClient::connect_with(address, &[])
    }

    pub(crate) fn connect_with(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut client = RawClient { stream: TcpStream::connect(address).unwrap() };
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        let settings = frame(SETTINGS, 0, 0, &payload);
        client.send(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..]].concat()).unwrap();
        client
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(crate) fn get(&mut self, stream: u32, path: &str) {
        let flags = END_HEADERS | END_STREAM;
        self.send(&frame(HEADERS, flags, stream, &get_fields(path))).unwrap();
    }

    /// The next frame. None: the server has closed the connection.
    pub(crate) fn read(&mut self) -> Option<RawFrame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let [_, l0, l1, kind, flags, s0, s1, s2, s3] = head;
        let mut payload =
            vec![0; usize::from(head[0]) << 16 | usize::from(l0) << 8 | usize::from(l1)];
        self.stream.read_exact(&mut payload).ok()?;
        Some(RawFrame { kind, flags, stream: u32::from_be_bytes([s0, s1, s2, s3]), payload })
    }
}
