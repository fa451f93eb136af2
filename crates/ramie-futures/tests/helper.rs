//! A helper without memory for its stack: the next poll fails; otherwise it would wait forever.

mod common;

use std::io::ErrorKind;

use ramie::{Driver, Runtime, future::block_on, os::unix::net::UnixStream};
use ramie_futures::Io;
use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::io::AsyncReadExt;

/// Limits the address space of this process to little more than it uses.
fn leave_no_room() {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let room = Some(pages * rustix::param::page_size() as u64 + (4 << 20));
    setrlimit(Resource::As, Rlimit { current: room, maximum: room }).unwrap();
}

fn without_memory() {
    // The fiber of `run` has a stack of another size, so no stack of this size has been mapped.
    let runtime = Runtime::builder().driver(Driver::Poll).workers(1).stack_size(1 << 20);
    runtime.build().unwrap().run(|| {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut ours = Io::new(UnixStream::from(ours));
        leave_no_room();
        for _ in 0..2 {
            let error = block_on(ours.read(&mut [0; 8])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        }
    });
}

#[test]
fn a_helper_that_cannot_start_is_an_error_of_the_stream() {
    common::in_child("a_helper_that_cannot_start_is_an_error_of_the_stream", &[], without_memory);
}
