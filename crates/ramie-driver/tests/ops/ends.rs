//! The other end goes while an op waits, and nothing else becomes ready: the kernel reports only a
//! hang-up or an error.

use std::io::{Write, pipe};
use std::os::fd::AsRawFd;

use crate::support::{both, finish, submit};
use ramie_driver::{CURRENT_POSITION, Driver, Op, OpFrame, Wait, sys};

/// Submits an op that has to wait, and lets `end` happen then.
fn ended(driver: &mut Driver, op: Op, end: impl FnOnce()) -> i32 {
    let frame = OpFrame::new(op);
    assert!(submit(driver, &frame), "{op:?} has to wait");
    for _ in 0..3 {
        driver.turn(Wait::Never).unwrap();
    }
    assert!(!frame.is_complete(), "{op:?} waits for the other end");
    end();
    finish(driver, &frame)
}

#[test]
fn a_read_of_an_empty_pipe_ends_when_its_writer_goes() {
    both(|driver| {
        let (reader, writer) = pipe().unwrap();
        let mut buf = [0; 4];
        let (fd, buf) = (reader.as_raw_fd(), buf.as_mut_ptr());
        let op = Op::Read { fd, buf, len: 4, offset: CURRENT_POSITION };
        assert_eq!(ended(driver, op, || drop(writer)), 0);
    });
}

#[test]
fn a_write_to_a_full_pipe_ends_when_its_reader_goes() {
    both(|driver| {
        let (reader, mut writer) = pipe().unwrap();
        // Otherwise a thread of the kernel would wait in the write.
        sys::set_nonblocking(&writer, true).unwrap();
        while writer.write(&[0; 4096]).is_ok() {}
        let op = Op::Write {
            fd: writer.as_raw_fd(),
            buf: b"more".as_ptr(),
            len: 4,
            offset: CURRENT_POSITION,
        };
        assert_eq!(ended(driver, op, || drop(reader)), -libc::EPIPE);
    });
}
