//! A wait that the driver refuses: the errno reaches whoever polls, who would else poll for ever.

use std::{io::Write, process::Command};

use ramie::{Driver, Runtime, future::block_on, os::unix::net::UnixStream};
use ramie_futures::Io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ENOMEM: i32 = 12;
const CHILD: &str = "RAMIE_TEST_CHILD";

fn everywhere(f: impl Fn() + Sync) {
    for driver in [Driver::Uring, Driver::Poll] {
        match Runtime::builder().driver(driver).workers(1).build() {
            Ok(runtime) => runtime.run(&f),
            Err(error) => eprintln!("skipped: {driver:?} cannot be had: {error}"),
        }
    }
    std::thread::scope(|s| s.spawn(&f).join().expect("the plain thread's run"));
}

/// Each op of this process fails.
fn refused() {
    everywhere(|| {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut ours = Io::new(UnixStream::from(ours));
        let error = block_on(ours.read(&mut [0; 8])).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(ENOMEM));
        // More than there is room for.
        let error = block_on(ours.write_all(&vec![0; 8 << 20])).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(ENOMEM));
        // What needs no wait is done.
        theirs.write_all(b"text").unwrap();
        assert_eq!(block_on(ours.read(&mut [0; 8])).unwrap(), 4);
    });
}

#[test]
fn a_refused_wait_is_an_error_of_the_stream() {
    if std::env::var_os(CHILD).is_some() {
        return refused();
    }
    let output = Command::new("timeout")
        .arg("20")
        .arg(std::env::current_exe().unwrap())
        .args(["a_refused_wait_is_an_error_of_the_stream", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("RAMIE_FAULTS", format!("1,{ENOMEM},1"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    // The status of `timeout`, if it is polled for ever.
    assert!(output.status.success(), "{}: {text}", output.status);
}
