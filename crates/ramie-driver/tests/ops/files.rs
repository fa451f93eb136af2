//! Ops on files: opening, writing in the background, syncing, on each backend.

use crate::support;
use std::{
    fs,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::PathBuf,
    ptr::NonNull,
};

use ramie_driver::{Call, Config, Driver, Op, OpFrame, Submitted, Wait, sys};

fn drivers() -> impl Iterator<Item = Driver> {
    let open = |choice| Driver::open(choice, &Config::small()).unwrap();
    support::choices().into_iter().map(open)
}

fn run(driver: &mut Driver, frame: &OpFrame) -> i32 {
    // SAFETY: the frame stays until it is popped below, and the tests keep the memory that it
    // points to.
    if unsafe { driver.submit(NonNull::from(frame)) } == Submitted::InFlight {
        while driver.pop_complete().is_none() {
            driver.turn(Wait::Until(None)).unwrap();
        }
    }
    frame.result()
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ramie-driver-{}-{name}", std::process::id()))
}

#[test]
fn a_file_is_opened_written_in_the_background_and_synced() {
    for mut driver in drivers() {
        let path = scratch(driver.kind().name());
        fs::write(&path, "").unwrap();
        let c_path = format!("{}\0", path.display());
        let flags = sys::O_RDWR | sys::O_CLOEXEC;
        let open = Op::Open { path: c_path.as_ptr(), flags, mode: 0 };
        let fd = run(&mut driver, &OpFrame::new(open));
        assert!(fd >= 0, "errno {}", -fd);
        // SAFETY: the op has just made the descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let text = b"written on a thread of the kernel";
        let (buf, len) = (text.as_ptr(), text.len() as u32);
        let write = Op::Write { fd: fd.as_raw_fd(), buf, len, offset: 0 };
        assert_eq!(run(&mut driver, &OpFrame::new(write).in_background()), len as i32);
        for data_only in [false, true] {
            let sync = Call::Sync { fd: fd.as_raw_fd(), data_only };
            assert_eq!(run(&mut driver, &OpFrame::new(Op::Call { call: &sync })), 0);
        }
        assert_eq!(fs::read(&path).unwrap(), text);
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn mistakes_are_the_kernels_errors() {
    for mut driver in drivers() {
        let open = Op::Open { path: c"/nowhere/at/all".as_ptr().cast(), flags: 0, mode: 0 };
        assert_eq!(run(&mut driver, &OpFrame::new(open)), -libc::ENOENT);
        let sync = Call::Sync { fd: 1_000_000, data_only: false };
        assert_eq!(run(&mut driver, &OpFrame::new(Op::Call { call: &sync })), -libc::EBADF);
    }
}
