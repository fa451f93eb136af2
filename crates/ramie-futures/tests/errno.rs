//! A wait that the driver refuses: the next poll returns the errno; otherwise it would poll for
//! ever.

mod common;

use std::io::Write;

use ramie::{Runtime, future::block_on, os::unix::net::UnixStream};
use ramie_futures::Io;
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ENOMEM: i32 = Errno::NOMEM.raw_os_error();

fn everywhere(f: impl Fn() + Sync) {
    for driver in common::drivers() {
        Runtime::builder().driver(driver).workers(1).build().unwrap().run(&f);
    }
    std::thread::scope(|s| s.spawn(&f).join().expect("the plain thread's run"));
}

/// Makes every op of this process fail.
fn refused() {
    everywhere(|| {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut ours = Io::new(UnixStream::from(ours));
        let error = block_on(ours.read(&mut [0; 8])).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(ENOMEM));
        // More bytes than the buffers hold.
        let error = block_on(ours.write_all(&vec![0; 8 << 20])).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(ENOMEM));
        // Calls that need no wait succeed.
        theirs.write_all(b"text").unwrap();
        assert_eq!(block_on(ours.read(&mut [0; 8])).unwrap(), 4);
    });
}

#[test]
fn a_refused_wait_is_an_error_of_the_stream() {
    let faults = format!("1,{ENOMEM},1");
    let environment = [("RAMIE_FAULTS", &*faults)];
    common::in_child("a_refused_wait_is_an_error_of_the_stream", &environment, refused);
}
