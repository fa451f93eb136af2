//! Every op, on both drivers.
mod support;

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use ramie_driver::{Op, OpFrame};
use support::{both, finish, run, submit};

#[test]
fn nop_completes_with_zero() {
    both(|driver| assert_eq!(run(driver, Op::Nop), 0));
}

#[test]
fn receive_waits_for_data() {
    both(|driver| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut buf = [0u8; 16];
        let frame = OpFrame::new(Op::Recv {
            fd: ours.as_raw_fd(),
            buf: buf.as_mut_ptr(),
            len: 16,
            flags: 0,
        });
        assert!(submit(driver, &frame));
        driver.turn(ramie_driver::Wait::Never).unwrap();
        assert!(!frame.is_complete());
        theirs.write_all(b"hello").unwrap();
        assert_eq!(finish(driver, &frame), 5);
        assert_eq!(&buf[..5], b"hello");
    });
}
