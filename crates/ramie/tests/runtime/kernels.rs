//! The same program on the rings of older kernels, on polling, and on all that this kernel has.

use std::io::{Read, Write};
use std::time::Duration;

use crate::common::{assert_success, child_with, is_child};
use ramie::net::{TcpListener, TcpStream};
use ramie::{Runtime, cancel, fiber, fs, process::Command};

fn echo() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    fiber::scope(|s| {
        s.spawn(|| {
            let (mut server, _) = listener.accept().unwrap();
            let mut bytes = Vec::new();
            server.read_to_end(&mut bytes).unwrap();
            server.write_all(&bytes).unwrap();
        });
        let data: Vec<u8> = (0..300_000).map(|at| (at % 251) as u8).collect();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&data).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        assert_eq!(back, data);
    });
}

fn names_and_files() {
    let folder = std::env::temp_dir().join(format!("ramie-kernels-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("one"), b"bytes").unwrap();
    fs::rename(folder.join("one"), folder.join("two")).unwrap();
    assert_eq!(fs::read(folder.join("two")).unwrap(), b"bytes");
    fs::remove_file(folder.join("two")).unwrap();
    fs::remove_dir(&folder).unwrap();
}

fn waits_that_end() {
    let (mut reader, _writer) = ramie::io::pipe().unwrap();
    let waited = cancel::with_timeout(Duration::from_millis(5), || reader.read(&mut [0; 4]));
    assert!(waited.is_err(), "nobody writes");
    fiber::sleep(Duration::from_millis(5));
    assert!(Command::new("true").status().unwrap().success());
}

#[test]
fn older_kernels_give_the_same_results() {
    if is_child() {
        for workers in [1, 2] {
            Runtime::builder().workers(workers).build().unwrap().run(|| {
                let fibers = [echo, names_and_files, waits_that_end].map(fiber::spawn);
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            });
        }
        return;
    }
    for (variable, value) in [
        ("RAMIE_CAPS", ""),
        ("RAMIE_CAPS", "linux-5.15"),
        ("RAMIE_CAPS", "linux-6.1"),
        ("RAMIE_CAPS", "linux-6.6"),
        ("RAMIE_CAPS", "linux-5.15,-path_calls,-ext_arg"),
        ("RAMIE_DRIVER", "poll"),
        ("RAMIE_SUBMIT", "sidecar"),
        ("RAMIE_SUBMIT", "kernel-thread"),
    ] {
        assert_success(&child_with(
            "true",
            "older_kernels_give_the_same_results",
            &[(variable, value)],
        ));
    }
    for submitter in ["sidecar", "kernel-thread"] {
        for caps in ["linux-5.15", "linux-6.1", "linux-6.6", "-ext_arg"] {
            let variables = [("RAMIE_SUBMIT", submitter), ("RAMIE_CAPS", caps)];
            assert_success(&child_with("true", "older_kernels_give_the_same_results", &variables));
        }
    }
}
