//! A program whose ops fail gets the errno soon, and loses nothing.
//!
//! A program of its own, because `.ci/faults` runs it without a seed.
//! Faults that a program must not see are tried on other tests, by `RAMIE_FAULTS=SEED`.

mod common;

use std::io::{ErrorKind, Read, Result, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use common::{child_with, is_child, stderr};
use ramie::net::{TcpListener, TcpStream};
use ramie::{Runtime, fiber, fs, io};

/// Calls again while the answer is the injected one; returns how often it was.
fn until_spared<T>(mut call: impl FnMut() -> Result<T>) -> (T, usize) {
    for failures in 0.. {
        match call() {
            Ok(value) => return (value, failures),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOMEM), "{error}"),
        }
    }
    unreachable!("it would have been spared once in 2^64 calls")
}

/// Sends bytes one by one through `writer` to `reader`; each error means that none moved.
fn carry(mut reader: impl Read + Send, mut writer: impl Write + Send) -> usize {
    fiber::scope(|s| {
        let sender = s.spawn(move || {
            (0..100_u8).map(|byte| until_spared(|| writer.write(&[byte])).1).sum::<usize>()
        });
        let mut failures = 0;
        for expected in 0..100_u8 {
            let mut byte = [0];
            let (count, failed) = until_spared(|| reader.read(&mut byte));
            assert_eq!((count, byte[0]), (1, expected));
            failures += failed;
        }
        failures + sender.join().unwrap()
    })
}

fn sockets() -> usize {
    let (listener, _) = until_spared(|| TcpListener::bind("127.0.0.1:0"));
    let address = listener.local_addr().unwrap();
    fiber::scope(|s| {
        let accepted = s.spawn(|| until_spared(|| listener.accept()));
        let (client, refused) = until_spared(|| TcpStream::connect(address));
        let ((server, _), failed) = accepted.join().unwrap();
        refused + failed + carry(server, client)
    })
}

fn pipes() -> usize {
    let (reader, writer) = io::pipe().unwrap();
    carry(reader, writer)
}

fn files() -> usize {
    let path = std::env::temp_dir().join(format!("ramie-faults-{}", std::process::id()));
    let (_, writes) = until_spared(|| fs::write(&path, b"bytes"));
    let (bytes, reads) = until_spared(|| fs::read(&path));
    assert_eq!(bytes, b"bytes");
    let (_, removals) = until_spared(|| match fs::remove_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => panic!("it failed and was done"),
        result => result,
    });
    writes + reads + removals
}

#[test]
fn the_errno_reaches_the_caller() {
    if is_child() {
        for workers in [1, 2] {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let failures = runtime.run(|| {
                let parts = [sockets, pipes, files].map(fiber::spawn);
                parts.map(|part| part.join().unwrap())
            });
            assert!(failures.iter().sum::<usize>() > 20, "{failures:?}");
        }
        return;
    }
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("RAMIE_SEED").unwrap_or(seed.to_string());
    for driver in ["uring", "poll"] {
        let faults = format!("{seed},{}", libc::ENOMEM);
        eprintln!("repeat with RAMIE_SEED={seed}");
        let variables = [("RAMIE_FAULTS", &*faults), ("RAMIE_DRIVER", driver)];
        let output = child_with("true", "the_errno_reaches_the_caller", &variables);
        assert!(output.status.success(), "{driver}: {}", stderr(&output));
    }
}
