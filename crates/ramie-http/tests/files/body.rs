//! Bodies of files.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc,
};

use ramie::fs::File;
use ramie_http::{Body, Router, get as on_get};

use crate::support::{Folder, Reply, exchange, get, serve};

/// Bytes none of which can be confused with those at another place.
fn numbered(length: usize) -> Vec<u8> {
    (0..length as u64 / 8 + 1).flat_map(u64::to_be_bytes).take(length).collect()
}

#[test]
fn parts_of_a_file_arrive_as_they_are() {
    let folder = Folder::new();
    let bytes = numbered(3 << 20);
    let path = folder.write("large", &bytes);
    let ranges = [0..0, 0..1, 5..16 << 10, 1..(16 << 10) + 2, 3..(2 << 20) + 1, 0..3 << 20];
    for range in ranges {
        let (start, end) = (range.start as u64, range.end as u64);
        let path = path.clone();
        let handler =
            move || File::open(&path).map(|file| Body::from_file(file, start..end)).unwrap();
        let router = Router::new().route("/", on_get(handler));
        let reply = serve(router, |address| get(address, "/", ""));
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-length"), Some(range.len().to_string().as_str()));
        assert!(reply.body == bytes[range.clone()], "{range:?}");
    }
}

#[test]
fn the_next_response_follows_a_file() {
    let folder = Folder::new();
    let bytes = numbered(1 << 20);
    let path = folder.write("large", &bytes);
    let file = move || File::open(&path).map(|file| Body::from_file(file, 0..1 << 20)).unwrap();
    let router = Router::new().route("/file", on_get(file)).route("/text", on_get(|| "text"));
    let both = serve(router, |address| {
        let first = "GET /file HTTP/1.1\r\nhost: a\r\n\r\n";
        let second = "GET /text HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        exchange(address, &[first, second].concat())
    });
    let first = Reply::parse(&both);
    assert!(first.body[..1 << 20] == bytes);
    assert_eq!(Reply::parse(&first.body[1 << 20..]).body, b"text");
}

/// Sends a part of a file whose length changes once the head has arrived.
fn sent_while(announced: u64, change: impl FnOnce(&fs::File) + Send + 'static) -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.write("changing", numbered(64 << 20));
    let changing = fs::File::options().write(true).open(&path).unwrap();
    let (changed, wait) = mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let handler = move || {
        let file = File::open(&path).unwrap();
        wait.lock().unwrap().recv().unwrap();
        Body::from_file(file, 0..announced)
    };
    serve(Router::new().route("/", on_get(handler)), move |address| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
        change(&changing);
        changed.send(()).unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Reply::parse(&bytes).body
    })
}

#[test]
fn a_file_that_shrinks_closes_the_connection() {
    for left in [0, 100_000] {
        let body = sent_while(64 << 20, move |file| file.set_len(left).unwrap());
        assert_eq!(body.len() as u64, left);
    }
}

#[test]
fn a_file_that_grows_is_sent_as_announced() {
    let body = sent_while(64 << 20, |file| file.set_len(65 << 20).unwrap());
    assert!(body == numbered(64 << 20));
}

#[test]
fn a_client_that_reads_late_gets_all_of_a_file() {
    let folder = Folder::new();
    let bytes = numbered(32 << 20);
    let path = folder.write("large", &bytes);
    let file = move || File::open(&path).map(|file| Body::from_file(file, 0..32 << 20)).unwrap();
    let router = Router::new().route("/", on_get(file)).route("/text", on_get(|| "text"));
    let body = serve(router, |address| {
        let mut slow = TcpStream::connect(address).unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
        // The buffers of both sockets are full when the server answers others.
        for _ in 0..20 {
            assert_eq!(get(address, "/text", "").body, b"text");
        }
        let mut received = Vec::new();
        slow.read_to_end(&mut received).unwrap();
        Reply::parse(&received).body
    });
    assert!(body == bytes);
}
